"""Cycles of an iteration of an innermost loop, as modelled."""

from collections.abc import Mapping
from typing import Final

from tcpx.records import frozen
from tcpx.target.cores import Core

CROWDING: Final = 3
"""How little ports that are not the busiest delay a loop: measured on a Granite Rapids, where loops whose loads, stores
and arithmetic take equally long take a quarter to two fifths longer."""
SPILLING: Final = 0.75
"""Cycles by which a vector that is stored and loaded delays an iteration: measured on products of 512 and 256 bits."""
DIVIDER: Final = "div"
"""What the port of a divider is called."""


@frozen
class LoopCycles:
    """An iteration of an innermost loop. `ports` are the cycles that each port is busy, `entry` those in which its
    instructions enter the core, `latency` those of `chain`, from what an iteration leaves to what the next one leaves,
    by the names of rows; `through_memory` says that the chain is stored and loaded. `bytes` are read and written.
    `spilled` vectors have no register. `classes` are the cycles that instructions of each class keep a port that
    computes; `widest` are the bits of the widest vector."""

    ports: Mapping[str, float]
    entry: float
    latency: float
    chain: tuple[str, ...]
    bytes: int
    spilled: int
    through_memory: bool
    classes: Mapping[str, float]
    widest: int
    core: Core

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
    def throughput(self) -> float:
        """Cycles that it takes if it waits for no result of the iteration before. What is nearly as busy as what is the
        busiest delays it."""
        return self._throughput(self.divider_cycles)

    def _throughput(self, divider: float) -> float:
        parts = self.compute_cycles, divider, self.load_cycles, self.store_cycles, self.entry
        return sum(part**CROWDING for part in parts) ** (1 / CROWDING) + SPILLING * self.spilled

    def without_divider(self, part: float) -> float:
        """Cycles that it takes if so much of what the divider does were products."""
        return max(self._throughput(self.divider_cycles * (1 - part)), self.latency)

    @property
    def cycles(self) -> float:
        """Cycles that it takes with all data in the first cache."""
        return max(self.throughput, self.latency)
