"""Intervals, and what mattered."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.tune.duel import Round, comparison_of
from tcpx.tune.importance import importance
from tcpx.tune.statistics import geometric_mean, interval_of, interval_of_processes
from tcpx.tune.verdicts import Candidate, Verdict


def test_the_interval_holds_the_truth() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        ratios = 0.9 * np.exp(generator.normal(0, 0.03, 15))
        middle, low, high = interval_of(list(ratios))
        assert low <= middle <= high
        held += low <= 0.9 <= high
    assert held >= 88


def test_a_further_process_lies_in_the_interval() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        *seen, further = 0.9 * np.exp(generator.normal(0, 0.02, 6))
        _, low, high = interval_of_processes(seen)
        held += low <= further <= high
    assert held >= 182


def test_the_knob_that_matters_comes_first() -> None:
    def made(number: int) -> Candidate:
        point = {"a": number % 4, "b": number % 3}
        noise = 0.001 * (number % 5)
        return Candidate(number, point, point, Verdict.OK, relative=1.0 + 0.2 * (number % 4) + noise)

    found = importance([made(number) for number in range(36)])
    assert list(found) == ["a", "b"]
    assert found["a"] > 0.95
    assert found["b"] < 0.05
    assert importance([made(number) for number in range(5)]) == {}


def test_one_ratio_says_little() -> None:
    middle, low, high = interval_of([0.5])
    assert (middle, low < 0.2, high > 1) == (0.5, True, True)


def test_few_ratios_decide_little() -> None:
    assert interval_of([0.5, 0.9])[2] > 1
    assert interval_of([0.5, 0.51, 0.5])[2] < 1


def test_means() -> None:
    assert geometric_mean([1, 4], [1, 1]) == pytest.approx(2)
    assert geometric_mean([1, 4], [3, 1]) == pytest.approx(2**0.5)


def test_rounds_at_full_speed_count() -> None:
    quiet = [Round(0.9, 1.0, True)] * 4
    loud = [Round(3.0, 9.0, False)] * 2
    found = comparison_of([*quiet, *loud])
    assert (found.ratio, found.rounds, found.steady, found.is_faster) == (0.9, 4, True, True)
    assert not comparison_of([*loud, *loud, quiet[0]]).steady
