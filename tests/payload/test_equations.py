"""What equations between sizes say of their symbols, against all values of these."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tcpx
from tcpx.payload.sizes import Dim, Symbol, ceildiv, evaluate, floordiv, mod, simplify, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.equations import reduced, sides, solutions, value_of_quotient, value_of_symbol
from tcpx.payload.sizes.predicates import Predicate

H, W = Symbol("h", 1), Symbol("w", 1)
h, w = H.size(), W.size()


def learned(*equations: tuple[Dim, Dim]) -> Symbol:
    """What is known of `h` where all of these are equal."""
    held = Predicate(tuple(c for a, b in equations for c in Predicate.of("==", a, b).comparisons))
    return {H: H, **held.refine([H])}[H]


@pytest.mark.parametrize(
    ("a", "b", "lower", "upper", "multiple_of"),
    [
        (2 * floordiv(h + 1, 2), h, 2, None, 2),
        (4 * floordiv(floordiv(h + 1, 2) + 1, 2), h, 4, None, 4),
        (floordiv(h + 15, 48), 1, 33, 80, 1),
        (floordiv(h, 2), h - 3, 5, 6, 1),
        (2 * floordiv(h + 1, 2), h + 1, 1, None, 1),
        (mod(h, 12), 0, 12, None, 12),
    ],
)
def test_what_an_equation_says(a: Dim, b: Dim, lower: int, upper: int | None, multiple_of: int) -> None:
    found = learned((a, b))
    assert (found.lower, found.upper, found.multiple_of) == (lower, upper, multiple_of)


def test_equations_of_a_deep_net_are_solved_together() -> None:
    sizes: list[Dim] = [h]
    for _ in range(6):
        sizes.append(floordiv(sizes[-1], 2))
    pairs = [(sizes[k], 2 * sizes[k + 1]) for k in range(6)]
    assert learned(*pairs).multiple_of == learned(*reversed(pairs)).multiple_of == 64


def test_an_equation_that_no_size_satisfies() -> None:
    for a, b in ((floordiv(h, 2), h), (2 * floordiv(h, 2), 2 * floordiv(h + 1, 2) + 1), (mod(h, 4), 5)):
        assert Predicate.of("==", a, b).decide() is False
        assert Context([Predicate.of("==", a, b)]).is_possible is False
    assert Context([Predicate.of("==", 2 * floordiv(h, 2), h), Predicate.of("==", mod(h, 4), 1)]).is_possible is False


def test_common_factors() -> None:
    f = floordiv(w + 3, 8)
    assert reduced(120 * h * f * floordiv(w + 15, 48) - 120 * h * f) == floordiv(w + 15, 48) - 1
    assert reduced(2 * h * h - 4 * h) == h - 2
    assert reduced(6 * h - 4) == 3 * h - 2
    assert sides(h - w - 3) == (h, w + 3)


def test_a_symbol_or_a_quotient_by_the_others() -> None:
    assert value_of_symbol(h - 2 * w - 1, H) == 2 * w + 1
    assert value_of_symbol(2 * w - h, H) == 2 * w
    assert value_of_symbol(2 * w - h, W) is None
    assert value_of_symbol(h - floordiv(h, 2), H) is None
    quarter = floordiv(h + 3, 4)
    assert value_of_quotient(quarter - 8 * floordiv(h + 31, 32)) == (to_text(quarter), 8 * floordiv(h + 31, 32))
    assert value_of_quotient(2 * quarter - h * w) is None


def test_random_equations() -> None:
    """Of sums of quotients, against the values up to 400: what is known holds, and divisors are the greatest."""
    draw, decided, divided = random.Random(7), 0, 0

    def quotient(depth: int) -> Dim:
        inner = draw.choice([1, 1, 2, -1]) * h + draw.randint(-3, 9) if depth == 0 else quotient(depth - 1)
        return draw.choice([floordiv, ceildiv, mod])(inner, draw.choice([1, 2, 2, 3, 4, 8]))

    for _ in range(1500):
        a, b = (
            draw.randint(1, 4) * quotient(draw.randint(0, 1)) + draw.randint(-2, 3) * h + draw.randint(-2, 2)
            for _ in range(2)
        )
        if draw.random() < 0.5:
            b = draw.choice([h, floordiv(h, 2)])
            a = draw.choice([2, 4]) * draw.choice([floordiv, ceildiv])(h + draw.randint(0, 3), draw.choice([2, 4, 8]))
        gap = a - b
        values = [n for n in range(1, 401) if evaluate(gap, {"h": n}) == 0]
        found = solutions(gap)
        if found is None:
            continue
        told = {n for n in range(1, 401) if n % found.period in found.remainders} | {
            n for n in found.others if n <= 400
        }
        assert told == set(values), to_text(gap)
        decided += 1
        symbol = learned((a, b)) if not found.are_none else None
        if symbol is None:
            assert Context([Predicate.of("==", a, b)]).is_possible is False
            continue
        assert all(symbol.lower <= n and n % symbol.multiple_of == 0 for n in values)
        assert symbol.upper is None or max(found.others, default=0) <= symbol.upper
        divided += symbol.multiple_of > 1
        assert evaluate(simplify(gap), {"h": 7}) == evaluate(gap, {"h": 7})
    assert decided > 1400
    assert divided > 50


def test_what_an_assertion_of_a_payload_says() -> None:
    """One condition at the start of a function is known in it: a divisor of a symbol, or a sum of others."""
    text = """func @f(%x: tensor<[N]x[H]xf32>) -> tensor<[2*N]x[H]xf32> symbols [N, H] {
  tcp.assert {any = [2*floordiv(H + 1, 2) == H], message = "H is even"}
  %a = tcp.slice(%x) {offsets = [0, 0]} : tensor<[N]x[floordiv(H, 2)]xf32>
  %b = tcp.broadcast(%a) {dims = [0, 1]} : tensor<[N]x[floordiv(H, 2)]x2xf32>
  %c = tcp.reshape(%b) : tensor<[N]x[H]xf32>
  %y = tcp.concat(%x, %c) {dim = 0} : tensor<[2*N]x[H]xf32>
  tcp.return(%y)
}"""
    module = tcpx.parse(text)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    wanted = np.concatenate([x, np.repeat(x[:, :3], 2, 1)])
    for run in (lambda x: tcpx.evaluate(module, x), tcpx.compile(module, target="generic")):
        np.testing.assert_array_equal(run(x), wanted)
        with pytest.raises(tcpx.ArgumentError, match="H is even"):
            run(x[:, :5])
    with pytest.raises(tcpx.VerifyError):
        tcpx.parse("\n".join(line for line in text.splitlines() if "assert" not in line))
