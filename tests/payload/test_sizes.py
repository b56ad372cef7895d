"""Sizes against brute force, and the proofs that tiling, packing and tails rely on."""

from __future__ import annotations

import copy
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.sizes import (
    Dim,
    Symbol,
    Var,
    align_up,
    ceildiv,
    evaluate,
    floordiv,
    is_equal,
    is_less,
    is_less_equal,
    known_divisor,
    lower_bound,
    lower_expression,
    maximum,
    minimum,
    mod,
    simplify,
    substitute,
    symbols,
    to_text,
    upper_bound,
    upper_expression,
    variables,
)
from tcpx.payload.sizes.arithmetic import Comparisons
from tcpx.payload.sizes.proofs import Query

M, N, K = Symbol("M"), Symbol("N"), Symbol("K")

# ---------------------------------------------------------------- normal form and text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (4 * M + 3, "4*M + 3"),
        (M - Var("fc1/m1", 0, M.size(), 6), "M - %fc1/m1"),
        (Var("i", 0, 8, 1) - M, "%i - M"),
        (3 - M, "3 - M"),
        (-M - 3, "-M - 3"),
        (-2 * M, "-2*M"),
        (N * M + M, "M + M*N"),
        (minimum(M - Var("fc1/m1", 0, M.size(), 6), 6), "min(6, M - %fc1/m1)"),
        (ceildiv(N, 64), "ceildiv(N, 64)"),
        (floordiv(M, N), "floordiv(M, N)"),
        (mod(M, 5), "mod(M, 5)"),
        (maximum(N, M, 2), "max(2, M, N)"),
        (M * Var("i", 0, 8, 1) + ceildiv(M, 4) * 6 + 1, "M*%i + 6*ceildiv(M, 4) + 1"),
    ],
)
def test_text(size: Dim, text: str) -> None:
    assert to_text(size) == text


def test_a_constant_is_an_int() -> None:
    assert M - M == 0
    assert type(M - M + 3) is int
    assert type(mod(4 * M + 1, 4)) is int
    assert (M + 1) * (M - 1) - M * M == -1


def test_equality_is_structural_and_by_name() -> None:
    assert Symbol("M", lower=3) == M
    assert hash(Symbol("M", lower=3)) == hash(M)
    assert Var("M", 0, 4, 1) != M
    assert M + N == N + M
    assert minimum(M, N) == minimum(N, M)
    assert len({M + N, N + M, M - N}) == 2


def test_atoms_are_copied_and_pickled() -> None:
    v = Var("i", 0, M.size(), 6)
    size = minimum(6, M - v) * 3 + 1
    assert copy.deepcopy(size) == size
    assert to_text(pickle.loads(pickle.dumps(size))) == to_text(size)
    assert upper_bound(copy.deepcopy(size)) == 19


def test_symbols_and_variables_are_ordered_and_leave_facts_out() -> None:
    v = Var("i", 0, K.size(), 6)
    size = N + minimum(6, M - v)
    assert [s.name for s in symbols(size)] == ["M", "N"]
    assert [s.name for s in variables(size)] == ["i"]


def test_evaluate() -> None:
    v = Var("i", 0, M.size(), 6)
    assert evaluate(minimum(6, M - v) + ceildiv(M, 4) + mod(N, 3), {"M": 9, "i": 6, "N": 5}) == 3 + 3 + 2


def test_evaluate_needs_every_value() -> None:
    with pytest.raises(ArgumentError, match="M has no value"):
        evaluate(M + 1, {"N": 3})


@pytest.mark.parametrize("divide", [floordiv, ceildiv, mod])
@pytest.mark.parametrize("divisor", [0, -2])
def test_a_divisor_is_positive(divide: Callable[[Any, Any], Dim], divisor: int) -> None:
    with pytest.raises(ArgumentError, match="positive divisor"):
        divide(M, divisor)


def test_a_loop_that_does_not_run_may_have_any_step() -> None:
    step = align_up(ceildiv(M, 2 * ceildiv(M, 240)), 6)
    assert evaluate(step, {"M": 0}) == 0
    assert substitute(step, {M: 0}) == 0


def test_steps_and_multiples_are_positive() -> None:
    with pytest.raises(ArgumentError, match="step >= 1"):
        Var("i", 0, 4, 0)
    with pytest.raises(ArgumentError, match="multiple_of >= 1"):
        Symbol("M", multiple_of=0)


# ---------------------------------------------------------------- simplification on construction


def test_division_takes_out_what_is_divisible() -> None:
    v = Var("v", 0, N.size(), 4)
    assert floordiv(4 * M + 3, 4) == M.size()
    assert ceildiv(4 * M + 3, 4) == M + 1
    assert mod(4 * M + 1, 4) == 1
    assert floordiv(v + 3, 4) == floordiv(v, 4)
    assert to_text(floordiv(v, 4)) == "floordiv(%v, 4)"
    assert mod(v, 4) == 0
    assert mod(v, 2) == 0
    assert floordiv(6 * M + 3, 4) == floordiv(3 * M + 1, 2)
    assert floordiv(floordiv(M, 3), 5) == floordiv(M, 15)
    assert ceildiv(ceildiv(M, 3), 5) == ceildiv(M, 15)
    assert mod(mod(M, 12), 4) == mod(M, 4)
    between = Symbol("B", 5, 7).size()
    assert mod(between, 4) == between - 4
    assert ceildiv(Symbol("M", multiple_of=8), 4) == floordiv(M, 4)
    assert align_up(Symbol("M", multiple_of=8), 4) == M.size()
    assert align_up(8 * N + M, 4) == 8 * N + 4 * ceildiv(M, 4)


def test_division_by_a_symbol() -> None:
    s = Symbol("s")
    v = Var("v", 0, N.size(), s.size())
    assert mod(v, s) == 0
    assert floordiv(s * M, s) == M.size()
    assert mod(s * M + v, s) == 0
    assert floordiv(M * N + N, N) == M + 1
    assert floordiv(v + Var("r", 0, s.size(), 1), s) == floordiv(v, s)


def test_division_within_one_quotient() -> None:
    r = Var("r", 0, 4, 1)
    x = Symbol("x")
    assert floordiv(4 * x + r, 4) == x.size()
    assert mod(4 * x + r, 4) == r.size()
    assert ceildiv(4 * x + r + 1, 4) == x + 1


def test_min_and_max_leave_out_what_is_dominated() -> None:
    assert minimum(M, M + 1, N) == minimum(M, N)
    assert maximum(M, M + 1, N) == maximum(M + 1, N)
    assert minimum(M, minimum(N, 4), 6) == minimum(4, M, N)
    assert minimum(M, maximum(M, N)) == M.size()
    assert maximum(M, 0) == M.size()
    assert minimum(4, Symbol("M", upper=3)) == M.size()


def test_of_many_sizes_those_remain_that_may_be_the_largest() -> None:
    """Also where a range makes the comparison: samples that are out of it refute nothing."""
    short = Symbol("S", 1, 3)
    whole = Symbol("W", 16, multiple_of=16)
    sizes = [M, M + K, 2 * N + 1, N, 3 * K, short, short + 1, whole, whole + M, 4]
    assert maximum(*sizes) == maximum(M + K, 2 * N + 1, 3 * K, whole + M)
    assert minimum(*sizes) == minimum(M, N, 3 * K, short)


def test_comparisons_of_earlier_sizes_answer_later_ones() -> None:
    known = Comparisons([M.size(), N.size(), K.size()])
    assert maximum(M, N, M + 1, comparisons=known) == maximum(N, M + 1)
    assert maximum(M + 1, N, M + N, K, comparisons=known) == maximum(M + 1, M + N, K)


def test_a_dividing_step_has_full_tiles_only() -> None:
    v = Var("v", 0, 64, 16)
    assert minimum(16, 64 - v) == 16
    n = Symbol("N", multiple_of=16)
    assert minimum(16, n - Var("v", 0, n.size(), 16)) == 16
    j = Var("j", 0, n.size(), 64)
    nb = minimum(64, n - j)
    assert minimum(16, nb - Var("jj", 0, nb, 16)) == 16


# ---------------------------------------------------------------- proofs


def test_tail_of_a_tiled_loop() -> None:
    v = Var("v", 0, N.size(), 6)
    tile = minimum(6, N - v)
    assert (lower_bound(tile), upper_bound(tile)) == (1, 6)
    assert is_less_equal(1, N - v) is True
    assert is_less_equal(v + tile, N) is True
    assert is_less_equal(v + 6, align_up(N, 6)) is True
    assert is_less(v, N) is True
    assert is_less(N, v) is False
    assert is_equal(v, N) is False


def test_nested_tiles() -> None:
    j = Var("j", 0, N.size(), 64)
    nb = minimum(64, N - j)
    jj = Var("jj", 0, nb, 16)
    tile = minimum(16, nb - jj)
    assert (lower_bound(tile), upper_bound(tile)) == (1, 16)
    assert is_less_equal(floordiv(jj, 16), ceildiv(nb, 16) - 1) is True
    assert is_less(floordiv(jj, 16), 4) is True
    assert is_less_equal(j + jj + tile, N) is True
    assert is_less_equal(jj + 16, align_up(nb, 16)) is True
    assert is_less_equal(align_up(nb, 16), 64) is True
    assert upper_expression(tile) == minimum(16, N)
    assert upper_expression(ceildiv(nb, 16) * 16) == 16 * ceildiv(minimum(64, N), 16)


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 64])
def test_equal_row_blocks_of_packed_gemm(threads: int) -> None:
    mb = align_up(ceildiv(M, threads * ceildiv(M, threads * 120)), 6)
    assert upper_bound(mb) == 120
    i = Var("i", 0, M.size(), mb)
    rows = minimum(mb, M - i)
    assert (lower_bound(rows), upper_bound(rows)) == (1, 120)
    assert is_less_equal(i + rows, M) is True
    ii = Var("ii", 0, rows, 6)
    tile = minimum(6, rows - ii)
    assert (lower_bound(tile), upper_bound(tile)) == (1, 6)
    assert is_less(floordiv(ii, 6), 20) is True
    assert is_less_equal(i + ii + tile, M) is True


def test_symbolic_steps() -> None:
    s = Symbol("s")
    v = Var("v", 0, N.size(), s.size())
    tile = minimum(s, N - v)
    assert lower_bound(tile) == 1
    assert is_less_equal(v + tile, N) is True
    assert is_less(floordiv(v, s), ceildiv(N, s)) is True
    w = Var("w", 0, N * s, s.size())
    assert minimum(s, N * s - w) == s.size()


def test_rounding_identities() -> None:
    assert is_equal(mod(M, 6) + 6 * floordiv(M, 6), M) is True
    assert is_equal(ceildiv(M, 6), floordiv(M + 5, 6)) is True
    assert (lower_bound(align_up(M, 6) - M), upper_bound(align_up(M, 6) - M)) == (0, 5)
    assert (lower_bound(M - 6 * floordiv(M, 6)), upper_bound(M - 6 * floordiv(M, 6))) == (0, 5)
    assert is_less_equal(floordiv(M, 4), floordiv(M, 2)) is True
    assert is_equal(maximum(M, N), -minimum(-M, -N)) is True


def test_the_last_element_that_fits() -> None:
    """`first + 3 * ceildiv(size - first, 3) - 2 <= size` for a tile within a tile of a padding between elements."""
    i = Var("i", 0, 3 * N + 7, 5)
    outer = minimum(5, 3 * N - i + 7)
    j = Var("j", 0, outer, 4)
    begin = minimum(N, ceildiv(maximum(0, i - 3), 3))
    before = maximum(0, 3 * begin - i + 3)
    size = minimum(4, outer - j)
    first = minimum(size, maximum(0, before + 3 * minimum(N - begin, ceildiv(maximum(0, j - before), 3)) - j))
    end = first + 3 * ceildiv(size - first, 3) - 2
    assert is_less_equal(end, size) is True
    assert is_less_equal(end + 1, size) is not True


def test_convolution_windows() -> None:
    height = Symbol("H", lower=3)
    rows = floordiv(height - 3, 2) + 1
    row, tap = Var("oh", 0, rows, 1), Var("kh", 0, 3, 1)
    assert is_less(2 * row + tap, height) is True
    assert is_less_equal(0, 2 * row + tap) is True
    assert is_less_equal(3, lower_bound(2 * row + tap) or 3) is True


def test_unknown_stays_unknown() -> None:
    assert is_equal(M, N) is None
    assert is_less_equal(M, N) is None
    assert is_less(M, 4) is None
    assert upper_bound(M) is None
    assert lower_bound(M - N) is None
    assert is_equal(mod(M, 4), mod(N, 4)) is None


def test_what_cannot_be_equal() -> None:
    assert is_equal(4 * M, 4 * N + 2) is False
    assert is_equal(M, M + 1) is False
    assert is_equal(M * N, -1) is False
    assert is_equal(2 * M + 4 * N, 7) is False
    assert is_less_equal(Symbol("M", lower=5), Symbol("N", upper=4)) is False


def test_known_divisor() -> None:
    assert known_divisor(0) == 0
    assert known_divisor(12) == 12
    assert known_divisor(4 * M + 6) == 2
    assert known_divisor(Symbol("M", multiple_of=6) * 4) == 24
    v = Var("v", 0, N.size(), 8)
    assert known_divisor(minimum(v, 12)) == 4
    assert known_divisor(floordiv(v, 2)) == 4
    assert known_divisor(v * M + 4) == 4
    assert known_divisor(Var("v", 0, N * 6, M * 6)) == 6


def test_products_of_symbols() -> None:
    m, n = Symbol("M", lower=1), Symbol("N", lower=1)
    assert lower_bound(m * n - n) == 0
    assert lower_bound(m * n - m - n + 1) == 0
    assert is_less_equal(floordiv(m * n, n), m) is True
    i, j = Var("i", 0, M.size(), 1), Var("j", 0, N.size(), 1)
    assert is_less(i * N + j, M * N) is True
    assert is_less_equal(m * minimum(6, n), 6 * m) is True


def adversarial() -> Iterator[Dim]:
    """Sizes on which an exhaustive search would take for ever."""
    found = [Symbol(f"s{k}") for k in range(8)]
    pairs = [(k, found[k], found[(k + 1) % 8]) for k in range(8)]
    yield sum((floordiv(a * (k + 2) + b, k + 3) - ceildiv(a + 1, k + 2) for k, a, b in pairs), start=0)
    yield sum((minimum(a * k - b, b * 3 - a, 7) - maximum(a, k * b) for k, a, b in pairs), start=0)
    variables, span = list[Var](), found[0].size()
    for k in range(6):
        variables.append(Var(f"v{k}", 0, span, 2 + k))
        span = minimum(2 + k, span - variables[-1])
    yield found[0] - sum(variables, start=0) - span
    product: Dim = 1
    for v, s in zip(variables[:5], found, strict=False):
        product = product * (s - v + minimum(s, 3))
    yield product


def calls_made(work: Callable[[], object]) -> int:
    """How many Python functions some work calls."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_a_query_gives_up() -> None:
    for size in adversarial():
        assert calls_made(lambda size=size: lower_bound(size)) < 200_000


# ---------------------------------------------------------------- substitution


def test_substitute() -> None:
    v = Var("v", 0, N.size(), 4)
    tile = minimum(4, N - v)
    assert substitute(tile, {v: 8}) == minimum(4, N - 8)
    assert substitute(tile, {N: 64}) == 4
    assert substitute(M + N, {M: N.size(), N: M.size()}) == M + N
    assert substitute(tile, {K: 3}) is tile


def test_substitution_reaches_the_facts_of_loop_variables() -> None:
    v = Var("v", 0, N.size(), 4)
    changed = substitute(v + 1, {N: 12})
    assert upper_bound(v + 1) is None
    assert upper_bound(changed) == 9


def test_substitution_replaces_the_instance() -> None:
    old, new = Var("v", 0, N.size(), 4), Var("v", 0, 16, 16)
    tile = minimum(16, N - old)
    assert upper_bound(substitute(old.size(), {old: new.size()})) == 0
    assert upper_bound(substitute(tile, {old: new.size(), N: 16})) == 16
    assert lower_bound(substitute(tile, {old: new.size(), N: 16})) == 16
    assert upper_bound(substitute(M + 1, {M: Symbol("M", upper=7).size()})) == 8


def test_simplify_folds_what_has_one_value() -> None:
    assert simplify(Symbol("M", lower=4, upper=4) + 1) == 5
    assert simplify(Var("v", 3, 7, 4)) == 3
    assert substitute(M + N, {M: Symbol("M", lower=4, upper=4).size()}) == N + 4


# ---------------------------------------------------------------- bounds as expressions


def test_kept_variables_stay() -> None:
    i = Var("i", 0, M.size(), 6)
    ii = Var("ii", 0, minimum(6, M - i), 2)
    size = minimum(2, minimum(6, M - i) - ii)
    assert upper_expression(size, lambda v: v.name == "i") == minimum(2, M - i)
    assert upper_expression(i, lambda v: v.name == "i") == i.size()
    assert upper_expression(i + ii) == M - 1
    assert lower_expression(M - i) == 1
    assert lower_expression(i + 3) == 3


def test_upper_expression_splits_what_is_not_monotone() -> None:
    v = Var("v", 0, N.size(), 6)
    assert upper_expression(v + minimum(6, N - v)) == N.size()
    assert upper_expression(mod(v + M, 5)) == 4
    assert upper_expression(Var("w", 0, 3 * N, 3).size()) == 3 * N - 3


# ---------------------------------------------------------------- random expressions

Choose = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Expression:
    """A simplified size beside the function that computes it without tcpx."""

    size: Dim
    naive: Callable[[dict[str, int]], int]


class Scope:
    """Two symbols and two nested loop variables with random facts."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.m, self.n = self.symbol("M"), self.symbol("N")
        one = choose([1, 2, 3, 4, 6, self.n.size()])
        self.i = Var("i", choose([0, 0, 1, 2]), choose([self.m.size(), self.n.size(), self.m + 1, 6, 12]), one)
        span = choose([minimum(choose([4, 6]), self.m - self.i), self.i + 2, self.n.size(), 8, ceildiv(self.m, 2)])
        self.j = Var("j", choose([0, 0, 0, self.i.size()]), span, choose([1, 2, 3, 4]))

    def symbol(self, name: str) -> Symbol:
        lower, multiple = self.choose([0, 0, 1, 3]), self.choose([1, 1, 2, 4])
        upper = self.choose([None, None, 5, 9])
        return Symbol(name, lower, upper, multiple)

    def valuations(self) -> Iterator[dict[str, int]]:
        """Values consistent with all facts; unbounded symbols stop at 13."""
        for m in self.values(self.m):
            for n in self.values(self.n):
                sizes = {"M": m, "N": n}
                for i in self._steps(self.i, sizes):
                    sizes["i"] = i
                    for j in self._steps(self.j, sizes):
                        yield {**sizes, "j": j}

    @staticmethod
    def values(symbol: Symbol) -> list[int]:
        upper = 13 if symbol.upper is None else symbol.upper
        return [v for v in range(symbol.lower, upper + 1) if v % symbol.multiple_of == 0]

    @staticmethod
    def _steps(var: Var, sizes: dict[str, int]) -> range:
        step = evaluate(var.step, sizes)
        return range(evaluate(var.lower, sizes), evaluate(var.upper, sizes), step) if step > 0 else range(0)

    def expression(self, depth: int) -> Expression:
        if depth == 0 or self.choose([0, 0, 0, 1]):
            leaf = self.choose([self.m, self.n, self.i, self.j, self.i, self.j, None])
            if leaf is None:
                constant = self.choose(list(range(-4, 9)))
                return Expression(constant, lambda _: constant)
            return Expression(leaf.size(), lambda sizes: sizes[leaf.name])
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        c = self.choose([1, 2, 3, 4, 6])
        match self.choose(["+", "-", "*", "**", "floor", "ceil", "mod", "min", "max", "align", "floor n", "mod n"]):
            case "+":
                return Expression(a.size + b.size, lambda s: a.naive(s) + b.naive(s))
            case "-":
                return Expression(a.size - b.size, lambda s: a.naive(s) - b.naive(s))
            case "*":
                return Expression(a.size * c, lambda s: a.naive(s) * c)
            case "**":
                return Expression(a.size * b.size, lambda s: a.naive(s) * b.naive(s))
            case "floor":
                return Expression(floordiv(a.size, c), lambda s: a.naive(s) // c)
            case "ceil":
                return Expression(ceildiv(a.size, c), lambda s: -(-a.naive(s) // c))
            case "mod":
                return Expression(mod(a.size, c), lambda s: a.naive(s) % c)
            case "min":
                return Expression(minimum(a.size, b.size), lambda s: min(a.naive(s), b.naive(s)))
            case "max":
                return Expression(maximum(a.size, b.size), lambda s: max(a.naive(s), b.naive(s)))
            case "align":
                return Expression(align_up(a.size, c), lambda s: -(-a.naive(s) // c) * c)
            case "floor n":
                return Expression(floordiv(a.size, self.n), lambda s: a.naive(s) // s["N"])
            case _:
                return Expression(mod(a.size, self.n), lambda s: a.naive(s) % s["N"])


def check(choose: Choose) -> tuple[int, int]:
    """Compares a random pair of expressions with brute force; returns how many of how many facts were decided."""
    scope = Scope(choose)
    a, b = scope.expression(choose([1, 2, 3])), scope.expression(choose([1, 2]))
    fixed = choose(scope.values(scope.n) or [0])
    specialized = substitute(a.size, {scope.n: fixed})
    bounds, divisor = (lower_bound(a.size), upper_bound(a.size)), known_divisor(a.size)
    equal, less, less_equal = is_equal(a.size, b.size), is_less(a.size, b.size), is_less_equal(a.size, b.size)
    limits = (lower_expression(a.size), upper_expression(a.size), upper_expression(a.size, lambda v: v.name == "i"))
    again = simplify(a.size)
    assert not variables(limits[0])
    assert not variables(limits[1])
    assert {v.name for v in variables(limits[2])} <= {"i"}
    values: list[tuple[int, int]] = []
    for sizes in scope.valuations():
        try:
            x, y = a.naive(sizes), b.naive(sizes)
        except ZeroDivisionError:
            continue
        values.append((x, y))
        assert evaluate(a.size, sizes) == x
        assert evaluate(again, sizes) == x
        assert divisor == x == 0 or x % divisor == 0
        assert bounds[0] is None or bounds[0] <= x
        assert bounds[1] is None or x <= bounds[1]
        assert evaluate(limits[0], sizes) <= x <= evaluate(limits[1], sizes)
        assert x <= evaluate(limits[2], sizes)
        assert sizes["N"] != fixed or evaluate(specialized, sizes) == x
    facts = [
        (equal, {x == y for x, y in values}),
        (less, {x < y for x, y in values}),
        (less_equal, {x <= y for x, y in values}),
    ]
    for decision, found in facts:
        assert decision is None or not found or found == {decision}
    uniform = [decision for decision, found in facts if len(found) == 1]
    return sum(decision is not None for decision in uniform), len(uniform)


@settings(max_examples=150)
@given(st.data())
def test_random_expressions(data: st.DataObject) -> None:
    check(lambda options: data.draw(st.sampled_from(options)))


def test_enough_is_decided() -> None:
    decided = total = 0
    for seed in range(200):
        generator = random.Random(seed)
        found, possible = check(generator.choice)
        decided, total = decided + found, total + possible
    assert total > 250
    assert decided / total > 0.8


def _quotient(symbol: Symbol, draw: random.Random) -> Dim:
    made = floordiv(symbol.size() * draw.randint(1, 3) + draw.randint(-3, 4), draw.choice([2, 3, 4, 5]))
    return made * draw.randint(1, 2) + draw.randint(-2, 2)


def test_quotients_of_one_symbol_are_compared_by_cases() -> None:
    """By different divisors, small values decide: floor((M + 2) / 4) <= floor(M / 2) is close to M = 2 only."""
    draw, true = random.Random(0), 0
    for _ in range(400):
        lower, upper, step = draw.choice([0, 1, 3]), draw.choice([None, 5, 40]), draw.choice([1, 4])
        symbol = Symbol("M", lower, upper, step)
        values = [v for v in range(lower, (400 if upper is None else upper) + 1) if v % step == 0]
        a, b = _quotient(symbol, draw), _quotient(symbol, draw)
        truths = {evaluate(a, {"M": v}) <= evaluate(b, {"M": v}) for v in values}
        found = is_less_equal(a, b)
        assert found is None or truths == {found}, f"{a} <= {b} for {symbol}"
        true += truths == {True}
        assert truths != {True} or found is True, f"{a} <= {b} for {symbol} is not proved"
    assert true >= 100


def test_a_loop_over_a_product_of_sizes_runs_only_where_none_is_zero() -> None:
    extent = Symbol("B").size() * Symbol("N").size()
    index = Var("i", 0, extent, maximum(1, ceildiv(extent, 2))).size()
    assert lower_bound(extent) == 0
    assert lower_bound(extent - index) == 1
    tile = minimum(extent - index, 64)
    assert lower_bound(tile - mod(tile, 4)) == 0


# ---------------------------------------------------------------- sums of symbols and of variables with constant ranges


def test_the_ends_of_sums_are_what_a_proof_finds() -> None:
    draw = random.Random(1)
    for _ in range(1000):
        size: Dim = draw.randint(-20, 20)
        for k in range(draw.randint(1, 4)):
            low = draw.randint(-3, 9)
            symbol = Symbol(f"s{k}", low, draw.choice([None, low, low + draw.randint(0, 20)]))
            variable = Var(f"v{k}", low, low + draw.randint(-3, 30), draw.randint(1, 7))
            size = size + draw.choice([-3, -2, -1, 1, 2, 5]) * draw.choice([symbol, variable])
        query = Query()
        form = query.form.of(size)
        low, high = query.lower(form), query.upper(form)
        assert (lower_bound(size), upper_bound(size)) == (low, high), to_text(size)
        below, above = high is not None and high < 0, low is not None and low >= 0
        assert is_less_equal(0, size) is (True if above else False if below else None), to_text(size)


# ---------------------------------------------------------------- differences of quotients


@pytest.mark.parametrize("step", [Symbol("s", 1).size(), ceildiv(K, 2), maximum(1, ceildiv(K, 2))])
def test_quotients_by_one_size_differ_by_that_of_the_difference(step: Dim) -> None:
    """The index of a whole tile is one of the tiles that there are: floor(K / s) <= ceil(K / s)."""
    whole = Var("i", 0, K - mod(K, step), step)
    assert is_less_equal(floordiv(K, step), ceildiv(K, step)) is True
    assert is_less(floordiv(whole, step), ceildiv(K, step)) is True
    assert is_less(ceildiv(K, step), floordiv(whole, step)) is False
    assert is_less_equal(ceildiv(K, step), floordiv(K, step)) is None
    assert is_less(floordiv(whole, step) + 1, ceildiv(K, step)) is None
    assert lower_bound(ceildiv(M + N, step) - floordiv(M, step) - floordiv(N, step)) == 0
    assert lower_bound(2 * floordiv(M + step, step) - 3 * floordiv(M, step) + floordiv(N, step)) is None


def test_random_differences_of_quotients() -> None:
    """What is proved of two quotients by one size holds for all sizes."""
    draw, proved = random.Random(2), 0
    for _ in range(200):
        step = draw.choice([Symbol("s", 1).size(), ceildiv(K + 1, 2)])
        a, b = ({"M": draw.randint(0, 2), "s": draw.randint(-1, 1), "": draw.randint(-2, 2)} for _ in range(2))
        first, second = (floordiv(x["M"] * M + x["s"] * step + x[""], step) for x in (a, b))
        size = draw.randint(1, 2) * first - draw.randint(1, 2) * second + draw.randint(0, 1) * M
        low, high = lower_bound(size), upper_bound(size)
        values = [evaluate(size, {"M": m, "K": s, "s": s}) for m in range(12) for s in range(1, 8)]
        assert low is None or low <= min(values), to_text(size)
        assert high is None or high >= max(values), to_text(size)
        proved += low is not None or high is not None
    assert proved >= 100


def test_minima_and_maxima_with_equal_differences() -> None:
    n, m = Symbol("N").size(), Symbol("M").size()
    assert is_equal(maximum(256, n), n + maximum(0, 256 - n)) is True
    for x in (n - 5, 2 * n - 3 * m, floordiv(n, 3) - m):
        assert is_equal(maximum(0, x) + minimum(0, x), x) is True
        assert is_equal(m * maximum(0, x) + m * minimum(0, x), m * x) is True
        assert is_less_equal(maximum(0, x), x - minimum(0, x)) is True
    assert is_equal(maximum(256, n), n + maximum(0, 255 - n)) is None
    assert is_less(n + maximum(0, 255 - n), maximum(256, n) + 1) is True


def test_random_differences_of_extrema() -> None:
    """What is decided of sums of minima and maxima, against all values of two symbols."""
    draw, symbols_ = random.Random(5), (Symbol("N", 0, 9), Symbol("M", 0, 9))
    values = [{"N": n, "M": m} for n in range(10) for m in range(10)]

    def affine() -> Dim:
        return sum((draw.randint(-2, 2) * s.size() for s in symbols_), start=draw.randint(-4, 4))

    equal = 0
    for _ in range(400):
        a, b, shift, sign = affine(), affine(), affine(), draw.choice([1, -1])
        high, low = maximum(a, b), minimum(a - shift, b - shift)
        pairs = [
            (high, a + b - shift - low),
            (high, high - draw.randint(-1, 1)),
            (low, high - shift + draw.randint(-1, 0) * sign),
        ]
        for lhs, rhs in pairs:
            found = {evaluate(lhs, v) - evaluate(rhs, v) for v in values}
            decided = is_equal(lhs, rhs)
            assert decided is not True or found == {0}
            assert decided is not False or 0 not in found
            below = is_less_equal(lhs, rhs)
            assert below is not True or max(found) <= 0
            assert below is not False or min(found) > 0
        equal += is_equal(*pairs[0]) is True
    assert equal == 400
