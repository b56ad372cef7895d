"""The table of slow programs: each in a slow and in a fast form, and why the slow one is slow.

An entry of `slow_programs.yaml` has

* a `name`, which begins with its main cause, and what the program `does`;
* its `causes`, the main one first: a remark that names one of them is right;
* the `slow` form, a `payload` and a `schedule`, and what is different in the `fast` form; a form without a schedule has
  the default one, and an entry without `fast` the same payload with the default schedule;
* `sizes` of the symbols in the call, and `constants`, random arrays by their types (`512x64xf32`);
* the `tolerance` within which the results agree (1e-4 by default), since the order of float operations differs;
* the `factors`, seconds of the slow form over those of the fast one, by the processor: those of the `machines` of the
  table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

import tcpx

TABLE: Final = Path(__file__).parent / "slow_programs.yaml"
CAUSES: Final = (
    "padding",
    "recomputation",
    "element_copy",
    "constant_work",
    "scalar",
    "fallback",
    "dot_product",
    "below_limit",
)
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
DTYPES: Final = {"f32": np.float32, "f64": np.float64, "si8": np.int8}


@dataclass(frozen=True, slots=True)
class Form:
    """A payload and its schedule; None is the default schedule."""

    payload: str
    schedule: str | None = None

    def module(self, constants: Mapping[str, Array]) -> tcpx.Module:
        return tcpx.parse(self.payload, constants=dict(constants))

    def kernel(self, constants: Mapping[str, Array]) -> tcpx.Kernel:
        """Raises what parsing and compiling raise."""
        schedule = None if self.schedule is None else tcpx.parse_schedule(self.schedule)
        return tcpx.compile(self.module(constants), schedule)


@dataclass(frozen=True, slots=True)
class SlowProgram:
    """An entry of the table."""

    name: str
    does: str
    causes: tuple[str, ...]
    slow: Form
    fast: Form
    sizes: Mapping[str, int]
    constants: Mapping[str, str]
    tolerance: float
    factors: Mapping[str, float]

    def factor(self, processor: str) -> float:
        """The measured factor on this processor; on another, the geometric mean of those that were measured."""
        measured = self.factors.values()
        return self.factors.get(processor) or prod(measured) ** (1 / len(measured))

    @property
    def forms(self) -> tuple[Form, Form]:
        return self.slow, self.fast

    def stored(self) -> dict[str, Array]:
        """The constants, random: standard normal floats, integers from 0 to 99."""
        generator = np.random.default_rng(0)
        return {name: _random(generator, text) for name, text in self.constants.items()}

    def arguments(self) -> tuple[Array, ...]:
        """Random arguments, the same at each call."""
        return tcpx.random_inputs(self.slow.module(self.stored()), sizes=self.sizes)


def _random(generator: np.random.Generator, text: str) -> Array:
    *extents, dtype = text.split("x")
    shape = [int(extent) for extent in extents]
    if dtype.startswith("f"):
        return generator.standard_normal(shape).astype(DTYPES[dtype])
    return generator.integers(0, 100, shape).astype(DTYPES[dtype])


def slow_programs(pattern: str = "*") -> list[SlowProgram]:
    """The programs of the table whose names match, in its order."""
    entries = yaml.safe_load(TABLE.read_text(encoding="utf-8"))["programs"]
    return [_program(**entry) for entry in entries if fnmatch(entry["name"], pattern)]


def _program(
    name: str,
    does: str,
    causes: list[str],
    slow: Mapping[str, str],
    factors: Mapping[str, float],
    fast: Mapping[str, str] = {},
    sizes: Mapping[str, int] = {},
    constants: Mapping[str, str] = {},
    tolerance: float = 1e-4,
) -> SlowProgram:
    forms = Form(**slow), Form(**{"payload": slow["payload"], **fast})
    return SlowProgram(name, does, tuple(causes), *forms, sizes, constants, tolerance, factors)
