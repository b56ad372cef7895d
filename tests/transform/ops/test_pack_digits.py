"""pack by digits: `[k/4, n, k%4]`, every order, odd sizes, one and two levels, and layouts that are none."""

from __future__ import annotations

import pytest

from tests.transform.payloads import INTEGERS, MIN_PLUS, MM, PAYLOADS, RELU, Sizes, check, refusal, run

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 8))
)
NEST = (
    "let jc = tile(mm, [n: 16])\nlet pc = tile(mm, [k: 8])\nlet ic = tile(mm, [m: 12])\n"
    "let jr, ir = tile(mm, [n: 8, m: 6], tail: pad)\n"
)
PACKS = {
    "rhs": "pack(mm.rhs, [k/4, n, k%4], at: pc)",
    "rhs, remainder outside": "pack(mm.rhs, [k%2, n, k/2], at: pc)",
    "rhs, n by digits": "pack(mm.rhs, [n/4, k, n%4], at: pc)",
    "rhs, both by digits": "pack(mm.rhs, [k/4, n/2, k%4, n%2], at: pc)",
    "lhs": "pack(mm.lhs, [k/4, m, k%4], at: ic)",
    "lhs with a pitch": "pack(mm.lhs, [m, k/4 pad 8, k%4], at: ic)",
    "k stays outermost": "pack(mm.rhs, [n/4, n%4], at: pc)",
    "both": "pack(mm.rhs, [k/4, n, k%4], at: pc, parallel: true)\npack(mm.lhs, [k/4, m, k%4], at: ic)",
    "two levels": "pack(mm.rhs, [k/4, n, k%4], at: pc)\npack(mm.rhs, [n, k/4, k%4], at: jr)",
    "whole, then by digits": "pack(mm.rhs, [n, k], at: pc)\npack(mm.rhs, [k/4, n, k%4], at: jr)",
    "tiled by whole quotients": "pack(mm.rhs, [k/2, n, k%2], at: pc)\ntile(mm, [k: 4])",
    "tiled, padded": "pack(mm.rhs, [k/2, n, k%2], at: pc)\ntile(mm, [k: 6], tail: pad)",
}


@pytest.mark.parametrize("payload", ["relu", "transposed", "integers"])
@pytest.mark.parametrize("name", PACKS)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + NEST + PACKS[name], SIZES)


def test_a_class_that_fixes_its_maps_becomes_the_nearest_that_does_not() -> None:
    assert "= tcp.matmul(" not in run(RELU, MM + NEST + PACKS["rhs"]).module.text()
    assert 'rhs = ["k/4", "n", "k%4"]' in run(RELU, MM + NEST + PACKS["rhs"]).module.text()


def test_a_multiple_of_the_divisor_is_not_padded() -> None:
    payload = INTEGERS.replace("[K]", "64").replace(", K: 0..", "")
    text = run(payload, MM + "let i, j = tile(mm, [m: 4, n: 8])\npack(mm.rhs, [k/4, n, k%4], at: j)").module.text()
    assert "tcp.pad" not in text


def test_a_divisor_is_computed() -> None:
    check(INTEGERS, MM + NEST + "let w = 2 * 2\npack(mm.rhs, [k/w, n, k%w], at: pc)", SIZES)


@pytest.mark.parametrize(
    ("layout", "message", "fix"),
    [
        ("[k/4, n]", "`k/4` is only a part of `k`", "add k%4"),
        ("[n, k%4]", "`k%4` is only a part of `k`", "add k/4"),
        ("[k/4, n, k%2]", "the digits of `k` have two divisors, 2 and 4", None),
        ("[k/4, n, k%4, k%4]", "`k` is stored more than once", None),
        ("[k/4, n, k%4, k]", "`k` is stored more than once", None),
        ("[k/16, n, k%16]", "the digit `k/16` does not split `k`", "store `k` whole, or tile it by more"),
        ("[k/1, n, k%1]", "the digit `k/1` does not split `k`", "store `k` whole, or tile it by more"),
        ("[k/4%2, n, k%4]", "`k/4%2` is a digit in the middle of `k`", None),
        ("[k/4, m, k%4]", "the layout [n, k/4, m, k%4] does not fit the operand", None),
    ],
)
def test_no_layout(layout: str, message: str, fix: str | None) -> None:
    found = refusal(RELU, MM + NEST + f"pack(mm.rhs, {layout}, at: pc)")
    assert (found.message, found.fix) == (message, fix)


def test_a_factor_that_cannot_be_padded() -> None:
    """Of a product of sums no number is known that, in both operands at once, leaves the product as it is: what there
    is beyond whole digits is masked."""
    check(MIN_PLUS.replace("tcp.min", "tcp.mul"), MM + NEST + PACKS["rhs"], SIZES)


def test_a_reduction_that_can_be_padded_is() -> None:
    check(MIN_PLUS, MM + NEST + PACKS["both"], SIZES)


def test_other_digits_than_it_has() -> None:
    found = refusal(RELU, MM + NEST + "pack(mm.rhs, [k/4, n, k%4], at: pc)\npack(mm.rhs, [k/2, n, k%2], at: jr)")
    assert found.message == "`k` is packed by its digits already"


def test_a_tile_that_starts_inside_a_quotient() -> None:
    found = refusal(RELU, MM + NEST + "pack(mm.rhs, [k/4, n, k%4], at: pc)\ntile(mm, [k: 1])")
    assert "`k` is stored by its digits k/4 and k%4" in found.message
    assert found.fix == "`[k: 4]`"
