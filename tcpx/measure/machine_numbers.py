"""The numbers of a machine, measured: the rates and costs of a table for `native`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from math import ceil, log2
from typing import Final

import tcpx
from tcpx.measure.fork_and_join import fork_and_join_seconds
from tcpx.measure.limits import Machine
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.measure.recipe_lines import KINDS, levels_of
from tcpx.processor import this_processor
from tcpx.records import frozen

PATIENCE: Final = 1.0
"""Seconds for a rate."""
FMA, L3, MEMORY = "fma_f32", "read_l3", "read_memory"
VECTORS: Final = 64
"""In whose time the rates of memory are counted."""
MARGIN: Final = 2.0
"""Threads are used from so many times the work on where two of them break even: a fork takes longer in a process that
did something else before, and two threads never have all of the memory twice."""
LEAST_THRESHOLD: Final = 1 << 14


@frozen
class Step:
    """One measurement: its name, and the lines of the table that it gives."""

    name: str
    measure: Callable[[], list[str]]


def steps_of(target: tcpx.Target) -> Iterator[Step]:
    """All measurements for the table of a target, those of rates first."""
    rates = cache(partial(_rates, target))
    yield Step("l3_rate", lambda: [f"l3_rate: {l3_rate(target, rates()[L3], rates()[FMA])}"])
    yield Step("memory_rates", lambda: [f"memory_rates: {memory_rates(target, rates(), _rates_of_all(target))}"])
    if len(available_cpus()) > 1:  # else the table's: no nest is parallel that one thread runs
        yield Step("parallel_threshold", lambda: [f"parallel_threshold: {_threshold(target, rates()[FMA])}"])
    for kind in (kind for kind in KINDS if kind in target.costs):
        for number, level in enumerate(levels_of(kind, target)):
            head = [*(["costs:"] if kind == next(iter(KINDS)) else []), f"  {kind}:"] if number == 0 else []
            yield Step(
                f"costs of {kind}, {number + 1}",
                lambda head=head, level=level: [*head, f"    {level.entry_or_known(level.lines(target))}"],
            )


def head_of(target: tcpx.Target) -> list[str]:
    """The first lines of the file."""
    return [
        f"# Written by `tcpx calibrate`: what `native` has here in place of the numbers of {target.name}.yaml.",
        f"processor: {json.dumps(this_processor().name)}",
    ]


def l3_rate(target: tcpx.Target, read: float, operations: float) -> int:
    """Bytes that a core reads from L3 while it multiplies and adds a vector, from bytes and operations a second."""
    return max(1, round(read / (operations / (2 * target.lanes("f32")))))


def memory_rates(target: tcpx.Target, one: Mapping[str, float], every: Mapping[str, float]) -> list[int]:
    """Bytes that one core, and all, read from memory while one multiplies and adds 64 vectors, from the rates of one
    and of all; a second core does not read less than the first one alone."""
    vectors = one[FMA] / (2 * target.lanes("f32"))
    alone, together = (max(1, round(VECTORS * rates[MEMORY] / vectors)) for rates in (one, every))
    return [alone, max(alone, together)]


def parallel_threshold(fork_and_join: float, operations: float) -> int:
    """The least work for which threads pay, a power of two: two threads save half of its time, and take a fork and
    join, in seconds; operations are those of a second."""
    break_even = 2 * fork_and_join * operations
    return max(LEAST_THRESHOLD, 1 << ceil(log2(max(1.0, MARGIN * break_even))))


def _threshold(target: tcpx.Target, operations: float) -> int:
    return parallel_threshold(fork_and_join_seconds(target), operations)


def _rates(target: tcpx.Target) -> Mapping[str, float]:
    return _rates_on(available_cpus()[:1], (FMA, L3, MEMORY), target)


def _rates_of_all(target: tcpx.Target) -> Mapping[str, float]:
    return _rates_on(available_cpus(), (MEMORY,), target)


def _rates_on(cpus: Sequence[int], only: Sequence[str], target: tcpx.Target) -> Mapping[str, float]:
    with PinnedThreads(cpus) as threads:
        return Machine(target, threads, PATIENCE).limits(only).rates
