"""split: two loops, before and after a point."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (12, 16, 4), (5, 7, 1))
)
BODIES = {
    "one loop": "let i = tile(mm, [m: 4])\nsplit(i, at: 8)",
    "a reduction": "let k = tile(mm, [k: 2])\nsplit(k, at: 2)",
    "nested": "let i, j = tile(mm, [m: 4, n: 8])\nsplit(i, at: 4)\nsplit(j, at: 8)",
    "at a size": "let i = tile(mm, [m: 2])\nsplit(i, at: 2 * ceildiv(size(mm.m), 4))",
    "then peeled": 'let i = tile(mm, [m: 4])\nsplit(i, at: 4)\npeel(i.copy("high"))',
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", BODIES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + BODIES[name], SIZES)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let i = tile(mm, [m: 4])\nsplit(i, at: 6)", "whole steps of mm/m1 do not reach 6"),
        ("let i = tile(mm, [m: 4])\nsplit(i, at: 0)", "0 leaves one side of mm/m1 empty"),
    ],
)
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
