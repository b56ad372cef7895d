"""How far two measurements of the same thing are apart in a run: tcpx, and tcpx again."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from benchmarks.registry import AGAIN, TCPX
from tcpx.measure.rows import Row

MOST: Final = 0.015
"""A run in which they are as far apart does not count."""


def apart(one: float, other: float) -> float:
    """The longer of two times over the shorter, less 1."""
    return max(one, other) / min(one, other) - 1


def self_spreads(rows: Sequence[Row]) -> dict[int, float]:
    """By number of threads, how far they are apart: the median over the workloads."""
    again = {(row.workload, row.threads): row.median_s for row in rows if row.peer == AGAIN and row.median_s}
    spreads: dict[int, list[float]] = {}
    for row in rows:
        other = again.get((row.workload, row.threads))
        if row.peer == TCPX.name and row.median_s and other:
            spreads.setdefault(row.threads, []).append(apart(other, row.median_s))
    return {threads: median(found) for threads, found in sorted(spreads.items())}
