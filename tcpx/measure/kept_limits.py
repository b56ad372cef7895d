"""The limits of this machine, measured once and kept beside the library of the loops that they were measured with."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tcpx.measure.limits import Limits, Machine
from tcpx.store.files import write_whole
from tcpx.tuned import cpu_name


def kept_limits(machine: Machine) -> Limits:
    """What is kept for this processor and number of threads; measured, for a second or two, where nothing is."""
    path = _path(machine)
    known = _read(path)
    return known if known is not None else _keep(path, machine.limits())


def raised_limits(machine: Machine, known: Limits) -> Limits:
    """Measured again, for when something ran faster than these allow: the higher rate of each counts from now on."""
    return _keep(_path(machine), machine.limits().with_best(known))


def _path(machine: Machine) -> Path:
    cpu = sha256(f"{cpu_name()} {len(machine.threads.cpus)}".encode()).hexdigest()[:12]
    return machine.library_path.with_suffix(f".{cpu}.json")


def _read(path: Path) -> Limits | None:
    """None for a file that is not there, or that is damaged: it is written anew."""
    try:
        held: Any = json.loads(path.read_text(encoding="utf-8"))
        rates, caches = (cast("Mapping[str, float]", held[name]) for name in ("rates", "caches"))
        return Limits(int(held["threads"]), dict(rates), {name: int(size) for name, size in caches.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _keep(path: Path, limits: Limits) -> Limits:
    write_whole(path, json.dumps(asdict(limits)).encode())
    return limits
