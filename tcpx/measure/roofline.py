"""The least time that a piece of work can take on this machine (Williams, Waterman and Patterson, 2009)."""

from collections.abc import Mapping
from typing import Final

from tcpx.measure.limits import Limits
from tcpx.records import frozen

PEAK: Final = "fma_f32"
"""The peak of operations that have none of their own."""


@frozen
class Work:
    """What a call has to do: operations, of the kind whose limit is `peak`, and bytes that it cannot avoid."""

    operations: float
    bytes: float
    peak: str = PEAK


@frozen
class Bound:
    """The limit of a call in seconds, and which of `Limits.rates` sets it."""

    seconds: float
    by: str


def limit_of_operations(operations: Mapping[str, float], limits: Limits) -> Bound | None:
    """The least time of operations by the peak that limits them, and the peak that sets most of it; None of no
    operations, or where the machine has no peak. Kinds take turns; one without a peak of its own counts as `fma_f32`.
    """
    other = limits.rates.get(PEAK, 0.0)
    rates = {kind: limits.rates.get(kind) or other for kind in operations}
    spent = {kind: number / rates[kind] for kind, number in operations.items() if number and rates[kind]}
    return Bound(sum(spent.values()), max(spent, key=lambda kind: spent[kind])) if spent else None


def bound(work: Work, limits: Limits) -> Bound | None:
    """max(operations / peak, bytes / read bandwidth of the level that holds them).

    None where the target has no such instructions, or there is nothing to do.
    """
    parts: list[Bound] = []
    for rate, amount in amounts(work, limits).items():
        if rate not in limits.rates:
            return None
        parts.append(Bound(amount / limits.rates[rate], rate))
    return max(parts, key=lambda part: part.seconds, default=None)


def amounts(work: Work, limits: Limits) -> dict[str, float]:
    """What a call has to do, by the rate that limits it; of `limits`, the caches count."""
    each = {work.peak: work.operations, f"read_{limits.level(work.bytes)}": work.bytes}
    return {rate: amount for rate, amount in each.items() if amount > 0}
