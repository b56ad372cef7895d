"""Steps that fail for a cause that lies in an earlier statement: the message names it, and its fix works as written."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import Direction
from tests.diagnostics.case import Case, corners
from tests.diagnostics.follow import Fix, follow

MLP = """\
func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %r = tcp.max(%mm, 0.0) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
CAUSAL = """\
func @f(%q: tensor<[T]x[T]xf32>) -> tensor<[T]xf32> symbols [T: 1..] {
  %i = tcp.iota {dim = 0} : tensor<[T]x[T]xsi64>
  %j = tcp.iota {dim = 1} : tensor<[T]x[T]xsi64>
  %c = tcp.greater_equal(%i, %j) : tensor<[T]x[T]xi1>
  %masked = tcp.select(%c, %q, -inf) : tensor<[T]x[T]xf32>
  %most = tcp.reduce_max(%masked) {dims = [1]} : tensor<[T]xf32>
  tcp.return(%most)
}
"""
FIRST = """\
func @f(%x: tensor<8x[N]xf32>) -> (tensor<8xf32>, tensor<8xsi64>) symbols [N: 1..] {
  %y, %at = tcp.reduce_argmax(%x) {dims = [1]} : tensor<8xf32>, tensor<8xsi64>
  tcp.return(%y, %at)
}
"""
MM = "let mm = match one matmul in root\n"
R = 'let r = match one "r" in root\n'
TILED = f"{MM}let j, i = tile(mm, [n: 16, m: 6], tail: pad)\nlet kk = tile(mm, [k: 1])\n"
HOIST = "hoist_accumulator(mm, out_of: kk)"
OF_COPIES = "write `hoist_accumulator` before the `unroll`: the copies then hand the accumulator on"
SHIFTED = "tile(mm, [n: 16, m: 6], tail: shift)"
PADDED = "tile(mm, [n: 16, m: 6], tail: pad)"

STEPS = {
    "unrolled before it is hoisted": (
        MLP, f"{TILED}unroll(kk, factor: 4)\nvectorize(i)\n{HOIST}",
        "the body of mm/k1 has 4 copies of %mm, each with an accumulator of its own", OF_COPIES,
    ),
    "unrolled before it is hoisted, whole": (
        MLP, f"{TILED.replace('k: 1', 'k: 16')}unroll(kk)\nvectorize(i)\n{HOIST}",
        "the body of mm/k1 has 4 copies of %mm, each with an accumulator of its own", OF_COPIES,
    ),
    "an accumulator in memory cannot be unrolled": (
        MLP, f"{TILED}vectorize(i)\nunroll(kk, factor: 4)",
        "copies of the body of mm/k1 would touch one subset of %mm", f"`{HOIST}` before it",
    ),
    "the loop round the one that holds the tile": (
        MLP,
        f"{MM}let i = {PADDED.replace('n: 16, ', '')}\nlet j, kk = tile(mm, [n: 16, k: 2], tail: pad)\nvectorize(i)",
        "a tile of %mm in the loop mm/m1 cannot be vectorized", "`vectorize(j)`",
    ),
    "the start of sums fused twice": (
        MLP, f"{MM}let i = tile(mm, [m: 6])\ntile(mm, [k: 8])\nfuse(mm.start, into: i)\nfuse(mm.start, into: i)",
        "%mm.start is already in the loop mm/m1", "leave this statement out",
    ),
    "promoted where a loop leaves sums to the next": (
        MLP, f"{MM}let kk, i = tile(mm, [k: 8, m: 6])\nlet ks = tile(mm, [k: 2])\npromote(mm.out, at: kk)",
        "mm/m1 goes on from what is there before", "promote in a loop round mm/k1",
    ),
    "not vectorized": (
        MLP, f"{TILED}{HOIST}", "the destination %mm of mm/k1 cannot be carried in registers",
        "`vectorize(i)` before it",
    ),
    "no reduction dim": (
        MLP, f"{TILED}vectorize(i)\nhoist_accumulator(mm, out_of: j)",
        "mm/n1 steps `n` of %mm, which is not a reduction dim", "`hoist_accumulator(mm, out_of: mm.loop(k))`",
    ),
    "vectorized inside of the reduction": (
        MLP, f"{TILED}vectorize(mm)\nhoist_accumulator(mm, out_of: mm.loop(k))",
        "mm/n2 steps `n` of %mm, which is not a reduction dim",
        "`vectorize(mm.loop(m))` in place of the `vectorize` that made mm/n2 inside of mm/k1",
    ),
    "no reduction dim is tiled": (
        MLP, f"{MM}let j, i = {PADDED}\nvectorize(i)\nhoist_accumulator(mm, out_of: i)",
        "mm/m1 steps `m` of %mm, which is not a reduction dim",
        "tile a reduction dim before `vectorize`, as in `tile(mm, [k: 1])`",
    ),
    "nothing is reduced": (
        MLP, f"{R}let i = tile(r, [d0: 6])\nhoist_accumulator(r, out_of: i)",
        "r/d01 steps `d0` of %r, which is not a reduction dim", None,
    ),
    "shifted tiles on vectors": (
        MLP, f"{MM}let j, i = {SHIFTED}\nlet kk = tile(mm, [k: 1])\nvectorize(i)",
        "%mm.start in the loop mm/m1 cannot be vectorized", f"`{PADDED}` at s.tcps:4:1",
    ),
    "shifted tiles of another size": (
        MLP, f"{MM}let j, i = {SHIFTED.replace('16', '8')}\nlet kk = tile(mm, [k: 1])\nvectorize(i)",
        "%mm.start in the loop mm/m1 cannot be vectorized", f"`{PADDED.replace('16', '8')}` at s.tcps:4:1",
    ),
    "shifted tiles that something is fused into": (
        MLP, f"{MM}{R}let j, i = {SHIFTED}\nfuse(r, into: i)",
        "the loop mm/n1 does not step its producer in disjoint tiles", f"`{PADDED}` at s.tcps:5:1",
    ),
    "a condition on positions elsewhere": (
        CAUSAL,
        'let masked = match one "masked" in root\nlet most = match one "most" in root\n'
        "let rows, columns = tile(most, [d0: 8, d1: 16])\nfuse(masked, into: columns)\ntrim(columns, masked)",
        "%masked asks nothing of positions that ends most/d11",
        "let one operation compute the positions, compare and choose: `let y = fuse_elementwise([i, j, c, masked])`, "
        "before what reads it is tiled; then `fuse(y, into: ..)` and `trim(.., y)`",
    ),
    "parts that may be empty": (
        FIRST, 'let y = match one "y" in root\nsplit_reduction(y, d1, parts: 4)',
        "nothing proves that `split_reduction` fits: %y (tcp.reduce_argmax): dim 1 of a tile of %x may be empty, and "
        "nothing has no first element", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_the_cause_is_named(name: str) -> None:
    payload, body, message, fix = STEPS[name]
    case = Case(payload, f"language 1\nschedule s(root: func) {{\n{body}\n}}\n")
    found = case.problems("s.tcps")[0]
    assert (found.message, found.fix) == (message, fix)
    if fix is not None and not isinstance(found.fix, Direction):
        placed = Case(case.payload, case.schedule, schedule_place=corners(found.schedule))
        assert follow(Fix.of(found, "", placed)) == ""
