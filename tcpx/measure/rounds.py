"""Runs timed in turn: every round each run has its samples, so that what is compared was measured side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from tcpx.measure.calibration import Calibration
from tcpx.measure.timer import SHORTEST, Clock, Summary, summary
from tcpx.records import frozen

Sample = Callable[[], float | None]
"""Takes one sample: seconds of a call, or None if it does not count."""


@frozen
class Plan:
    """How much is measured: `samples` that count per round, each at least `shortest` seconds, in so many rounds.

    A run that does not get its samples of a round within `patience` seconds goes on with those it has.
    """

    rounds: int = 5
    samples: int = 5
    shortest: float = SHORTEST
    patience: float = 10.0


@dataclass(slots=True)
class Timed:
    """The samples of one run by round, those that did not count, and the error that ended it."""

    rounds: list[list[float]] = field(default_factory=list[list[float]])
    rejected: int = 0
    error: Exception | None = None

    @property
    def best_round(self) -> Summary | None:
        """The round with the lowest median; None if no sample counts."""
        found = [summary(samples) for samples in self.rounds if samples]
        return min(found, key=lambda held: held.median, default=None)

    @property
    def medians(self) -> tuple[float | None, ...]:
        """Of each round; None for one without samples."""
        return tuple(summary(samples).median if samples else None for samples in self.rounds)

    @property
    def spread(self) -> float:
        """How far the medians of the rounds are apart, relative to the lowest."""
        medians = [median for median in self.medians if median is not None]
        return max(medians) / min(medians) - 1 if medians else 0.0

    @property
    def best(self) -> float | None:
        """The lowest sample."""
        return min((least for samples in self.rounds for least in samples), default=None)

    @property
    def count(self) -> int:
        """How many samples count."""
        return sum(map(len, self.rounds))


def interleave(
    runs: Mapping[str, Sample],
    calibration: Calibration,
    plan: Plan,
    failures: type[Exception] | tuple[type[Exception], ...] = (),
    clock: Clock = perf_counter,
) -> dict[str, Timed]:
    """Samples of every run. A run that raises one of `failures` is timed no further; the others are."""
    timed = {name: Timed() for name in runs}
    for number in range(plan.rounds):
        order = list(runs)
        turn = number % max(1, len(order))
        for name in order[turn:] + order[:turn]:
            held = timed[name]
            if held.error is None:
                try:
                    _round(runs[name], held, calibration, plan, clock)
                except failures as error:
                    held.error = error
    return timed


def _round(sample: Sample, held: Timed, calibration: Calibration, plan: Plan, clock: Clock) -> None:
    """One round of one run; the first sample only warms the caches that others used meanwhile."""
    calibration.warm_up(1)
    sample()
    kept: list[float] = []
    held.rounds.append(kept)
    end = clock() + plan.patience
    while len(kept) < plan.samples and clock() < end:
        taken = calibration.steady(sample)
        if taken is None:
            held.rejected += 1
        else:
            kept.append(taken)
