"""Predicates against brute force: decisions and the facts they imply."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpx.payload.sizes import Dim, Symbol, Var, ceildiv, floordiv, maximum, minimum, mod, substitute
from tcpx.payload.sizes.predicates import Comparison, Predicate, Relation

M, N = Symbol("M"), Symbol("N")
RELATIONS: list[Relation] = ["==", "!=", "<", "<=", ">", ">="]


def facts(symbol: Symbol) -> tuple[int, int | None, int]:
    return symbol.lower, symbol.upper, symbol.multiple_of


def test_text() -> None:
    predicate = Predicate.of("<", M.size(), 4) & Predicate.of("==", mod(N, 12), 0)
    assert predicate.to_text() == "M < 4 and mod(N, 12) == 0"
    assert Predicate().to_text() == "0 == 0"
    assert [s.name for s in predicate.symbols()] == ["M", "N"]


def test_decide() -> None:
    v = Var("v", 0, N.size(), 4)
    assert Predicate.of("<", v.size(), N.size()).decide() is True
    assert Predicate.of(">=", v.size(), N.size()).decide() is False
    assert Predicate.of("!=", 2 * M, 2 * N + 1).decide() is True
    assert Predicate.of("<", M.size(), 4).decide() is None
    assert Predicate().decide() is True
    assert (Predicate.of("<", M.size(), 4) & Predicate.of("<", v.size(), 0)).decide() is False


def test_a_contradiction_between_comparisons_is_found() -> None:
    assert (Predicate.of("<", M.size(), 4) & Predicate.of(">", M.size(), 7)).decide() is False
    between_multiples = Predicate.of("<", M.size(), 12) & Predicate.of(">", M.size(), 0)
    assert (between_multiples & Predicate.of("==", mod(M, 12), 0)).decide() is False
    assert (Predicate.of("<", M.size(), N.size()) & Predicate.of("<", N.size(), 1)).decide() is False
    # Each bound of M is one of N times a factor, and the other way round: they would grow for ever.
    both_long = Predicate.of(">", M.size(), 512) & Predicate.of(">", N.size(), 2048)
    little_saved = both_long & Predicate.of("<=", M.size() * (6 * N - 64), 32 * N)
    assert little_saved.decide() is False
    assert little_saved.refine([M, N]) == {}


def test_evaluate() -> None:
    predicate = Predicate.of("<", M.size(), 4) & Predicate.of("==", mod(N, 12), 0)
    assert predicate.evaluate({"M": 3, "N": 24}) is True
    assert predicate.evaluate({"M": 3, "N": 25}) is False


@pytest.mark.parametrize("op", RELATIONS)
def test_negation_is_the_opposite(op: Relation) -> None:
    predicate = Predicate.of(op, M.size(), 4)
    opposite = predicate.negate()
    assert opposite is not None
    for m in range(8):
        assert predicate.evaluate({"M": m}) is not opposite.evaluate({"M": m})


def test_only_a_single_comparison_is_negated() -> None:
    assert (Predicate.of("<", M.size(), 4) & Predicate.of("<", N.size(), 4)).negate() is None
    assert Predicate().negate() is None


def test_conjunction_drops_repetitions() -> None:
    predicate = Predicate.of("<", M.size(), 4)
    assert predicate & predicate == predicate


def test_simplify_drops_what_always_holds() -> None:
    predicate = Predicate.of(">=", M.size(), 0) & Predicate.of("<", M.size(), 4)
    assert predicate.simplify() == Predicate.of("<", M.size(), 4)


def test_substitute() -> None:
    predicate = Predicate.of("<", M + N, 4)
    assert predicate.substitute({M: 3, N: 0}).decide() is True
    assert predicate.substitute({M: 3}) == Predicate((Comparison("<", N + 3, 4),))
    assert predicate.substitute({Symbol("K"): 3}) is predicate


@pytest.mark.parametrize(
    ("predicate", "refined"),
    [
        (Predicate.of("<", M.size(), 100) & Predicate.of("==", mod(M, 12), 0), (0, 96, 12)),
        (Predicate.of("==", mod(M, 12), 0) & Predicate.of("==", mod(M, 8), 0), (0, None, 24)),
        (Predicate.of(">=", M.size(), 5), (5, None, 1)),
        (Predicate.of("==", M.size(), 7), (7, 7, 1)),
        (Predicate.of("==", 3 * M + 1, 10), (3, 3, 1)),
        (Predicate.of("!=", M.size(), 0), (1, None, 1)),
        (Predicate.of("<", 9, M + 2), (8, None, 1)),
        (Predicate.of("<=", 4 * M, 19), (0, 4, 1)),
        (Predicate.of("<=", M + minimum(N, 3), 8), (0, 8, 1)),
        (Predicate.of("<", M.size(), N.size()) & Predicate.of("<", N.size(), 5), (0, 3, 1)),
        (Predicate.of("<=", ceildiv(M, 6), 4), (0, 24, 1)),
        (Predicate.of(">=", floordiv(M, 6), 4), (24, None, 1)),
        (Predicate.of("==", floordiv(M, 6), 4), (24, 29, 1)),
        (Predicate.of("==", minimum(M, 8), 4), (4, 4, 1)),
        (Predicate.of("==", maximum(M - 2, 0), 3), (5, 5, 1)),
    ],
)
def test_refine(predicate: Predicate, refined: tuple[int, int | None, int]) -> None:
    assert facts(predicate.refine([M, N])[M]) == refined


def test_one_of_several_sizes_says_nothing_of_each() -> None:
    assert Predicate.of("<=", minimum(M, N), 8).refine([M, N]) == {}
    assert Predicate.of(">=", maximum(0, M - 2, N - 2), 1).refine([M, N]) == {}
    assert Predicate.of(">=", maximum(M - 2, 0), 0).refine([M]) == {}


def test_refine_names_only_what_changed() -> None:
    assert Predicate.of("<", M.size(), 4).refine([M, N]).keys() == {M}
    assert Predicate.of("<", M.size(), 4).refine([N]) == {}
    assert Predicate.of("<", M.size(), 4).refine([Symbol("M", upper=2)]) == {}
    assert Predicate.of("<", M.size(), 0).refine([M]) == {}


def test_a_condition_removes_the_tail() -> None:
    v = Var("v", 0, M.size(), 12)
    tile = minimum(12, M - v)
    refined = Predicate.of("==", mod(M, 12), 0).refine([M])
    mapping = {symbol: fact.size() for symbol, fact in refined.items()}
    assert substitute(tile, mapping) == 12
    exact = Predicate.of("==", M.size(), 5).refine([M])
    assert substitute(M + 1, {symbol: fact.size() for symbol, fact in exact.items()}) == 6


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    def dim() -> Dim:
        symbol = draw(st.sampled_from([M, N]))
        c, k = draw(st.integers(1, 4)), draw(st.integers(-3, 12))
        linear = [k, symbol.size(), c * symbol + k, -c * symbol + k, M + c * N, M - N]
        calls = [mod(symbol, c), floordiv(symbol, c), ceildiv(symbol + 1, c), minimum(M, k), maximum(M, N)]
        return draw(st.sampled_from([*linear, *calls]))

    return Comparison(draw(st.sampled_from(RELATIONS)), dim(), dim())


@settings(max_examples=150)
@given(st.lists(comparisons(), min_size=1, max_size=3))
def test_random_predicates(found: list[Comparison]) -> None:
    predicate = Predicate(tuple(found))
    decision, refined = predicate.decide(), predicate.refine([M, N])
    facts_of_m, facts_of_n = refined.get(M, M), refined.get(N, N)
    holds: list[bool] = []
    for m, n in itertools.product(range(20), repeat=2):
        holds.append(predicate.evaluate({"M": m, "N": n}))
        if not holds[-1]:
            continue
        for value, symbol in ((m, facts_of_m), (n, facts_of_n)):
            assert symbol.lower <= value
            assert symbol.upper is None or value <= symbol.upper
            assert value % symbol.multiple_of == 0
    if decision is not None:
        assert set(holds) == {decision}
