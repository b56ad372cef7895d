"""Timing a candidate beside the incumbent, until it is clear which is faster."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from tcpx.measure.calibration import Calibration
from tcpx.records import frozen
from tcpx.tune.slots import Slot
from tcpx.tune.statistics import geometric_mean, interval_of, middle_of
from tcpx.tune.verdicts import Comparison

MOST_WAITING: Final = 0.02
"""A sample does not count where others had the CPU for more than this part of it."""


@frozen
class Effort:
    """How much is measured: rounds in `rungs`, each only if the one before decides nothing.

    It is decided once the candidate is slower with 95 % confidence, or faster and known to `width`, or known to half of
    `width`. A round waits `patience` seconds for samples at full speed, and then takes what there is.
    """

    rungs: tuple[int, ...] = (3, 7, 15, 31)
    shortest: float = 4e-3
    width: float = 0.04
    patience: float = 1.0
    most: float = 20.0
    """Seconds for all rounds together."""


QUICK: Final = Effort(rungs=(1, 2), shortest=1e-4, width=1.0, patience=0.0, most=0.5)
"""To try things out: no more than a hint of what is fast."""


@frozen
class Round:
    """The time of the candidate as a part of the incumbent's, and its seconds; whether the machine was steady."""

    ratio: float
    seconds: float
    steady: bool


def compare(
    candidate: Slot, incumbent: Slot, weights: Sequence[float], calibration: Calibration, effort: Effort
) -> Comparison:
    """Measure both in turn. Raises TrialError where one of them dies."""
    rounds: list[Round] = []
    end = monotonic() + effort.most
    for rung in effort.rungs:
        while len(rounds) < rung and (monotonic() < end or not rounds):
            rounds.append(_round(candidate, incumbent, weights, calibration, effort, len(rounds) % 2 == 1))
        found = comparison_of(rounds)
        is_known = found.width <= effort.width / 2 or (found.is_faster and found.width <= effort.width)
        if found.is_slower or is_known or monotonic() >= end:
            break
    return comparison_of(rounds)


def comparison_of(rounds: Sequence[Round]) -> Comparison:
    """What rounds say; those at full speed alone, where there are enough of them."""
    steady = [held for held in rounds if held.steady]
    counted = steady if 2 * len(steady) >= len(rounds) and len(steady) >= 3 else list(rounds)
    ratio, low, high = interval_of([held.ratio for held in counted])
    seconds = middle_of([held.seconds for held in counted])
    return Comparison(ratio, low, high, len(counted), seconds, len(counted) == len(steady))


def _round(
    candidate: Slot,
    incumbent: Slot,
    weights: Sequence[float],
    calibration: Calibration,
    effort: Effort,
    incumbent_first: bool,
) -> Round:
    ratios: list[float] = []
    own: list[float] = []
    all_steady = True
    for example in range(len(weights)):
        times: dict[bool, float] = {}
        for is_incumbent in (incumbent_first, not incumbent_first):
            slot = incumbent if is_incumbent else candidate

            def sample(slot: Slot = slot, example: int = example) -> tuple[float, float]:
                return slot.sample(example, effort.shortest)

            times[is_incumbent], steady = _patient(sample, calibration, effort.patience)
            all_steady = all_steady and steady
        ratios.append(times[False] / times[True])
        own.append(times[False])
    return Round(geometric_mean(ratios, weights), geometric_mean(own, weights), all_steady)


def _patient(
    sample: Callable[[], tuple[float, float]], calibration: Calibration, patience: float
) -> tuple[float, bool]:
    """Seconds of a sample, the first at full speed; after `patience` seconds the shortest that there was."""
    end = monotonic() + patience
    shortest: list[float] = []
    while True:
        before = calibration.rate()
        seconds, waited = sample()
        after = calibration.rate()
        shortest.append(seconds)
        if waited <= MOST_WAITING and calibration.is_steady(before, after):
            return seconds, True
        if monotonic() >= end:
            return min(shortest), False
