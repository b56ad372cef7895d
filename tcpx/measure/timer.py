"""Seconds of a call. A sample is a batch of calls, long enough for the clock."""

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from math import ceil, inf, sqrt
from statistics import median, quantiles
from time import perf_counter
from typing import Final, TypeVar

from tcpx.records import frozen

Run = Callable[[], object]
Clock = Callable[[], float]
Key = TypeVar("Key")

SHORTEST: Final = 5e-3
"""Seconds that a sample should take at least."""
MOST_CALLS: Final = 1_000_000
FEWEST: Final = 5
"""Samples before times may settle."""
SETTLED: Final = 1.02
"""The second least over the least."""


@frozen
class Summary:
    """What samples say, in seconds.

    `spread` is the distance between the quartiles, relative to the median; `low` and `high` bound the median with 95 %
    confidence, whatever the distribution is.
    """

    samples: int
    median: float
    best: float
    spread: float
    low: float
    high: float


def seconds_per_call(run: Run, calls: int, clock: Clock = perf_counter) -> float:
    """The mean of so many calls in a row."""
    start = clock()
    for _ in repeat(None, calls):
        run()
    return (clock() - start) / calls


def calls_per_sample(run: Run, shortest: float = SHORTEST, clock: Clock = perf_counter) -> int:
    """How many calls take at least `shortest` seconds: 1, or doubled until they do and then scaled."""
    calls = 1
    while True:
        taken = seconds_per_call(run, calls, clock) * calls
        if taken >= shortest or calls >= MOST_CALLS:
            return calls
        wanted = ceil(calls * shortest / taken) if taken > 0 else MOST_CALLS
        calls = min(MOST_CALLS, max(2 * calls, wanted) if taken < shortest / 8 else max(calls + 1, wanted))


def least_seconds(
    runs: Mapping[Key, Run], rounds: int, shortest: float = SHORTEST, clock: Clock = perf_counter
) -> dict[Key, float]:
    """Seconds of a call of each, the least of so many rounds in which all have a sample in turn."""
    calls = {key: calls_per_sample(run, shortest, clock) for key, run in runs.items()}
    best = dict.fromkeys(runs, inf)
    for _ in range(rounds):
        for key, run in runs.items():
            best[key] = min(best[key], seconds_per_call(run, calls[key], clock))
    return best


def settled_seconds(
    runs: Mapping[Key, Run], patience: float, shortest: float = SHORTEST, clock: Clock = perf_counter
) -> tuple[dict[Key, float], bool]:
    """Seconds of a call of each, the least of rounds in which all have a sample in turn, and whether they settled: the
    two least of each differ by little, as they do where nothing else ran. They have so many seconds to."""
    calls = {key: calls_per_sample(run, shortest, clock) for key, run in runs.items()}
    samples: dict[Key, list[float]] = {key: [] for key in runs}
    end = clock() + patience
    while True:
        for key, run in runs.items():
            insort(samples[key], seconds_per_call(run, calls[key], clock))
        found = {key: ordered[0] for key, ordered in samples.items()}
        is_settled = all(len(times) >= FEWEST and times[1] <= SETTLED * times[0] for times in samples.values())
        if is_settled or clock() >= end:
            return found, is_settled


def summary(samples: Sequence[float]) -> Summary:
    """Statistics of at least one sample. Raises ValueError for none."""
    if not samples:
        raise ValueError("required at least one sample, found none")
    ordered = sorted(samples)
    count, middle = len(ordered), median(ordered)
    first, _, third = quantiles(ordered, n=4, method="inclusive") if count > 1 else (middle, middle, middle)
    # Order statistics round the median: the binomial distribution with p = 1/2, by its normal approximation.
    reach = 0.98 * sqrt(count)
    low = ordered[max(0, int(count / 2 - reach))]
    high = ordered[min(count - 1, ceil(count / 2 + reach))]
    return Summary(count, middle, ordered[0], (third - first) / middle if middle > 0 else 0.0, low, high)
