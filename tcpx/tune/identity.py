"""What makes two studies, or two records, about the same thing."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import tcpx
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload

_CPUINFO = Path("/proc/cpuinfo")


def identity_of(
    module: tcpx.Module,
    schedule: tcpx.Schedule,
    target: str,
    threads: int,
    workloads: Sequence[Workload],
    fixed: Mapping[str, Value],
) -> tuple[str, dict[str, str]]:
    """A key of 16 digits, and what it is made of."""
    compiler = tcpx.find_compiler()
    facts = {
        "payload": tcpx.fingerprint(module),
        "schedule": schedule_hash(schedule),
        "target": target,
        "compiler": compiler.version.splitlines()[0] if compiler.version else " ".join(compiler.command),
        "flags": " ".join(tcpx.compiler_flags(tcpx.load_target(target), threads)),
        "threads": str(threads),
        "cpu": cpu_name(),
        "workloads": "; ".join(f"{workload} x{workload.weight:g}" for workload in workloads),
        "params": ", ".join(f"{name}={value!r}" for name, value in sorted(fixed.items())),
    }
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16], facts


def schedule_hash(schedule: tcpx.Schedule) -> str:
    """The text of a schedule and of all that it imports, as 16 digits; comments and layout do not count."""
    text = "\n".join(repr(unit.file.items) for unit in schedule.units)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def cpu_name() -> str:
    """The model of the processor."""
    text = _CPUINFO.read_text(encoding="utf-8", errors="replace") if _CPUINFO.is_file() else ""
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())
