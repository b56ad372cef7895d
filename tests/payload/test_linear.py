"""Conditions on sizes that are said to contradict one another hold nowhere; most that hold nowhere are found."""

from __future__ import annotations

import itertools
import random

import pytest

from tcpx.payload.sizes import Symbol, Var, ceildiv, floordiv, maximum, minimum, mod
from tcpx.payload.sizes.expressions import Dim
from tcpx.payload.sizes.linear import are_contradictory
from tcpx.payload.sizes.predicates import Predicate, Relation
from tcpx.payload.sizes.traversal import evaluate

M, N = Symbol("M", 0, 6), Symbol("N", 1, 6)
I = Var("i", 0, M.size() + 1, 2)
PLACES = [{"M": m, "N": n, "i": i} for m, n, i in itertools.product(range(7), range(1, 7), range(0, 7, 2)) if i < m + 1]


def drawn(draw: random.Random, depth: int) -> Dim:
    """A size over M, N and i."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([M.size(), N.size(), I.size(), draw.randint(-3, 5)])
    a, b = drawn(draw, depth - 1), drawn(draw, depth - 1)
    match draw.randrange(8):
        case 0 | 1:
            return maximum(a, b)
        case 2 | 3:
            return minimum(a, b)
        case 4:
            return draw.choice([floordiv, ceildiv, mod])(a, draw.randint(1, 4))
        case 5 | 6:
            return a - b
        case _:
            return a + draw.randint(1, 3) * b


def test_no_contradiction_where_there_is_none() -> None:
    draw = random.Random(7)
    found = wanted = 0
    for _ in range(1500):
        sizes = [drawn(draw, draw.randint(1, 3)) for _ in range(draw.randint(1, 4))]
        holds = any(all(evaluate(size, place) >= 0 for size in sizes) for place in PLACES)
        contradictory = are_contradictory(sizes)
        assert not (holds and contradictory), sizes
        wanted += not holds
        found += contradictory
    assert wanted >= 280
    assert found >= 0.9 * wanted


@pytest.mark.parametrize(("known", "condition"), [
    ([("<=", M + N, 4), ("<=", 3, M)], ("<=", N, 1)),
    ([("<", M - N, 0), ("<", N - I, 0)], ("<", M.size(), I.size())),
    ([("==", 2 * M.size(), N - I)], ("<=", 2 * M, N)),
    ([], ("<=", maximum(0, M - 2) + minimum(N, M.size()), M + N)),
    ([], ("<=", minimum(maximum(0, I - M), N) + minimum(M + 1, I.size()), M + 1)),
    ([("<=", 3 * M, 7)], ("<=", M, 2)),
    ([("<=", 1, mod(M + N, 4))], ("<", 4 * floordiv(M + N, 4), M + N)),
])  # fmt: skip
def test_conditions_are_combined(known: list[tuple[Relation, Dim, Dim]], condition: tuple[Relation, Dim, Dim]) -> None:
    given = [size for parts in known for c in Predicate.of(*parts).comparisons for size in c.not_negative()]
    (wanted,) = Predicate.of(*condition).comparisons
    assert are_contradictory([*given, *wanted.negate().not_negative()])


def test_what_takes_too_long_is_not_known() -> None:
    symbols = [Symbol(f"S{k}") for k in range(24)]
    parts = [maximum(a - b, b - a) for a, b in itertools.combinations(symbols, 2)]
    assert not are_contradictory([sum(parts, -1), 5 - sum(parts, 0)])
