"""The numbers of a machine, measured: the rates and costs of a table for `native`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
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
FMA, L3 = "fma_f32", "read_l3"
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


def parallel_threshold(fork_and_join: float, operations: float) -> int:
    """The least work for which threads pay, a power of two: two threads save half of its time, and take a fork and
    join, in seconds; operations are those of a second."""
    break_even = 2 * fork_and_join * operations
    return max(LEAST_THRESHOLD, 1 << ceil(log2(max(1.0, MARGIN * break_even))))


def _threshold(target: tcpx.Target, operations: float) -> int:
    return parallel_threshold(fork_and_join_seconds(target), operations)


def _rates(target: tcpx.Target) -> dict[str, float]:
    with PinnedThreads(available_cpus()[:1]) as threads:
        return dict(Machine(target, threads, PATIENCE).limits((FMA, L3)).rates)
