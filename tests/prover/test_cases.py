"""What holds in each case of minima and maxima holds wherever values can be enumerated."""

from __future__ import annotations

import random

import pytest

from tcpx.payload.sizes import maximum, minimum
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.expressions import Dim, Max, Min
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tests.prover.affine import BLOCKS, condition_at, drawn_leaves
from tests.prover.asked import Question
from tests.prover.enumeration import contradiction, places_of
from tests.prover.nonlinear import drawn

QUESTIONS = 1_000
PARTS = 4


def _with_an_extremum_twice(draw: random.Random) -> Question:
    """One minimum or maximum in two terms: alone, and in a product, a quotient or another extremum."""
    leaves, values = drawn_leaves(draw, draw.choice((1, 2, 2)))
    sizes: list[Dim] = [leaf.size() for leaf in leaves]
    a, b = draw.choice(sizes) - draw.randint(0, 5), draw.choice([*sizes, 0]) + draw.randint(-3, 3)
    if a == b:
        a = a + 1
    found: Dim = draw.choice((Min, Max))((a, b)).size()
    other: Dim = draw.choice((
        draw.choice(sizes) * found,
        draw.choice((Min, Max))((found * 2, draw.choice(sizes) + 1)).size(),
        draw.choice(sizes),
    ))  # fmt: skip
    size = draw.choice((1, 1, -1, 2)) * found + draw.choice((1, -1, -2)) * other + draw.choice((0, 0, 3)) * sizes[0]
    conditions = [condition_at(draw, draw.choice(sizes), draw.choice([*sizes, 4]), values)] * draw.choice((0, 1))
    return Question(Comparison("<=", draw.choice((0, 0, -draw.choice(BLOCKS))), size), conditions)


def _a_part_that_begins_late(draw: random.Random) -> Question:
    """Where the second of two parts ends that a tile from i on has, of a tensor whose first part ends at m."""
    leaves, _ = drawn_leaves(draw, 2)
    i, m = (leaf.size() for leaf in leaves) if len(leaves) == 2 else (leaves[0].size(), draw.randint(1, 9))
    size, limit = draw.choice((1, 4, 8)), draw.choice((m, 2 * m, draw.randint(0, 20)))
    end = maximum(0, i - m) + size - minimum(size, maximum(0, m - i))
    return Question(Comparison("<=", end, limit), [Comparison("<=", i + size, m + limit + draw.choice((0, 0, -1, 1)))])


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_are_true(part: int) -> None:
    draw, by_cases, enumerated = random.Random(part), 0, 0
    for number in range(QUESTIONS):
        question = (drawn, _with_an_extremum_twice, _a_part_that_begins_late)[number % 3](draw)
        if not isinstance(question.asked, Comparison):
            continue
        here, asked = Context([Predicate((c,)) for c in question.conditions]), Predicate((question.asked,))
        if here.holds_in_cases(asked):
            places = places_of(question)
            wrong = contradiction(question, True, places)
            assert wrong is None, f"{question.text()} does not hold for {wrong}"
            enumerated += any(len(values) for values in places.values())
            by_cases += not here.holds(asked)
    assert enumerated >= 0.2 * QUESTIONS
    assert by_cases >= 0.01 * QUESTIONS
