"""unroll: copies of a body, with carried values handed on."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, PAYLOADS, PRODUCTS, RELU, TWO_K, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (12, 16, 4), (5, 7, 1))
)
BODIES = {
    "disjoint tiles": (
        'let i = tile(mm, [m: 4])\nlet ii = tile(mm, [m: 1])\npeel(i)\nlet u = unroll(ii.copy("main"), factor: 2)'
    ),
    "a reduction": 'let k = tile(mm, [k: 4])\nlet kk = tile(mm, [k: 1])\npeel(k)\nlet u = unroll(kk.copy("main"))',
    "in registers": (
        "let k = tile(mm, [k: 4])\nlet j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet kk = tile(mm, [k: 1])\npeel(k)\n"
        'let ii = i.copy("main")\nvectorize(ii)\nhoist_accumulator(mm.copy("main"), out_of: kk.copy("main"))\n'
        'let u = unroll(kk.copy("main"), factor: 2)'
    ),
}


@pytest.mark.parametrize("payload", PRODUCTS)
@pytest.mark.parametrize("name", BODIES)
def test_computes_the_same(name: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + BODIES[name], SIZES)


def test_handles_denote_every_copy() -> None:
    check(TWO_K, MM + 'let j = tile(mm, [j: 1])\nlet u = unroll(j)\nrequire len(mm) == 3 "three"', SIZES)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("let k = tile(mm, [k: 2])\nunroll(k)", "the number of iterations of mm/k1 is known only when the kernel runs"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 3)", "3 does not divide the iterations of mm/k1"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 1)", "unrolling mm/k1 by 1 changes nothing"),
        ("let k = tile(mm, [k: 2])\nunroll(k, factor: 0)", "mm/k1 cannot be unrolled 0 times"),
    ],
)
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
