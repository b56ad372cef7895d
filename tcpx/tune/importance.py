"""Which knobs mattered."""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from statistics import fmean, pvariance
from typing import Final

from tcpx.tune.verdicts import Candidate

MOST_CLASSES: Final = 6
FEWEST: Final = 10
"""Candidates below which nothing is said."""


def importance(candidates: Sequence[Candidate]) -> dict[str, float]:
    """For each knob with several values, the part of the variance of log time between candidates of different values
    (a main effect: eta squared, corrected for the number of values), the largest first; {} where there are too few."""
    measured = [(c.point, log(c.relative)) for c in candidates if c.alike is None and c.relative is not None]
    total = pvariance([time for _, time in measured]) if measured else 0.0
    if len(measured) < FEWEST or total == 0:
        return {}
    found: dict[str, float] = {}
    for path in dict.fromkeys(path for point, _ in measured for path in point):
        classes = _classes([point.get(path) for point, _ in measured])
        groups: defaultdict[object, list[float]] = defaultdict(list)
        for class_, (_, time) in zip(classes, measured, strict=True):
            groups[class_].append(time)
        free = len(measured) - len(groups)
        if len(groups) < 2 or free < 1:
            continue
        within = sum((time - fmean(times)) ** 2 for times in groups.values() for time in times) / free
        found[path] = max(0.0, 1 - within / (total * len(measured) / (len(measured) - 1)))
    return dict(sorted(found.items(), key=lambda held: -held[1]))


def _classes(values: Sequence[object]) -> list[object]:
    """The values; of many different numbers, the part of their order that each is in."""
    distinct = set(values)
    if len(distinct) <= MOST_CLASSES:
        return list(values)
    order = sorted(distinct, key=lambda value: value if isinstance(value, int | float) else -1.0)
    rank = {value: k * MOST_CLASSES // len(order) for k, value in enumerate(order)}
    return [rank[value] for value in values]
