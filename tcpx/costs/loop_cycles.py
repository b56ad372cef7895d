"""Cycles of an iteration of an innermost loop, as modelled."""

from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.records import frozen
from tcpx.target.cores import Core

DIVIDER: Final = "div"
"""What the port of a divider is called."""


@frozen
class LoopCycles:
    """An iteration of an innermost loop. `ports` are the cycles that each port is busy, `entry` those in which its
    instructions enter the core, `latency` those of `chain`, from what an iteration leaves to what the next one leaves,
    by the names of rows; `through_memory` says that the chain is stored and loaded. `waiting` are those in which
    instructions on vectors wait for operands of the same iteration, together. `bytes` are read and written.
    `spilled` vectors have no register. `startup` is the part of an iteration in what a loop that the C compiler makes a
    copy of takes to begin. `classes` are the cycles that instructions of each class keep a port that
    computes; `widest` are the bits of the widest vector."""

    ports: Mapping[str, float]
    entry: float
    latency: float
    chain: tuple[str, ...]
    bytes: int
    spilled: int
    through_memory: bool
    waiting: float
    classes: Mapping[str, float]
    widest: int
    core: Core
    startup: float = 0.0

    @property
    def load_cycles(self) -> float:
        """Those of the port that reads the first cache."""
        return max((self.ports.get(port, 0.0) for port in self.core.loads), default=0.0)

    @property
    def store_cycles(self) -> float:
        """Those of the port that writes it."""
        return max((self.ports.get(port, 0.0) for port in self.core.stores), default=0.0)

    @property
    def compute_cycles(self) -> float:
        """Those of the busiest other port."""
        memory = self.core.loads | self.core.stores
        others = (held for port, held in self.ports.items() if port not in memory and not port.startswith(DIVIDER))
        return max(others, default=0.0)

    @property
    def divider_cycles(self) -> float:
        """Those of the divider."""
        return max((cycles for port, cycles in self.ports.items() if port.startswith(DIVIDER)), default=0.0)

    @property
    def window_cycles(self) -> float:
        """Those of an iteration if as many instructions wait at once as the core has places for: iterations overlap no
        further, however independent they are."""
        return self.waiting / self.core.window

    @property
    def spill_cycles(self) -> float:
        """Those by which vectors that have no register delay it, where the core does not hide that."""
        return self.core.spill * max(0, self.spilled - self.core.hidden_spills)

    @property
    def throughput(self) -> float:
        """Cycles that it takes if it waits for no result of the iteration before. What is nearly as busy as what is the
        busiest delays it."""
        return self._throughput(self.divider_cycles)

    def _throughput(self, divider: float) -> float:
        parts = self.compute_cycles, divider, self.load_cycles, self.store_cycles, self.entry
        return crowded((*parts, self.window_cycles), self.core.crowding) + self.spill_cycles

    def without_divider(self, part: float) -> float:
        """Cycles that it takes if so much of what the divider does were products."""
        return crowded((self._throughput(self.divider_cycles * (1 - part)), self.latency), self.core.waiting)

    @property
    def without_spills(self) -> float:
        """Cycles that it takes if every vector had a register."""
        return crowded((self.throughput - self.spill_cycles, self.latency), self.core.waiting)

    @property
    def cycles(self) -> float:
        """Cycles that it takes with all data in the first cache."""
        return crowded((self.throughput, self.latency), self.core.waiting) + self.startup


def crowded(parts: Sequence[float], exponent: float) -> float:
    """The largest part, and more where others are nearly as large."""
    most = max(parts)
    return most * sum((part / most) ** exponent for part in parts) ** (1 / exponent) if most else 0.0
