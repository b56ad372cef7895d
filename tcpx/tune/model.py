"""What a model expects of a candidate before it is compiled: for pruning, cautiously, and for what to try first."""

from collections.abc import Mapping, Sequence
from typing import Final

import tcpx
from tcpx.costs.kernel_cost import KernelCost
from tcpx.measure.limits import Limits
from tcpx.quantities import duration
from tcpx.records import frozen
from tcpx.tune.statistics import geometric_mean

SLACK: Final = 2.0
"""Somewhat more carried vectors than there are registers may be worth it; of twice as many, half are spilled."""
HOPELESS: Final = 3.0
"""A candidate is pruned if it is expected to take more than so many times as long as the incumbent is."""


@frozen
class Estimate:
    """Expected seconds of a call, and what takes them: instructions, or bytes from beyond a cache."""

    seconds: float
    by: str


def estimate(costs: Sequence[KernelCost], weights: Sequence[float], target: tcpx.Target, limits: Limits) -> Estimate:
    """What to expect of a candidate, from its costs for each workload. Work on memory and on registers overlaps."""
    rates = limits.rates
    slot = 2 * target.lanes("f32") / rates["fma_f32"]
    found: list[tuple[float, str]] = []
    for cost in costs:
        parts = [(cost.slots * slot, "instructions")]
        for level in ("l2", "l3", "memory"):
            moved = getattr(cost, level)
            if moved and f"read_{level}" in rates:
                parts.append((moved / rates[f"read_{level}"], f"bytes from {level}"))
        found.append(max(parts))
    heaviest = max(range(len(found)), key=lambda k: weights[k])
    return Estimate(geometric_mean([max(seconds, 1e-12) for seconds, _ in found], weights), found[heaviest][1])


def pressure_refusal(costs: Sequence[KernelCost], registers: int) -> str | None:
    """Why a kernel cannot be fast: accumulators in memory. None where nothing says so."""
    most = max((cost.carried for cost in costs), default=0)
    if most <= SLACK * registers:
        return None
    return f"register pressure: a loop carries {most} vectors, there are {registers} registers"


class Trust:
    """How far the model is believed: less where it expected more of a measured candidate than it took."""

    def __init__(self) -> None:
        self._worst = 1.0

    def learn(self, expected: float, measured: float) -> None:
        """Both as parts of the incumbent's."""
        self._worst = max(self._worst, expected / measured)

    def refusal_of(self, expected: Estimate, incumbent: float, number: int) -> str | None:
        """Why a candidate is not worth compiling beside an incumbent of which `incumbent` seconds are expected; None
        where it may be."""
        times = expected.seconds / incumbent
        if times <= HOPELESS * self._worst:
            return None
        seconds = f"{duration(expected.seconds)}"
        return f"the model expects {seconds} for {expected.by}, {times:.1f} times what it expects of #{number}"


def costs_of(said: Sequence[Mapping[str, float]]) -> list[KernelCost]:
    """The costs that a server reports."""
    return [KernelCost(held["slots"], held["l2"], held["l3"], held["memory"], int(held["carried"])) for held in said]
