"""Statistics, batches of calls, the samples that count, the rounds: on a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat

import pytest

from tcpx.measure.calibration import WARM_UP, Calibration
from tcpx.measure.rounds import Plan, interleave
from tcpx.measure.timer import MOST_CALLS, calls_per_sample, least_seconds, seconds_per_call, summary


@dataclass
class FakeClock:
    """Time goes on when something takes it."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def take(self, seconds: float) -> float:
        self.now += seconds
        return seconds


def test_summary() -> None:
    found = summary([3.0, 1.0, 2.0, 4.0, 100.0])
    assert (found.samples, found.median, found.best) == (5, 3.0, 1.0)
    assert found.spread == pytest.approx((4.0 - 2.0) / 3.0)
    assert found.low <= found.median <= found.high
    many = summary([float(k) for k in range(101)])
    assert (many.low, many.high) == (40.0, 61.0)  # the 41st and the 62nd of 101: Conover, table of the sign test


def test_summary_of_one_and_of_none() -> None:
    found = summary([2.0])
    assert (found.median, found.best, found.spread, found.low, found.high) == (2.0, 2.0, 0.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="required at least one sample"):
        summary([])


@pytest.mark.parametrize("each", [1e-6, 1e-4, 4e-3, 1.0])
def test_a_batch_is_long_enough_and_not_much_longer(each: float) -> None:
    clock = FakeClock()
    calls = calls_per_sample(lambda: clock.take(each), 5e-3, clock)
    assert calls * each >= 5e-3 or each >= 5e-3
    assert calls * each <= 4 * 5e-3 or calls == 1


def test_a_call_that_takes_no_time_ends() -> None:
    clock = FakeClock()
    assert calls_per_sample(lambda: None, 5e-3, clock) == MOST_CALLS


def test_seconds_per_call_is_the_mean() -> None:
    clock, took = FakeClock(), iter([1.0, 2.0, 6.0])
    assert seconds_per_call(lambda: clock.take(next(took)), 3, clock) == pytest.approx(3.0)


def test_the_least_of_rounds_in_turn() -> None:
    clock, order = FakeClock(), list[str]()
    took = {"a": iter([9.0, 3.0, 2.0, 4.0]), "b": iter([9.0, 5.0, 7.0, 6.0])}

    def run(name: str) -> None:
        order.append(name)
        clock.take(next(took[name]))

    least = least_seconds({name: lambda name=name: run(name) for name in took}, 3, 5e-3, clock)
    assert least == pytest.approx({"a": 2.0, "b": 5.0})
    assert "".join(order[-6:]) == "ababab"


def calibrated(*rates: float) -> Calibration:
    """A calibration whose full rate is 100; the probes behind its warm-up have these rates, then the last of them."""
    left = chain([100.0] * WARM_UP, rates, repeat(rates[-1]))
    made = Calibration(lambda: next(left))
    made.warm_up()
    return made


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [(100.0, 100.0, True), (90.0, 90.0, True), (89.9, 100.0, False), (100.0, 89.9, False), (120.0, 100.0, True)],
)
def test_a_sample_counts_if_the_machine_is_steady_round_it(before: float, after: float, counts: bool) -> None:
    calibration = calibrated(before, after)
    assert calibration.steady(lambda: 7) == (7 if counts else None)
    assert (calibration.full, calibration.best) == (100.0, max(100.0, before))


def test_full_speed_is_that_behind_a_load() -> None:
    speed = 120.0

    def load() -> None:
        nonlocal speed
        speed = 80.0

    calibration = Calibration(lambda: speed, load)
    assert calibration.rate() == 120.0
    calibration.warm_up()
    assert (calibration.full, calibration.best) == (80.0, 120.0)
    assert calibration.is_steady(80.0, 120.0)
    assert not calibration.is_steady(70.0, 120.0)


@pytest.mark.parametrize(("fast", "full"), [(24, 100.0), (26, 130.0)])
def test_a_faster_clock_for_a_moment_is_not_full_speed(fast: int, full: float) -> None:
    rates = chain([130.0] * fast, repeat(100.0))
    calibration = Calibration(lambda: next(rates))
    calibration.warm_up(100)
    assert calibration.full == full


def test_full_speed_is_found_by_a_machine_that_was_slow_at_first() -> None:
    rates = chain([50.0] * 100, repeat(100.0))
    calibration = Calibration(lambda: next(rates))
    calibration.warm_up(100)
    assert calibration.full == 50.0
    calibration.warm_up(40)
    assert calibration.full == 100.0


def test_rounds_alternate_and_the_first_sample_warms_up() -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return float(len(order))

    plan = Plan(rounds=2, samples=2)
    timed = interleave({name: lambda name=name: run(name) for name in "ab"}, calibrated(100.0), plan, clock=FakeClock())
    assert "".join(order) == "aaabbb" + "bbbaaa"
    assert timed["a"].rounds == [[2.0, 3.0], [11.0, 12.0]]
    assert timed["b"].rounds == [[5.0, 6.0], [8.0, 9.0]]
    best = timed["a"].best_round
    assert best is not None
    assert (best.median, timed["a"].best, timed["a"].count) == (2.5, 2.0, 4)
    assert timed["a"].spread == pytest.approx(11.5 / 2.5 - 1)


def test_samples_that_do_not_count_are_taken_again() -> None:
    taken = iter(range(100))
    calibration = calibrated(100.0, 50.0, 100.0, 100.0, 100.0, 100.0, 50.0, 100.0)
    timed = interleave({"a": lambda: float(next(taken))}, calibration, Plan(rounds=1, samples=2), clock=FakeClock())
    assert timed["a"].rounds == [[2.0, 4.0]]
    assert timed["a"].rejected == 2


def test_patience_ends_on_a_machine_that_is_always_slow() -> None:
    clock = FakeClock()
    slow = calibrated(50.0)
    timed = interleave({"a": lambda: clock.take(1.0)}, slow, Plan(rounds=2, samples=5, patience=3.0), clock=clock)
    assert (timed["a"].count, timed["a"].rejected) == (0, 6)
    assert timed["a"].best_round is None
    assert timed["a"].best is None


def test_one_that_fails_is_left_out_and_the_others_go_on() -> None:
    calls = iter([1.0, 2.0])

    def fails() -> float:
        try:
            return next(calls)
        except StopIteration:
            raise RuntimeError("gone") from None

    plan = Plan(rounds=3, samples=2)
    timed = interleave({"a": fails, "b": lambda: 1.0}, calibrated(100.0), plan, RuntimeError, FakeClock())
    assert str(timed["a"].error) == "gone"
    assert timed["b"].count == 6
    with pytest.raises(RuntimeError, match="gone"):
        interleave({"a": fails}, calibrated(100.0), plan, clock=FakeClock())
