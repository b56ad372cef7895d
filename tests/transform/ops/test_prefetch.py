"""prefetch: what a body will write or read is asked for at its start."""

from __future__ import annotations

from collections import Counter

import pytest

from tcpx.payload.ir import parent_op
from tcpx.payload.ops.gml_st import If
from tcpx.payload.ops.memory import Prefetch
from tcpx.payload.sizes import evaluate
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


ROWS = """\
func @f(%x: tensor<[M]x[N]xf32>, %g: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %t = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
  %d = tcp.sub(%x, broadcast(%t, [0])) : tensor<[M]x[N]xf32>
  %r = tcp.mul(%d, broadcast(%g, [1])) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
BY_ROWS = """\
let t = match one "t" in root
let d = match one "d" in root
let r = match one "r" in root
let row = tile(r, [d0: 1])
fuse(d, into: row)
fuse(t, into: row)
tile(t, [d1: 8])
let i = tile(r, [d1: 8])
fuse(d, into: i)
"""


@pytest.mark.parametrize(("arguments", "source", "text"), [
    ("at: i, ahead: 1, of: row", "x", "tile [%r/d01 + 1, %r/d11] [1, min(8, N - %r/d11)]"),
    ("at: parent(t), ahead: 1, of: row", "x", "tile [%r/d01 + 1, %t/d11] [1, min(8, N - %t/d11)]"),
    ("at: i, for: write, ahead: 1, of: row", "r.2", "tile [%r/d01 + 1, %r/d11] [1, min(8, N - %r/d11)]"),
])  # fmt: skip
def test_all_that_another_row_reads_or_writes(arguments: str, source: str, text: str) -> None:
    """Neither the buffers of one row nor what all rows read."""
    done = check(ROWS, BY_ROWS + f"prefetch({arguments})")
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert (found.operands[0].name, found.subset.text()) == (source, text)


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
    assert found.subset.text() == f"tile [{row}, %mm/n1 + 8] [1, 8]"
    assert turns_of(found) == "mod(%mm/k1, 4) == 0"


def turns_of(found: Prefetch) -> str | None:
    """When an iteration asks, if it does not always."""
    parent = parent_op(found)
    return str(parent.predicate) if isinstance(parent, If) else None


ASKS = STEPS + "prefetch(mm.rhs, at: k, ahead: 1, of: j, shared_by: i)"


PANELS = """\
func @panels(%x: tensor<24x[K]xf32>, %w: tensor<2x[K]x8xf32>) -> tensor<2x24x8xf32> symbols [K] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["j", "k", "n"], out = ["j", "m", "n"]} : tensor<2x24x8xf32>
  tcp.return(%mm)
}
"""
"""Two products with columns that are stored in panels of 8: what tiles of columns read lies one behind the other."""
IN_PANELS = (
    "let j = tile(mm, [j: 1])\nlet i = tile(mm, [m: 6])\nlet k = tile(mm, [k: 1])\n"
    "prefetch(mm.rhs, at: k, ahead: 1, of: j, shared_by: i)"
)


@pytest.mark.parametrize(("rows", "along"), [
    ("24", "2*K*floordiv(%mm/m1, 6) + 2*%mm/k1"),
    ("[M]", "%mm/k1*ceildiv(8, max(1, ceildiv(M, 6))) + ceildiv(8*K, max(1, ceildiv(M, 6)))*floordiv(%mm/m1, 6)"),
])  # fmt: skip
def test_what_lies_one_behind_the_other_is_shared_in_steps(rows: str, along: str) -> None:
    payload = PANELS.replace("24", rows).replace("[K] {", "[K, M] {" if rows == "[M]" else "[K] {")
    done = check(payload, MM + IN_PANELS)
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert found.subset.text() == f"tile [%mm/j1 + 1, 0, {along}] [1, 1, {2 if rows == '24' else 8}]"


def test_rows_of_an_argument_that_lie_apart_do_not_follow_one_another() -> None:
    strided = PANELS.replace("2x[K]x8xf32>", "2x[K]x8xf32> strided")
    done = check(strided, MM + IN_PANELS)
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert found.subset.text().startswith("tile [%mm/j1 + 1, ceildiv(K, 4)*floordiv(%mm/m1, 6) + ")


def test_shared_by_iterations_whose_number_the_kernel_knows() -> None:
    done = check(RELU, MM + ASKS)
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    part = "ceildiv(1048576, max(1, ceildiv(M, 6)))"
    row = f"floordiv(K*{part}*floordiv(%mm/m1, 6) + %mm/k1*{part}, 1048576)"
    assert found.subset.text() == f"tile [{row}, %mm/n1 + 8] [1, 8]"


def asked_for(found: Prefetch, sizes: dict[str, int]) -> Counter[tuple[int, int]]:
    """How often the iterations of the first tile of columns ask for each element."""
    asked = Counter[tuple[int, int]]()
    for m in range(0, sizes["M"], 6):
        for k in range(sizes["K"]):
            guard = parent_op(found)
            if isinstance(guard, If) and not guard.predicate.evaluate({"mm/m1": m, "mm/k1": k, "mm/n1": 0, **sizes}):
                continue
            at = {"mm/m1": m, "mm/k1": k, "mm/n1": 0, **sizes}
            row, column = (part if isinstance(part, int) else evaluate(part, at) for part in found.subset.offsets)
            width = found.subset.sizes[1]
            assert isinstance(width, int)
            asked.update((row, column + each) for each in range(width))
    return asked


@pytest.mark.parametrize("m", [18, 24, 42, 90, 186])
def test_every_line_is_asked_for_once_or_twice(m: int) -> None:
    done = check(SHARED.replace("24", str(m)), MM + ASKS, [{"K": 32, "N": 24}])
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    asked = asked_for(found, {"M": m, "K": 32, "N": 24})
    assert asked.keys() == {(r, c) for r in range(32) for c in range(8, 16)}
    assert set(asked.values()) <= {1, 2}


@pytest.mark.parametrize(("least", "period"), [(1, 1), (7, 2), (19, 4), (100, 16)])
@pytest.mark.parametrize("tiles", [1, 2, 3, 5, 17, 300])
def test_every_line_is_asked_for_by_any_number_of_iterations(least: int, period: int, tiles: int) -> None:
    body = f"specialize mm when size(mm.m) >= {least} {{\n{ASKS}\n}} else {{\n}}\n"
    done = check(RELU, MM + body)
    (found,) = [op for op in done.module.walk() if isinstance(op, Prefetch)]
    assert turns_of(found) == (None if period == 1 else f"mod(%mm/k1, {period}) == 0")
    sizes = {"M": max(6 * tiles, least), "K": 35, "N": 24}
    asked = asked_for(found, sizes)
    assert asked.keys() >= {(r, c) for r in range(35) for c in range(8, 16)}
    assert max(row for row, _ in asked) <= 35


WRITTEN = "let j, i = tile(mm, [n: 8, m: 6], tail: pad)\nlet k = tile(mm, [k: 1])\n"


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
        (STEPS + "prefetch(mm.rhs, at: k, ahead: 1, shared_by: i)",
         "iterations of mm/m1 cannot share what only the next iterations of mm/k1 need"),
        (WRITTEN + "prefetch(mm.out, at: k, for: write, of: j, shared_by: i)",
         "the iterations of mm/m1 cannot share what mm/k1 writes"),
        (STEPS + "prefetch(mm.out, at: k)", "%mm is computed, not read"),
        (TILED + "prefetch(mm.out, at: i, for: write, ahead: -1)",
         "iterations of mm/m1 that are over need nothing any more"),
        (TILED + "prefetch(mm.rhs, at: i)", "the body of mm/m1 reads no subset that could be prefetched"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    assert refusal(RELU, MM + body).message == message
