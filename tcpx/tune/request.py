"""What `tcpx.tune` was asked for, with all defaults filled in."""

from collections.abc import Mapping

import tcpx
from tcpx.records import frozen
from tcpx.tune.duel import Effort
from tcpx.tune.slots import Limits
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload


@frozen
class Request:
    """The arguments of `tcpx.tune`, and what a space file adds to them."""

    module: tcpx.Module
    schedule: tcpx.Schedule
    target: str
    threads: int
    fixed: Mapping[str, Value]
    workloads: tuple[Workload, ...]
    trials: int
    budget: float | None
    sampler: str
    seed: int
    workers: int
    limits: Limits
    effort: Effort
    plugins: tuple[str, ...]
    memory: int
    seeds: tuple[Mapping[str, Value], ...]
    processes: int
    early_stop: int | None
    executor: str
    beside_bare: bool
    """Whether the winner is compared with the payload compiled without the schedule, which is another one."""
