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


STEPS = (
    "let j, i = tile(mm, [n: 8, m: 6], tail: pad)\n"
    + "let k = tile(mm, [k: 1])\nvectorize(i)\nhoist_accumulator(mm, out_of: k)\n"
)


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        ("at: k", "[%mm/k1, %mm/n1]"),
        ("at: k, ahead: 3", "[%mm/k1 + 3, %mm/n1]"),
        ("at: k, ahead: 1, of: j", "[%mm/k1, %mm/n1 + 8]"),
        ("at: k, ahead: 2, of: i", "[%mm/k1, %mm/n1]"),
    ],
)
def test_ahead(arguments: str, offsets: str) -> None:
    done = check(RELU, MM + STEPS + f"prefetch(mm.rhs, {arguments})")
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert found.subset.text() == f"tile {offsets} [1, 8]"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (TILED + 'prefetch((match one "bias" in root).operand, at: i)',
         "the body of mm/m1 reads no subset that could be prefetched"),
        (TILED + "let k = tile(mm, [k: 1])\nprefetch(mm.lhs, at: i, ahead: 1, of: k)",
         "mm/k1 is not round mm/m1, so it has no iterations ahead of it"),
        (TILED + "prefetch(mm.rhs, at: i)", "the body of mm/m1 reads no subset that could be prefetched"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
