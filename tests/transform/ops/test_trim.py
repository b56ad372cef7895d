"""trim: a loop ends where a condition on positions can no longer hold."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Kind
from tests.transform.payloads import Sizes, check, refusal

BEHIND = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %m = tcp.generic(%x) {iterators = [["d0", "parallel"], ["d1", "parallel"]], maps = [[d0, d1], [d0, d1]],
      positions = [d0, d1]} ({ (%a: f32, %i: si64, %j: si64):
    %c = tcp.greater_equal(%i, %j) : i1
    %z = tcp.const {value = 0.0} : f32
    %r = tcp.select(%c, %a, %z) : f32
    tcp.yield(%r)
  }) : tensor<[M]x[N]xf32>
  %s = tcp.reduce_sum(%m) {dims = [1]} : tensor<[M]xf32>
  tcp.return(%s)
}
"""
ROWS_IN_TILES = """\
let m = match one "m" in root
let s = match one "s" in root
let o, i = tile(s, [d0: 3, d1: 4])
fuse(m, into: i)
"""
SIZES: tuple[Sizes, ...] = (
    {"M": 5, "N": 7},
    {"M": 13, "N": 13},
    {"M": 1, "N": 30},
    {"M": 20, "N": 3},
    {"M": 0, "N": 4},
    {"M": 4, "N": 0},
)


def bounds(text: str) -> str:
    """The range of the inner loop."""
    (line,) = (line for line in text.splitlines() if "gml_st.for %s/d11 in" in line)
    return line.partition(" in ")[2].partition(" step")[0]


@pytest.mark.parametrize(
    ("condition", "end"),
    [
        ("greater_equal(%i, %j)", "min(%s/d01 + min(3, M - %s/d01), N)"),
        ("greater(%i, %j)", "min(%s/d01 + min(3, M - %s/d01) - 1, N)"),
        ("less_equal(%j, %i)", "min(%s/d01 + min(3, M - %s/d01), N)"),
        ("less(%j, %i)", "min(%s/d01 + min(3, M - %s/d01) - 1, N)"),
    ],
)
def test_the_end_follows_from_the_condition(condition: str, end: str) -> None:
    done = check(BEHIND.replace("greater_equal(%i, %j)", condition), ROWS_IN_TILES + "trim(i, m)\n", SIZES)
    assert bounds(done.module.text()) == f"0 to {end}"


def test_what_is_chosen_where_the_condition_does_not_hold() -> None:
    payload = BEHIND.replace("greater_equal(%i, %j)", "less(%i, %j)").replace("(%c, %a, %z)", "(%c, %z, %a)")
    assert bounds(check(payload, ROWS_IN_TILES + "trim(i, m)\n", SIZES).module.text()).startswith("0 to min(")


def test_an_offset() -> None:
    payload = BEHIND.replace(
        "%c = tcp.greater_equal(%i, %j)",
        "%o = tcp.const {value = 2} : si64\n    %k = tcp.sub(%i, %o) : si64\n    %c = tcp.greater_equal(%k, %j)",
    )
    text = check(payload, ROWS_IN_TILES + "trim(i, m)\n", SIZES).module.text()
    assert bounds(text) == "0 to max(0, min(%s/d01 + min(3, M - %s/d01) - 2, N))"


LARGEST = BEHIND.replace("value = 0.0", "value = -inf").replace("reduce_sum", "reduce_max")


def test_a_maximum() -> None:
    check(LARGEST, ROWS_IN_TILES + "trim(i, m)\n", SIZES)


ASKED = (
    "a comparison of positions that no longer holds from some iteration of s/d11 on, or an operand that is padding in "
    "some of them"
)
REFUSED = [
    (LARGEST.replace("reduce_max", "reduce_sum"), "",
     "%s may change what s/d11 has where the condition of %m cannot hold",
     "the neutral element for each reduction of the loop, of finite operands, beside it", "tcp.reduce_sum"),
    (BEHIND.replace("greater_equal(%i, %j)", "less_equal(%i, %j)"), "",
     "%s may change what s/d11 has where the condition of %m cannot hold",
     "the neutral element for each reduction of the loop, of finite operands, beside it", "tcp.reduce_sum"),
    (BEHIND.replace("greater_equal(%i, %j)", "greater(%a, %a)"), "",
     "%m asks nothing of positions that ends s/d11",
     ASKED, "tcp.greater"),
    (BEHIND.replace("positions = [d0, d1]", "positions = [d0, d0]"), "",
     "%m asks nothing of positions that ends s/d11",
     ASKED, "tcp.greater_equal"),
    (BEHIND, "trim(i, m)\n", "s/d11 ends where it may hold last already",
     "iterations of s/d11 in which the condition cannot hold", "0 to min(%s/d01 + min(3, M - %s/d01), N)"),
    (BEHIND.replace("tcp.return(%s)", "%r = tcp.neg(%s) : tensor<[M]xf32>\n  tcp.return(%r)"),
     'let r = match one "r" in root\nfuse(r, into: i)\n',
     "%r may change what s/d11 has where the condition of %m cannot hold",
     "the neutral element for each reduction of the loop, of finite operands, beside it", "tcp.neg"),
    (BEHIND, "tile(m, [d1: 2])\n", "%m does not stand in the body of s/d11",
     "an operation that every iteration computes", "it in another block"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "steps", "message", "required", "found"), REFUSED)
def test_what_is_refused(payload: str, steps: str, message: str, required: str, found: str) -> None:
    error = refusal(payload, ROWS_IN_TILES + steps + "trim(i, m)\n")
    assert (error.kind, error.message, error.required, error.found) == (Kind.SILENCEABLE, message, required, found)


def test_a_scan_has_no_condition() -> None:
    payload = """\
func @f(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %y = gml_st.for %i in 0 to 3 step 1 (%d = %x) {
    %s, %t = tcp.cumsum(%x) {dim = 1} : tensor<4x3xf32>, tensor<4xf32>
    gml_st.yield(%s, %d) full
  } : tensor<4x3xf32>
  tcp.return(%y)
}
"""
    error = refusal(payload, 'let s = match one "s" in root\ntrim(parent(s), by: s)')
    assert (error.message, error.found) == ("%s asks nothing of positions that ends i", "tcp.cumsum")


@pytest.mark.parametrize("merges", [False, True])
def test_positions_that_are_compared_to_data(merges: bool) -> None:
    payload = """\
func @f(%x: tensor<[N]x[N]xf32>, %len: tensor<[N]xsi64>) -> tensor<[N]xf32> symbols [N] {
  %i = tcp.iota {dim = 1} : tensor<[N]x[N]xsi64>
  %l = tcp.broadcast(%len) {dims = [0]} : tensor<[N]x[N]xsi64>
  %c = tcp.less(%i, %l) : tensor<[N]x[N]xi1>
  %y = tcp.select(%c, %x, 0.0) : tensor<[N]x[N]xf32>
  %s = tcp.reduce_sum(%y) {dims = [1]} : tensor<[N]xf32>
  tcp.return(%s)
}
"""
    parts = ", ".join(f'match one "{name}" in root' for name in ("i", "l", "c", "y"))
    y = f"let y = fuse_elementwise([{parts}])" if merges else 'let y = match one "y" in root'
    error = refusal(
        payload, f'let s = match one "s" in root\n{y}\nlet k = tile(s, [d1: 8])\nfuse(y, into: k)\ntrim(k, by: y)'
    )
    assert error.fix == (
        f"compare positions and sizes alone: what %{'len' if merges else 'l'} has is known only when the loop runs"
    )


PADDED = """\
func @f(%x: tensor<[N]xf32>, %v: tensor<5xf32>) -> tensor<[N]xf32> symbols [N: 1..] {
  %p = tcp.pad(%x) {value = 0.0, low = [2]} : tensor<[N + 4]xf32>
  %w = tcp.fill {value = 0.5} : tensor<5xf32>
  %y = tcp.convolution(%p, %w) {input = ["h+k"], filter = ["k"], out = ["h"]} : tensor<[N]xf32>
  tcp.return(%y)
}
"""
OF_FIVE = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 1..] {
  %p = tcp.pad(%x) {value = -inf, low = [2]} : tensor<[N + 4]xf32>
  %y = tcp.pooling(%p) {window = [5], dims = [0]} : tensor<[N]xf32>
  tcp.return(%y)
}
"""
APART = PADDED.replace("N + 4", "2*N + 7").replace('out = ["h"]', 'out = ["h"], strides = [2], dilations = [2]')
TAPS = "let i, k = tile(y, [h: 1, k: 1])\ntrim(k, y)\n"


def taps(text: str) -> str:
    """The range of the loop over taps."""
    (line,) = (line for line in text.splitlines() if "gml_st.for %y/k1 in" in line)
    return line.partition(" in ")[2].partition(" step")[0]


@pytest.mark.parametrize(
    ("payload", "steps", "wanted"),
    [
        (PADDED, TAPS, "max(0, 2 - %y/h1) to min(5, N - %y/h1 + 2)"),
        (PADDED, TAPS.replace("h: 1", "h: 3"), "max(0, %y/h1 - N + max(0, 2 - %y/h1) + 1) to min(5, N - %y/h1 + 2)"),
        (APART, TAPS, "floordiv(max(0, 2 - 2*%y/h1), 2) to ceildiv(min(9, max(0, N - 2*%y/h1 + 2)), 2)"),
    ],
)
def test_taps_in_the_padding_are_left_out(payload: str, steps: str, wanted: str) -> None:
    made = check(payload, 'let y = match one "y" in root\n' + steps, [{"N": n} for n in (1, 2, 3, 4, 7, 12)])
    assert taps(made.module.text()) == wanted


def test_a_pooling_leaves_out_its_padding() -> None:
    steps = """\
let y = match one "y" in root
let h = innermost(y.dims("parallel"))
let k = innermost(y.dims("reduction"))
let i, j = tile(y, [h: 1, k: 1])
trim(j, y)
"""
    check(OF_FIVE, steps, [{"N": n} for n in (1, 2, 5, 9)])


def test_what_meets_padding_is_finite() -> None:
    error = refusal(PADDED.replace("(%p, %w)", "(%p, %v)"), 'let y = match one "y" in root\n' + TAPS)
    assert error.message == "%y may change what y/k1 has where %y reads padding"
    assert error.required == "the neutral element for each reduction of the loop, of finite operands, beside it"


def test_padding_divided_by_what_may_be_zero_stays() -> None:
    text = """\
func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %p = tcp.pad(%x) {value = 0.0, low = [2]} : tensor<12xf32>
  %w = tcp.const {constant = "w"} : tensor<5xf32>
  %y = tcp.generic(%p, %w) {iterators = [["h", "parallel"], ["k", "reduction"]], maps = [[h + k], [k], [h]],
      combiner = "tcp.add"} ({ (%e: f32, %f: f32, %acc: f32):
    %q = tcp.DIVIDED(%e, %f) : f32
    %s = tcp.add(%acc, %q) : f32
    tcp.yield(%s)
  }) : tensor<8xf32>
  tcp.return(%y)
}
"""
    program = tcpx.parse_schedule(f'language 2\nschedule s(root: func) {{\nlet y = match one "y" in root\n{TAPS}}}\n')
    w = np.array([0, 1, 2, 3, 4], np.float32)
    tcpx.compile(tcpx.parse(text.replace("DIVIDED", "mul"), constants={"w": w}), program, target="x86_avx2")
    with pytest.raises(tcpx.ScheduleError, match="%y may change what y/k1 has where %y reads padding"):
        tcpx.compile(tcpx.parse(text.replace("DIVIDED", "div"), constants={"w": w}), program, target="x86_avx2")
