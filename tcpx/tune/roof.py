"""The limit of the machine for what is tuned: how fast any schedule could be."""

from tcpx.costs.demand import Demand, demand_of
from tcpx.measure.limits import Limits
from tcpx.measure.roofline import Bound, limit_of_operations
from tcpx.records import frozen
from tcpx.tune.problem import Problem
from tcpx.tune.statistics import geometric_mean


@frozen
class Roof:
    """The least seconds of a call on this machine, and which rate of `limits` sets it; over several workloads all are
    weighted geometric means, as the times of candidates are."""

    seconds: float
    by: str
    operations: float
    bytes: float
    limits: Limits

    def fraction(self, seconds: float) -> float:
        """The part of the machine's limit that a call of so many seconds reaches."""
        return self.seconds / seconds


def roof_of(problem: Problem, limits: Limits) -> Roof | None:
    """The roof of a problem; None where a workload asks for nothing that has a limit."""
    demands = [demand_of(problem.module, problem.target, example.arrays) for example in problem.examples]
    weights = [example.workload.weight for example in problem.examples]
    bounds = [least_seconds(demand, limits) for demand in demands]
    found = [bound for bound in bounds if bound is not None]
    if len(found) < len(bounds):
        return None
    heaviest = max(range(len(found)), key=lambda k: weights[k])
    return Roof(
        geometric_mean([held.seconds for held in found], weights),
        found[heaviest].by,
        geometric_mean([sum(demand.operations.values()) or 1.0 for demand in demands], weights),
        geometric_mean([demand.bytes or 1.0 for demand in demands], weights),
        limits,
    )


def least_seconds(demand: Demand, limits: Limits) -> Bound | None:
    """max(operations / peaks, bytes / read bandwidth of the level that holds them), and what sets it; None where there
    is nothing to do."""
    level = f"read_{limits.level(demand.bytes)}"
    computing = limit_of_operations(demand.operations, limits)
    reading = Bound(demand.bytes / limits.rates[level], level) if demand.bytes and level in limits.rates else None
    found = [held for held in (computing, reading) if held is not None]
    return max(found, key=lambda held: held.seconds, default=None)
