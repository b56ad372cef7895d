"""A producer is fused through whatever stands between it and the tiled consumer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import arguments, refusal, run

GENERIC_GATHER = """tcp.generic(%p, %ix) {iterators = [["a", "parallel"], ["b", "parallel"]],
      maps = [[in1, b], [a], [a, b]]} ({ (%e: f32, %i: si64):
    tcp.yield(%e)
  })"""
VIEWS: Mapping[str, tuple[str, str]] = {
    "concat": ("tcp.concat(%z, %p, %z) {dim = 0}", "[N + 6]x[M]"),
    "concat of columns": ("tcp.concat(%p, %x) {dim = 1}", "[N]x[2*M]"),
    "gather": ("outside.gather(%p, %ix) {axis = 0}", "[K]x[M]"),
    "gather in a generic": (GENERIC_GATHER, "[K]x[M]"),
    "scatter": ("outside.scatter_add(%p, %jx, init = %s)", "[V]x[M]"),
    "pad": ("tcp.pad(%p) {value = 1.0, low = [2, 1]}", "[N + 4]x[M + 3]"),
    "pad between": ("tcp.pad(%p) {value = 1.0, low = [2, 1], interior = [1, 0]}", "[2*N + 4]x[M + 3]"),
    "strided slice": (
        "gml_st.materialize(%p) tile [1, 0] [floordiv(N, 2), ceildiv(M, 3)] [2, 3]",
        "[floordiv(N, 2)]x[ceildiv(M, 3)]",
    ),
    "strided slice backwards": (
        "gml_st.materialize(%p) tile [N - 1, 0] [ceildiv(N, 3), M] [-3, 1]",
        "[ceildiv(N, 3)]x[M]",
    ),
    "strided slice of a pad": (
        """tcp.pad(%p) {value = 1.0, low = [2, 1]} : tensor<[N + 4]x[M + 3]xf32>
  %v = gml_st.materialize(%w) tile [1, 0] [floordiv(N, 2) + 1, M + 2] [2, 1]""",
        "[floordiv(N, 2) + 1]x[M + 2]",
    ),
    "slice without a dim": (
        """tcp.broadcast(%p) {dims = [0, 2]} : tensor<[N]x4x[M]xf32>
  %v = gml_st.materialize(%w) tile [0, 2, 0] [N, 1, M] drop [1]""",
        "[N]x[M]",
    ),
    "slice": ("gml_st.materialize(%p) tile [1, 0] [N - 1, M]", "[N - 1]x[M]"),
    "reverse": ("tcp.reverse(%p) {dims = [0, 1]}", "[N]x[M]"),
    "broadcast": ("tcp.broadcast(%p) {dims = [0, 2]}", "[N]x4x[M]"),
    "transpose": ("tcp.transpose(%p) {permutation = [1, 0]}", "[M]x[N]"),
    "reshape": ("tcp.reshape(%p)", "[N]x1x[M]"),
}
HEAD = 'let p = match one "p" in root\nlet y = match one "y" in root\n'
SCHEDULES: Mapping[str, str] = {
    "rows": "let i = tile(y, [d0: 3])\nfuse(p, into: i)",
    "last dim": "let i = tile(y, [LAST: 5])\nfuse(p, into: i)",
    "both": "let i, j = tile(y, [d0: 3, LAST: 5])\nfuse(p, into: j)",
    "threads": "let i = tile(y, [LAST: 3], parallel: true)\nfuse(p, into: i)",
}


def payload(view: str) -> str:
    what, shape = VIEWS[view]
    return f"""func @f(%x: tensor<[N]x[M]xf32>, %z: tensor<3x[M]xf32>, %ix: tensor<[K]xsi64> in 0 to N,
    %jx: tensor<[N]xsi64> in 0 to V, %s: tensor<[V]x[M]xf32>) -> tensor<{shape}xf32> symbols [N: 2.., M, K, V] {{
  %p = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  {"%w" if "%w" in what else "%v"} = {what} : tensor<{shape}xf32>
  %y = tcp.add(%v, %v) : tensor<{shape}xf32>
  tcp.return(%y)
}}
"""


def _body(view: str, schedule: str) -> str:
    body = HEAD + SCHEDULES[schedule].replace("LAST", f"d{VIEWS[view][1].count('x')}")
    return body.replace("fuse(p, into: i)", "fuse(p, into: i, recompute: true)") if "gather" in view else body


@pytest.mark.parametrize("view", VIEWS)
def test_the_producer_is_computed_in_the_loop(view: str) -> None:
    original = parse(payload(view))
    for schedule in SCHEDULES if view != "scatter" else ("last dim", "threads"):
        module = run(payload(view), _body(view, schedule)).module
        assert not any(op.opcode == "tcp.mul" for op in module.main.body.ops), schedule
        again = parse(module.text())
        assert again.text() == module.text()
        for n, m, k, v in ((2, 0, 0, 1), (3, 1, 4, 6), (7, 8, 5, 2), (10, 5, 1, 9)):
            given = arguments(original, {"N": n, "M": m, "K": k, "V": v})
            given[2:4] = np.abs(given[2].astype(np.int64)) % n, np.abs(given[3].astype(np.int64)) % v
            (wanted,), (found,) = (evaluate_func(each, each.main, given) for each in (original, again))
            assert np.array_equal(found, wanted), (schedule, n, m)


def test_what_is_padded_is_computed_by_tiles_behind_a_slice_with_steps() -> None:
    module = run(payload("strided slice of a pad"), _body("strided slice of a pad", "rows")).module
    (product,) = (op for op in module.walk() if op.opcode == "tcp.mul")
    assert all(operand.defining_op is not None for operand in product.operands), "tiles of the argument, not all of it"


def test_what_lies_between_is_computed_too_and_a_remark_says_so() -> None:
    done = run(payload("strided slice"), _body("strided slice", "rows"))
    (said,) = [found for found in done.remarks if "between" in found.message]
    assert said.message == "%p is computed between the elements that are read, too"
    assert said.required == "a tile in steps of one element"
    assert said.found == "tile [2*%y/d01 + 1, 0] [min(3, floordiv(N, 2) - %y/d01), ceildiv(M, 3)] [2, 3]"
    assert said.fix == "slice what %p reads, in the payload: of that it computes what is read alone"


def test_a_strided_slice_is_vectorized() -> None:
    body = HEAD + 'let i = tile(y, [d1: 8], tail: peel)\nfuse(p, into: y.copy("main").loop(d1), recompute: true)\n'
    body = body.replace("tile(y, [d1: 8]", "tile(y, [d0: 1, d1: 8]").replace("let i =", "let i, j =")
    text = payload("strided slice")
    program = tcpx.parse_schedule(
        f'language 1\nschedule main(root: func) {{\n{body}vectorize(y.copy("main").loop(d1))\n}}'
    )
    original, kernel = parse(text), tcpx.compile(parse(text), program, target="x86_avx2")
    for n, m in ((2, 0), (3, 1), (7, 8), (5, 53)):
        given = arguments(original, {"N": n, "M": m, "K": 1, "V": 1})
        given[2:4] = np.zeros_like(given[2], np.int64), np.zeros_like(given[3], np.int64)
        (wanted,) = evaluate_func(original, original.main, given)
        assert np.array_equal(np.asarray(kernel(*given)), wanted), (n, m)


def test_a_slice_is_no_consumer() -> None:
    found = refusal(payload("slice"), HEAD + "let i = tile(p, [d0: 3])\nfuse(y, into: i)")
    assert (found.message, found.found) == ("%v on the way cannot be tiled", "gml_st.materialize")
    assert found.fix == "tile %y, and fuse into that loop what leads to it"


def test_rows_that_a_scatter_writes_are_not_known() -> None:
    found = refusal(payload("scatter"), _body("scatter", "rows"))
    assert found.message == "%v (outside.scatter_add): this subset of the result is no box of iterations"
