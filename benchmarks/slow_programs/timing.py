"""The times of calls, measured beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

ROUNDS: Final = 30
SAMPLE: Final = 2e-3
"""Seconds of one sample, unless a call takes longer."""
MOST: Final = 0.5
"""Seconds after which no further round begins."""


def seconds_of(calls: Sequence[Callable[[], object]]) -> list[float]:
    """The least time of each call in seconds: the samples of all calls take turns."""
    counts = [_count(call) for call in calls]
    least = [float("inf")] * len(calls)
    end = perf_counter() + MOST
    for _ in range(ROUNDS):
        for place, (call, count) in enumerate(zip(calls, counts, strict=True)):
            least[place] = min(least[place], _sample(call, count))
        if perf_counter() > end:
            break
    return least


def _count(call: Callable[[], object]) -> int:
    _sample(call, 2)
    return max(1, min(100_000, round(SAMPLE / _sample(call, 2))))


def _sample(call: Callable[[], object], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        call()
    return (perf_counter() - start) / count
