"""prefetch: what a body will write or read is asked for at its start."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.memory import Prefetch
from tcpx.payload.sizes import evaluate, variables
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


def test_of_what_one_of_two_branches_reads() -> None:
    """The first tile of rows reads the operand and fills a buffer, which is not there before."""
    tiles = STEPS.replace("vectorize", "pack(mm.rhs, [k, n], at: j, filled_by: i)\nvectorize", 1)
    done = check(RELU, MM + tiles.replace("let j,", "let pc = tile(mm, [k: 4])\nlet j,") + PREFETCH)
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert found.operands[0].name == "w"
    assert found.subset.text() == "tile [%mm/k1 + %mm/k2, %mm/n1 + 8] [1, 8]"


PREFETCH = "prefetch(mm.rhs, at: k, ahead: 1, of: j)"
SHARED = (
    RELU.replace("%x: tensor<[M]", "%x: tensor<24")
    .replace("tensor<[M]x[N]xf32>", "tensor<24x[N]xf32>")
    .replace("M: 0.., ", "")
)
"""A product of 24 rows: four tiles of 6."""


def test_shared_by_the_iterations_of_a_loop() -> None:
    done = check(SHARED, MM + STEPS + "prefetch(mm.rhs, at: k, ahead: 1, of: j, shared_by: i)")
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    row = "ceildiv(K, 4)*floordiv(%mm/m1, 6) + floordiv(%mm/k1, 4)"
    assert found.subset.text() == f"tile [{row}, %mm/n1 + 2*mod(%mm/k1, 4) + 8] [1, 2]"


def test_shared_by_the_first_iterations_where_it_is_not_known_how_many_there_are() -> None:
    done = check(RELU, MM + STEPS + "prefetch(mm.rhs, at: k, ahead: 1, of: j, shared_by: i)")
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    row = "ceildiv(K, 8)*min(7, floordiv(%mm/m1, 6)) + floordiv(%mm/k1, 8)"
    assert found.subset.text() == f"tile [{row}, %mm/n1 + mod(%mm/k1, 8) + 8] [1, 1]"


def test_every_line_is_asked_for() -> None:
    """The parts of all iterations cover what the next ones read, but for the last rows where these are no multiple."""
    sizes, asked = {"K": 12, "N": 24}, set[tuple[int, int]]()
    done = check(SHARED, MM + STEPS + "prefetch(mm.rhs, at: k, ahead: 1, of: j, shared_by: i)", [sizes])
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    symbols = sorted({v for part in found.subset.offsets for v in variables(part)}, key=str)
    for m in range(0, 24, 6):
        for k in range(12):
            at = {"mm/m1": m, "mm/k1": k, "mm/n1": 0, **sizes}
            row, column = (evaluate(part, at) if not isinstance(part, int) else part for part in found.subset.offsets)
            asked |= {(row, column), (row, column + 1)}
    assert symbols
    assert asked >= {(row, column) for row in range(12) for column in range(8, 16)}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (TILED + 'prefetch((match one "bias" in root).operand, at: i)',
         "the body of mm/m1 reads no subset that could be prefetched"),
        (TILED + "let k = tile(mm, [k: 1])\nprefetch(mm.lhs, at: i, ahead: 1, of: k)",
         "mm/k1 is not round mm/m1, so it has no iterations ahead of it"),
        (STEPS + "prefetch(mm.rhs, at: k, of: i, shared_by: j)", "mm/n1 does not stand between mm/m1 and mm/k1"),
        (STEPS + "prefetch(mm.lhs, at: k, of: j, shared_by: i)",
         "the iterations of mm/m1 cannot share what mm/k1 reads"),
        (TILED + "prefetch(mm.rhs, at: i)", "the body of mm/m1 reads no subset that could be prefetched"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
