"""Formulas compute what the engine does, and their bounds hold."""

from __future__ import annotations

import random

import pytest

import tcpx
from tcpx.interp.space.formula import FormulaError
from tests.tune.conftest import MakeSpace, schedule_text

CONDITIONS = """
a + b * c <= 20
a - b >= c / 2
(a + b) % 3 == c
-a < b - c and not (a == b)
a == 1 or b > c
2 ** a < b * c
min(a, b, c) * max([a, b]) <= 9
ceildiv(a * b, c) + align_up(a, c) <= 12
contains(multiples(a, 12), b * c)
contains(divisors(a * 6), b)
len(pow2(a, 8 * b)) > c
(a if b > c else b) != c
contains([a, b], c)
contains(a..b, c)
0.5 * a < b + 0.25
"""


@pytest.mark.parametrize("condition", CONDITIONS.strip().splitlines())
def test_formulas_agree_with_the_engine(condition: str, make_space: MakeSpace, module: tcpx.Module) -> None:
    knobs = "\n".join(f"knob {name}: int = 1 in 1..5" for name in "abc")
    body = f"{knobs}\nrequire {condition}\nlet mm = match one contract in root\ntile(mm, [m: a + b + c])"
    schedule = tcpx.parse_schedule(schedule_text(body))
    space = make_space(body)
    (constraint,) = space.search.constraints
    generator = random.Random(condition)
    for _ in range(25):
        point = {f"s.{name}": generator.randint(1, 5) for name in "abc"}
        try:
            tcpx.apply_schedule(module, schedule, params=point, target="generic")
        except tcpx.ScheduleError:
            assert not constraint.holds(point)
        else:
            assert constraint.holds(point)
        ranges = {path: (generator.randint(1, value), generator.randint(value, 5)) for path, value in point.items()}
        if constraint.holds(point):
            assert constraint.may_hold(ranges)
            assert constraint.may_hold({path: ranges[path] for path in list(ranges)[:2]})


def test_a_division_by_zero_has_no_value(make_space: MakeSpace) -> None:
    space = make_space(
        "knob a: int = 1 in 0..2\nrequire 4 / a > 1\nlet mm = match one contract in root\ntile(mm, [m: a])"
    )
    (constraint,) = space.search.constraints
    with pytest.raises(FormulaError):
        constraint.condition.value({"s.a": 0})
    assert not constraint.holds({"s.a": 0})
    assert [point["s.a"] for point in space.points()] == [1, 2]
