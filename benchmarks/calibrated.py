"""A processor that nobody measured, and what a calibration makes of it: sixty payloads, and the targets for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import yaml

import tcpx
from tcpx.calibrated import keep_calibration, uncalibrated
from tcpx.installed import TABLES
from tcpx.machine import CACHES
from tcpx.measure.machine_numbers import head_of, steps_of
from tcpx.store.place import VARIABLE
from tcpx.tune.space import Value

FILE: Final = Path(__file__).with_suffix(".yaml")
MEASURED: Final = ("costs", "l3_rate", "memory_rates", "parallel_threshold")
"""What of a table a calibration has as well."""


@dataclass(frozen=True, slots=True)
class Form:
    """What the workloads of a name have in common: a payload, and the names of the sizes that stand in it."""

    name: str
    dims: tuple[str, ...]
    payload: str
    sizes: tuple[tuple[object, ...], ...]

    def modules(self) -> Iterator[tuple[str, tcpx.Module]]:
        """Each workload with its name."""
        for sizes in self.sizes:
            given = dict(zip(self.dims, sizes, strict=True))
            yield f"{self.name}/{'x'.join(map(str, sizes))}", _module(Template(self.payload).substitute(given), given)


def workloads() -> Iterator[tuple[str, tcpx.Module]]:
    """Those of the file, with their names."""
    table: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for name, given in table.items():
        form = Form(name, tuple(given["dims"]), given["payload"], tuple(map(tuple, given["sizes"])))
        yield from form.modules()


def _module(payload: str, sizes: dict[str, object]) -> tcpx.Module:
    if "w.npz" not in payload:
        return tcpx.parse(payload)
    with TemporaryDirectory(prefix="tcpx-tuner-") as folder:
        k, n = int(str(sizes["k"])), int(str(sizes["n"]))
        np.savez(Path(folder, "w.npz"), w=np.random.default_rng(0).standard_normal((k, n), np.float32))
        path = Path(folder, "f.tcp")
        path.write_text(payload, encoding="utf-8")
        return tcpx.load(path)


def each_recipe(module: tcpx.Module) -> list[dict[str, Value]]:
    """Points with each word of each knob of words, and the defaults of the others."""
    knobs = tcpx.search_space(module, target="native").variables
    return [{knob.path: item} for knob in knobs for item in knob.items({}) if isinstance(item, str)]


@contextmanager
def own_cache() -> Iterator[Path]:
    """A cache without a calibration, for this process and those that it starts."""
    known = os.environ.get(VARIABLE)
    with TemporaryDirectory(prefix="tcpx-tuner-") as folder:
        os.environ[VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            if known is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = known


def emptied(folder: Path) -> tcpx.Target:
    """The target of this machine, with its caches, but without the costs of recipes in its table, and with the rates of
    the table that it is based on, another processor's."""
    target = uncalibrated()
    table: dict[str, Any] = yaml.safe_load((TABLES / f"{target.name}.yaml").read_text(encoding="utf-8"))
    kept = {key: value for key, value in table.items() if "base" not in table or key not in MEASURED}
    path = folder / f"{target.name}.yaml"
    own = {**kept, "costs": {}, **{cache: getattr(target, cache) for cache in CACHES}}
    path.write_text(yaml.safe_dump(own), encoding="utf-8")
    return tcpx.load_target(path)


def calibrate(target: tcpx.Target, path: Path) -> tcpx.Target:
    """`native` with what a calibration from this target measures; or with what one measured before, where that file is
    there, else it is written."""
    if not path.is_file():
        lines = [*head_of(target), *(line for step in steps_of(target) for line in step.measure())]
        path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    keep_calibration(path.read_text(encoding="utf-8"))
    return tcpx.load_target("native")
