"""The examples of the overview of gml_st: tiling, fusion as a step of its own, subsets that are no boxes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tests.transform.payloads import arguments, check, refusal, run, same_numbers

SUM = """\
func @sum(%in: tensor<80x60xf32>, %out: tensor<80xf32>) -> tensor<80xf32> {
  %sum = tcp.reduce_sum(%in, init = %out) {dims = [1]} : tensor<80xf32>
  tcp.return(%sum)
}
"""
TILED_SUM = """\
func @sum(%in: tensor<80x60xf32>, %out: tensor<80xf32>) -> tensor<80xf32> {
  %sum = gml_st.parallel %sum/d01 in 0 to 80 step 4 (%rows = %out) {
    %out_tile = gml_st.materialize(%rows) tile [%sum/d01] [4] : tensor<4xf32>
    %reduced = gml_st.for %sum/d11 in 0 to 60 step 4 (%acc = %out_tile) {
      %in_sub = gml_st.materialize(%in) tile [%sum/d01, %sum/d11] [4, 4] : tensor<4x4xf32>
      %out_sub = gml_st.materialize(%acc) full : tensor<4xf32>
      %reduction = tcp.reduce_sum(%in_sub, init = %out_sub) {dims = [1]} : tensor<4xf32> name "sum"
      gml_st.yield(%reduction, %acc) full
    } : tensor<4xf32>
    gml_st.yield(%reduced, %rows) tile [%sum/d01] [4]
  } : tensor<80xf32>
  tcp.return(%sum)
}
"""
TILE_SUM = 'let s = match one "sum" in root\nlet i = tile(s, [d0: 4], parallel: true)\nlet j = tile(s, [d1: 4])'


def _same(before: Module, after: Module, **sizes: int) -> None:
    """Both compute the same of random arguments; every index argument is of numbers below 3."""
    given = [np.asarray(a, np.int64) % 3 if a.dtype == np.int64 else a for a in arguments(before, sizes)]
    found, wanted = (evaluate_func(each, each.main, given) for each in (after, before))
    assert same_numbers(found, wanted, exact=False)


def _numbered(text: str) -> str:
    """A payload whose values are called by their order."""
    numbers: dict[str, int] = {}
    return re.sub(r"%[\w./]+", lambda found: f"%{numbers.setdefault(found[0], len(numbers))}", text)


def test_the_tiled_sum_is_what_tile_makes() -> None:
    made, written = check(SUM, TILE_SUM).module, parse(TILED_SUM)
    assert _numbered(made.text()) == _numbered(written.text())
    _same(parse(SUM), written)


PAIR = """\
func @pair(%input: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %producer = tcp.exp(%input) : tensor<[M]x[N]xf32>
  %scale = tcp.exp(%b) : tensor<[N]xf32>
  %rows = tcp.broadcast(%scale) {dims = [1]} : tensor<[M]x[N]xf32>
  %consumer = tcp.mul(%producer, %rows) : tensor<[M]x[N]xf32>
  tcp.return(%consumer)
}
"""
TILE = 'let c = match one "consumer" in root\nlet i = tile(c, [d0: 4])\n'


def _inside(module: Module) -> list[str]:
    """Opcodes of what is computed in the outermost loop; all else of the function makes and returns values."""
    (loop,) = (op for op in module.main.body.ops if op.regions)
    rest = {op.opcode for op in module.main.body.ops if op is not loop}
    assert rest <= {"tcp.empty", "tcp.return", "tcp.exp", "tcp.broadcast"}
    return [op.opcode for op in loop.walk() if op.opcode.startswith("tcp.")]


def test_after_consumer_tiling_the_producer_is_outside_and_after_its_fusion_inside() -> None:
    tiled = check(PAIR, TILE, exact=False).module
    assert "tcp.exp" not in _inside(tiled)
    fused = check(PAIR, TILE + 'fuse(match one "producer" in root, into: i)', exact=False).module
    assert _inside(fused) == ["tcp.exp", "tcp.broadcast", "tcp.mul"]


def test_fusion_is_a_step_of_its_own() -> None:
    """What was tiled is written as text and cleaned up; fusion reads subsets, and looks for no pattern."""
    tiled = parse(run(PAIR, TILE + "optional canonicalize(root)\noptional cse(root)").module.text())
    again = 'let c = match one "consumer" in root\nfuse(match one "producer" in root, into: c.loop(d0))'
    fused = run(tiled.text(), again).module
    assert _inside(fused)[:1] == ["tcp.exp"]
    for m in (0, 3, 9):
        _same(parse(PAIR), fused, M=m, N=5)


@pytest.mark.parametrize("dims", ["d0: 4", "d1: 3", "d0: 4, d1: 3"])
def test_the_producer_of_an_operand_that_is_not_tiled_is_fused(dims: str) -> None:
    """`scale` has no rows: a loop over rows alone reads all of it in each iteration."""
    body = f'let c = match one "consumer" in root\ntile(c, [{dims}])\nlet l = c.loop(d{dims.rpartition("d")[2][0]})\n'
    done = check(PAIR, body + 'fuse(match one "scale" in root, into: l)', exact=False).module
    assert [op.name for op in done.main.body.ops if op.opcode == "tcp.exp"] == ["producer"]


def test_a_producer_stays_visible() -> None:
    payload = PAIR.replace(") -> tensor<[M]x[N]xf32>", ") -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>)").replace(
        "return(%consumer)", "return(%consumer, %producer)"
    )
    check(payload, TILE + 'fuse(match one "producer" in root, into: i, keep: true)', exact=False)


BEYOND = """\
func @beyond(%x: tensor<[V]x[N]xf32>, %ix: tensor<[K]xsi64> in 0 to V) -> tensor<[K + V]x[N]xf32>
    symbols [V: 3.., N, K] {
  %p = tcp.mul(%x, %x) : tensor<[V]x[N]xf32>
  %picked = gml_st.materialize(%p, %ix) filter [0] : tensor<[K]x[N]xf32>
  %joined = tcp.concat(%picked, %p) {dim = 0} : tensor<[K + V]x[N]xf32>
  %y = tcp.add(%joined, %joined) : tensor<[K + V]x[N]xf32>
  tcp.return(%y)
}
"""


def test_fusion_beyond_boxes() -> None:
    """A producer through a gather and a concat, both of which read it."""
    body = 'let y = match one "y" in root\nlet j = tile(y, [d1: 5])\nfuse(match one "p" in root, into: j)'
    done = run(BEYOND, body)
    assert not any(op.opcode == "tcp.mul" for op in done.module.main.body.ops)
    assert done.remarks == ()
    for v, n, k in ((3, 1, 0), (4, 7, 5), (7, 10, 2)):
        _same(parse(BEYOND), done.module, V=v, N=n, K=k)


def test_rows_that_indices_name_are_no_tile_of_the_producer() -> None:
    body = 'let g = match one "picked" in root\nlet i = tile(g, [d0: 2])\nfuse(match one "p" in root, into: i)'
    text = BEYOND.replace("tcp.concat(%picked, %p)", "tcp.concat(%picked, %x)")
    said = refusal(text, body)
    assert said.message == "each iteration of picked/d01 would compute all of %p that indices may ask for"
    assert said.found == "tile [0, 0] [V, N]"
    assert said.fix is not None
    done = run(text, body.replace("into: i)", "into: i, recompute: true)"))
    assert done.remarks == ()
    _same(parse(text), done.module, V=5, N=3, K=4)


BLUR = """\
func @blur(%x: tensor<[N + 2]xf32>, %z: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %p = tcp.exp(%x) : tensor<[N + 2]xf32>
  %a = tcp.slice(%p) {offsets = [0]} : tensor<[N]xf32>
  %b = tcp.slice(%p) {offsets = [1]} : tensor<[N]xf32>
  %c = tcp.slice(%p) {offsets = [2]} : tensor<[N]xf32>
  %s = tcp.add(%a, %b) : tensor<[N]xf32>
  %t = tcp.add(%s, %z) : tensor<[N]xf32>
  %y = tcp.add(%t, %c) : tensor<[N]xf32>
  tcp.return(%y)
}
"""


def test_a_producer_that_is_read_at_several_offsets_is_computed_several_times_with_a_remark() -> None:
    body = 'let y = match one "y" in root\nlet i = tile(y, [d0: 4])\nfuse(match one "t" in root, into: i)\n'
    fuse = 'fuse(match one "p" in root, into: i)'
    done = run(BLUR, body + fuse)
    (said,) = done.remarks
    assert said.message == "each iteration of y/d01 computes %p 3 times"
    assert said.required == "a producer that the loop reads at one offset, `offsets: true` or `recompute: true`"
    quiet = run(BLUR, body + fuse.replace("into: i)", "into: i, recompute: true)"))
    assert quiet.remarks == ()
    halves = BLUR.replace("[N + 2]", "[3*N]").replace("[1]}", "[N]}").replace("[2]}", "[2*N]}")
    assert run(halves, body + fuse).remarks == ()
    for module in (done.module, quiet.module):
        _same(parse(BLUR), module, N=9)
