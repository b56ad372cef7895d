"""Which samples count. A shared machine slows down for seconds at a time; what was timed then says nothing."""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

ResultT = TypeVar("ResultT")

STEADY: Final = 0.9
"""A sample counts if the calibration loop right before and right after it runs at this part of its full rate."""
FULL: Final = 4
"""One probe of so many is faster than the full rate: the clock is faster for moments, and recovers from a load in
less than a millisecond."""
WARM_UP: Final = 100


@dataclass(slots=True)
class Calibration:
    """Watches the rate of a short loop that needs no memory; `probe` runs it and gives its rate.

    `load` keeps the vector units busy for some milliseconds: many processors lower their clock then, by a fifth or
    more, which is not the fault of others. The full rate is that of probes right behind it.
    """

    probe: Callable[[], float]
    load: Callable[[], object] = lambda: None
    best: float = 0.0
    _loaded: list[float] = field(default_factory=list[float])

    def warm_up(self, probes: int = WARM_UP) -> None:
        """Find the full rate; each time, what was found before is made better."""
        for _ in range(probes):
            self.load()
            insort(self._loaded, self.rate())

    @property
    def full(self) -> float:
        """The rate of the loop right behind a load on a machine that nothing else slows."""
        return self._loaded[-1 - len(self._loaded) // FULL] if self._loaded else self.best

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
        return min(rates) >= STEADY * self.full
