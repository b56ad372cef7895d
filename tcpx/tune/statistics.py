"""Ratios of times measured side by side, with what they may be off by."""

from collections.abc import Sequence
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Final

import numpy as np

DRAWS: Final = 1000
FEWEST: Final = 6
UNKNOWN: Final = 3.0
CONFIDENCE: Final = 95.0
STUDENT: Final = (
    12.71,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
)
"""Quantiles 0.975 of Student's t for 1, 2, .. degrees of freedom; 2.0 beyond."""


def interval_of(ratios: Sequence[float], seed: int = 0) -> tuple[float, float, float]:
    """The median ratio and its 95 % interval, by the percentile bootstrap (Efron and Tibshirani, An Introduction to the
    Bootstrap, chapter 13). Needs at least one ratio.

    Of fewer than `FEWEST` no interval of the median has this confidence: Student's, on logarithms, is taken. One alone
    says little: it may be off by a factor of `UNKNOWN`.
    """
    if len(ratios) == 1:
        return ratios[0], ratios[0] / UNKNOWN, ratios[0] * UNKNOWN
    if len(ratios) < FEWEST:
        logs = [log(ratio) for ratio in ratios]
        reach = STUDENT[len(logs) - 2] * stdev(logs) / sqrt(len(logs))
        return exp(fmean(logs)), exp(fmean(logs) - reach), exp(fmean(logs) + reach)
    held = np.asarray(ratios, np.float64)
    drawn = np.random.default_rng(seed).integers(0, held.size, (DRAWS, held.size))
    medians = np.median(held[drawn], axis=1)
    low, high = np.percentile(medians, [(100 - CONFIDENCE) / 2, (100 + CONFIDENCE) / 2])
    return float(np.median(held)), float(low), float(high)


def interval_of_processes(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The mean ratio of several pairs of fresh processes, and where that of a further pair lies with 95 % confidence.

    Processes differ by more than the rounds within one: in where their memory lies, above all. Student's prediction
    interval on logarithms. Needs at least two ratios.
    """
    logs = [log(ratio) for ratio in ratios]
    freedom = len(logs) - 1
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 2.0
    reach = quantile * stdev(logs) * sqrt(1 + 1 / len(logs))
    middle = fmean(logs)
    return exp(middle), exp(middle - reach), exp(middle + reach)


def geometric_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """The weighted geometric mean of positive numbers."""
    return exp(sum(weight * log(value) for value, weight in zip(values, weights, strict=True)) / sum(weights))


def middle_of(values: Sequence[float]) -> float:
    """The median of at least one number."""
    return median(values)
