"""What a set of cases has exercised: the net is not empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import evaluate, variables

KEY = ("specialize", "tile", "fuse", "pack", "pad", "vectorize")
"""Transforms of which each pair has to meet in schedules; a plan runs them in this order."""
SPECIALIZE_WHEN = "specialize when"
RANGES = ("no iteration", "less than a step", "more than a step", "two steps and one")
"""What the ranges of loops have to be like, at the sizes the numbers are compared at."""


@dataclass(slots=True)
class Counts:
    """What a set of cases has exercised."""

    cases: int = 0
    statements: int = 0
    succeeded: int = 0
    long_schedules: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    unproven: int = 0
    compiled: int = 0
    refused: int = 0
    broken_by_compiler: int = 0
    by_transform: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    messages: Counter[str] = field(default_factory=Counter[str])
    ranges: Counter[str] = field(default_factory=Counter[str])

    def finish(self, applied: list[str], statements: int) -> None:
        """One more schedule."""
        self.cases += 1
        self.statements += statements
        self.succeeded += len(applied)
        self.long_schedules += len(applied) >= 5
        names = ["specialize" if n == SPECIALIZE_WHEN else n for n in applied]
        self.by_transform.update(applied)
        self.pairs.update(combinations([n for n in KEY if n in names], 2))

    def see_ranges(self, module: Module, sizes: Iterable[Mapping[str, int]]) -> None:
        """Note the ranges that the loops of a payload have at these sizes; of inner loops, those that do not depend."""
        loops = [op.var for op in module.main.walk() if isinstance(op, Loop)]
        for var in loops:
            if not any(variables(d) for d in (var.lower, var.upper, var.step)):
                for at in sizes:
                    step = evaluate(var.step, at)
                    self.ranges.update(_kinds_of_range(evaluate(var.upper, at) - evaluate(var.lower, at), step))


def _kinds_of_range(length: int, step: int) -> list[str]:
    holds = (length <= 0, 0 < length < step, length > step, length == 2 * step + 1)
    return [name for name, held in zip(RANGES, holds, strict=True) if held]
