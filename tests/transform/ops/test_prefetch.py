"""prefetch: what a body will write or read is asked for at its start."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.memory import Prefetch
from tests.transform.payloads import MM, RELU, check, refusal

TILED = "let j, i = tile(mm, [n: 8, m: 6])\n"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (TILED + "prefetch(mm.out, at: i, for: write)", 1),
        (TILED + "prefetch(mm.lhs, at: i)", 1),
        (TILED + 'fuse(match one "r" in root, into: i)\nprefetch(mm.out, at: i, for: write)', 1),
        ("let k = tile(mm, [k: 2])\n" + TILED + 'fuse(match one "r" in root, into: i)\n'
         "prefetch(mm.out, at: i, for: write)", 1),
    ],
)  # fmt: skip
def test_computes_the_same(body: str, count: int) -> None:
    done = check(RELU, MM + body)
    found = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert len(found) == count
    assert all(op.parent is not None and op.parent.ops[0] is op for op in found)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (TILED + 'prefetch((match one "bias" in root).operand, at: i)',
         "the body of mm/m1 reads no subset that could be prefetched"),
        (TILED + "prefetch(mm.rhs, at: i)", "the body of mm/m1 reads no subset that could be prefetched"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
