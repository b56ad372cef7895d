"""Which samples count. A shared machine slows down for seconds at a time; what was timed then says nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

ResultT = TypeVar("ResultT")

STEADY: Final = 0.93
"""A sample counts if the calibration loop right before and right after it runs at this part of its best rate."""
WARM_UP: Final = 100


@dataclass(slots=True)
class Calibration:
    """Watches the rate of a short loop that needs no memory; `probe` runs it and gives its rate."""

    probe: Callable[[], float]
    best: float = 0.0

    def warm_up(self, probes: int = WARM_UP) -> None:
        """Find the best rate; what comes later still raises it."""
        for _ in range(probes):
            self.rate()

    def rate(self) -> float:
        """The rate of the loop now."""
        now = self.probe()
        self.best = max(self.best, now)
        return now

    def steady(self, sample: Callable[[], ResultT | None]) -> ResultT | None:
        """What `sample` gives, or None if the machine was slow right before or right after it."""
        before = self.rate()
        taken = sample()
        after = self.rate()
        return taken if self.is_steady(before, after) else None

    def is_steady(self, *rates: float) -> bool:
        """Whether the machine ran at full speed at these rates."""
        return min(rates) >= STEADY * self.best
