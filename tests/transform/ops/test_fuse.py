"""fuse: producers, consumers and starts, into loops of every kind."""

from __future__ import annotations

import pytest

from tests.transform.payloads import (
    CHAIN,
    MM,
    RELU,
    ROWS,
    SOFTMAX,
    TRANSPOSED,
    Sizes,
    check,
    refusal,
)

R = 'let r = match one "r" in root\n'
S = 'let s = match one "s" in root\n'
P = 'let p = match one "p" in root\n'
Y = 'let y = match one "y" in root\n'
SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k}
    for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (1, 1, 1), (12, 16, 4), (3, 8, 2))
)
CONSUMERS = {
    "into parallel loops": "let i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)",
    "into one loop": "let j = tile(mm, [n: 8])\nfuse(r, into: j)",
    "one after the other": S + "let j = tile(mm, [n: 8])\nfuse(s, into: j)\nfuse(r, into: j)",
    "behind an inner reduction": "let i, j = tile(mm, [m: 6, n: 8])\nlet k = tile(mm, [k: 2])\nfuse(r, into: j)",
    "inside a reduction": "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)",
    "start, then end": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "end, then start": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)\nfuse(mm.start, into: j)"
    ),
    "inside, between parallel loops": (
        "let i = tile(mm, [m: 6])\nlet k = tile(mm, [k: 2])\nlet j = tile(mm, [n: 8])\n"
        "fuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "on padded tiles": (
        "let k = tile(mm, [k: 2])\nlet i, j = tile(mm, [m: 6, n: 8], tail: pad)\n"
        "fuse(mm.start, into: j)\nfuse(r, into: j)"
    ),
    "then peeled": "let i, j = tile(mm, [m: 6, n: 8])\nfuse(r, into: j)\npeel(i)\npeel(j)",
}
PRODUCERS = {
    "through a chain": "let i, j = tile(r, [d0: 6, d1: 8])\nfuse(mm, into: j)",
    "on padded tiles": "let i, j = tile(r, [d0: 6, d1: 8], tail: pad)\nfuse(mm, into: j)",
    "one after the other": S + "let i, j = tile(r, [d0: 6, d1: 8], tail: pad)\nfuse(s, into: j)\nfuse(mm, into: j)",
    "then tiled": "let i, j = tile(r, [d0: 6, d1: 8])\nfuse(mm, into: j)\nlet k = tile(mm, [k: 2])",
    "into a parallel loop": "let i = tile(r, [d0: 6], parallel: true)\nfuse(mm, into: i)",
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers(name: str) -> None:
    check(RELU, MM + R + CONSUMERS[name], SIZES)


@pytest.mark.parametrize("name", PRODUCERS)
def test_producers(name: str) -> None:
    check(RELU, MM + R + PRODUCERS[name], SIZES)


@pytest.mark.parametrize(
    "body",
    [
        P + R + "let i = tile(p, [d0: 4])\nfuse(r, into: i)",
        P + R + "let i, j = tile(p, [d0: 4, d1: 16], tail: pad)\nfuse(r, into: j)",
        P + R + "let i, j = tile(r, [d0: 4, d1: 16], tail: pad)\nfuse(p, into: j)",
    ],
)
def test_chains(body: str) -> None:
    check(CHAIN, body)


@pytest.mark.parametrize(
    "body",
    [
        S + Y + "let i = tile(s, [d0: 4])\nfuse(y, into: i)",
        S + Y + "let i, j = tile(s, [d0: 4, d1: 8])\nfuse(y, into: j)",
        S + Y + "let j, i = tile(s, [d1: 8, d0: 4])\nfuse(s.start, into: i)\nfuse(y, into: i)",
        S + Y + "let i = tile(y, [d0: 4])\nfuse(s, into: i)",
    ],
)
def test_reductions_of_rows(body: str) -> None:
    check(ROWS, body)


@pytest.mark.parametrize(
    "body",
    [
        "let j = tile(mm, [n: 8])\nlet k = tile(mm, [k: 2])\nfuse(mm.start, into: k)",
        "let k = tile(mm, [k: 2])\nlet j = tile(mm, [n: 8])\nfuse(mm.start, into: j)",
    ],
)
def test_a_start_moves_to_the_first_step(body: str) -> None:
    check(TRANSPOSED, MM + body, SIZES)


def test_a_softmax_row_by_row() -> None:
    body = Y + "let d = decompose(y)\nlet i = tile(d, [d0: 4])\n"
    check(SOFTMAX, body + "fuse(match one reduce_max in root, into: i)", exact=False)
    check(SOFTMAX, body + "fuse(match one reduce_sum in root, into: i, recompute: true)", exact=False)


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (RELU, MM + R + "let i = tile(mm, [m: 6])\nfuse(r, into: i)\nfuse(r, into: i)",
         "%r is already in the loop mm/m1"),
        (RELU, MM + R + 'let b = match one "bias" in root\nlet i = tile(b, [d0: 6])\nfuse(mm, into: i)',
         "the loop bias/d01 does not use %mm"),
        (ROWS, S + Y + "let i, j = tile(y, [d0: 4, d1: 4])\nfuse(s, into: j)",
         "%s reduces `d1`, which the loops step in tiles"),
        (SOFTMAX, Y + "let d = decompose(y)\nlet i = tile(d, [d0: 4])\nfuse(match one exp in root, into: i)",
         "%y/exp is also used outside the loop y/d01"),
        (CHAIN, P + 'let q = match one "q" in root\nlet i = tile(q, [d0: 4])\nlet e = tile(p, [d0: 2])\n'
         "fuse(q, into: e)", "the loop p/d01 does not use %q"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, body).message == message
