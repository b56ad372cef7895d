"""fold_unit_dims: an operation without its dims of one index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.interfaces import Structured
from tcpx.payload.text.parser import parse
from tests.transform.payloads import MM, SOFTMAX, check, check_kernels, refusal, run

BATCH = """\
func @batch(%x: tensor<1x[M]x7xf32>, %w: tensor<1x7x5xf32>) -> tensor<1x[M]x5xf32> symbols [M: 0..] {
  %mm = tcp.batch_matmul(%x, %w) : tensor<1x[M]x5xf32>
  tcp.return(%mm)
}
"""
COLUMN = """\
func @column(%x: tensor<[M]x7xf32>, %w: tensor<7x1xf32>) -> tensor<[M]x1xf32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x1xf32>
  tcp.return(%mm)
}
"""
ROW = """\
func @row(%x: tensor<1x7xsi32>, %w: tensor<7x[M]xsi32>) -> tensor<1x[M]xsi32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<1x[M]xsi32>
  tcp.return(%mm)
}
"""
BOTH = ROW.replace("7x[M]x", "7x1x").replace("1x[M]x", "1x1x").replace("7xsi32", "[M]xsi32").replace("7x1x", "[M]x1x")
HEADS = """\
func @heads(%x: tensor<[M]x1x7xf32>, %w: tensor<1x5x7xf32>) -> tensor<1x[M]x5xf32> symbols [M: 0..] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "h", "k"], rhs = ["h", "n", "k"], out = ["h", "m", "n"]}
    : tensor<1x[M]x5xf32>
  tcp.return(%mm)
}
"""
CHAIN = """\
func @chain(%x: tensor<1x[M]x1x5xf32>, %b: tensor<5xf32>) -> tensor<1x[M]x1x5xf32> symbols [M: 0..] {
  %c = tcp.broadcast(%b) {dims = [3]} : tensor<1x[M]x1x5xf32>
  %s = tcp.add(%x, %c) : tensor<1x[M]x1x5xf32>
  %mm = tcp.neg(%s) : tensor<1x[M]x1x5xf32>
  tcp.return(%mm)
}
"""
SUMS = """\
func @sums(%x: tensor<1x[M]x5x1xf64>) -> tensor<1x5x1xf64> symbols [M: 0..] {
  %mm = tcp.reduce_sum(%x) {dims = [1]} : tensor<1x5x1xf64>
  tcp.return(%mm)
}
"""
REDUCED = """\
func @reduced(%x: tensor<1x[M]x5x1xf64>) -> tensor<5xf64> symbols [M: 0..] {
  %mm = tcp.reduce_sum(%x) {dims = [0, 1, 3]} : tensor<5xf64>
  tcp.return(%mm)
}
"""
ALL_REDUCED = """\
func @all_reduced(%x: tensor<1x[M]x1xf64>) -> tensor<[M]xf64> symbols [M: 0..] {
  %mm = tcp.reduce_sum(%x) {dims = [0, 2]} : tensor<[M]xf64>
  tcp.return(%mm)
}
"""
PLACES = """\
func @places(%x: tensor<1x[M]x5x1xf32>) -> (tensor<[M]x1xf32>, tensor<[M]x1xsi64>) symbols [M: 0..] {
  %mm, %i = tcp.reduce_argmax(%x) {dims = [0, 2]} : tensor<[M]x1xf32>, tensor<[M]x1xsi64>
  tcp.return(%mm, %i)
}
"""
TURNED = """\
func @turned(%x: tensor<[M]x1x5xf32>) -> tensor<5x[M]x1xf32> symbols [M: 0..] {
  %mm = tcp.transpose(%x) {permutation = [2, 0, 1]} : tensor<5x[M]x1xf32>
  tcp.return(%mm)
}
"""
C, S = 'let c = match one "c" in root\n', 'let s = match one "s" in root\n'
CASES = {
    "a batch of one": (BATCH, f"{MM}fold_unit_dims(mm)\nlet i = tile(mm, [m: 3])"),
    "one column": (COLUMN, f"{MM}fold_unit_dims(mm)\nlet i = tile(mm, [m: 3, k: 2])".replace("let i", "let i, j")),
    "one row": (ROW, f"{MM}fold_unit_dims(mm)\nlet i = tile(mm, [n: 4], tail: pad)\nvectorize(i)"),
    "one element": (BOTH, f"{MM}fold_unit_dims(mm)"),
    "a contraction": (HEADS, f"{MM}fold_unit_dims(mm)\nlet i = tile(mm, [n: 2])"),
    "one of two dims": (CHAIN, f"{MM}fold_unit_dims(mm, [d2])\nvectorize(mm)"),
    "a chain": (CHAIN, f"{MM}{S}{C}fold_unit_dims(c)\nfold_unit_dims(s)\nfold_unit_dims(mm)\n"
                "let i = tile(mm, [d0: 2])\nfuse(s, into: i)"),
    "a reduction": (SUMS, f"{MM}fold_unit_dims(mm)\nvectorize(mm)"),
    "dims that are reduced": (REDUCED, f"{MM}fold_unit_dims(mm)\nlet i = tile(mm, [d1: 2])"),
    "all dims that are reduced": (ALL_REDUCED, f"{MM}fold_unit_dims(mm)\nvectorize(mm)"),
    "places": (PLACES, f"{MM}fold_unit_dims(mm)"),
    "a transpose": (TURNED, f"{MM}fold_unit_dims(mm)"),
    "a tile, which adds to an init": (BATCH, f"{MM}let i, j = tile(mm, [m: 2, k: 3])\nfold_unit_dims(mm, [b])"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_computes_the_same(name: str) -> None:
    check(*CASES[name])


def test_kernels() -> None:
    check_kernels(CASES, [{"M": m} for m in (0, 1, 5, 16)])


@pytest.mark.parametrize(
    ("name", "opcode", "dims"),
    [
        ("a batch of one", "tcp.matmul", ["m", "n", "k"]),
        ("one column", "tcp.matvec", ["m", "k"]),
        ("one row", "tcp.vecmat", ["n", "k"]),
        ("one element", "tcp.dot", ["k"]),
        ("a contraction", "tcp.contract", ["m", "n", "k"]),
        ("a reduction", "tcp.reduce_sum", ["d0", "d1"]),
        ("dims that are reduced", "tcp.reduce_sum", ["d0", "d1"]),
        ("all dims that are reduced", "tcp.reduce_sum", ["d0", "d1"]),
        ("places", "tcp.reduce_argmax", ["d0", "d1"]),
        ("a transpose", "tcp.transpose", ["d0", "d1"]),
    ],
)
def test_what_is_left_is_named(name: str, opcode: str, dims: list[str]) -> None:
    payload, body = CASES[name]
    done = run(payload, body.splitlines()[0] + "\nfold_unit_dims(mm)")
    (made,) = [op for op in done.module.walk() if op.name == "mm"]
    assert isinstance(made, Structured)
    assert (made.opcode, [it.name for it in made.iterators()]) == (opcode, dims)


def test_nothing_stands_between_two_that_are_folded() -> None:
    done = run(CHAIN, f"{MM}{S}fold_unit_dims(mm)\nfold_unit_dims(s)\nrequire s == producer(mm.operand)")
    assert [op.opcode.removeprefix("tcp.") for op in done.module.main.body.ops] == [
        "reshape", "broadcast", "add", "neg", "reshape", "return",
    ]  # fmt: skip


def test_what_is_scaled_by_channel_reads_the_scales_where_they_are() -> None:
    """A broadcast under a reshape would be written out: the workspace then has an image for the scales, too."""
    payload = parse("""
    func @scaled(%x: tensor<1x6x7x9xf32>, %s: tensor<6xf32>) -> tensor<1x6x7x9xf32> {
      %m = tcp.reshape(%x) : tensor<1x6x63xf32>
      %n = tcp.layer_norm(%m) {dims = [2], epsilon = 1.0e-5} : tensor<1x6x63xf32>
      %r = tcp.reshape(%n) : tensor<1x6x7x9xf32>
      %y = tcp.mul(%r, broadcast(%s, [1])) : tensor<1x6x7x9xf32>
      tcp.return(%y)
    }
    """)
    kernel: Any = tcpx.compile(payload, target="x86_avx2")
    x = np.random.default_rng(0).standard_normal((1, 6, 7, 9)).astype(np.float32)
    s = np.arange(1, 7, dtype=np.float32)
    assert kernel.workspace_bytes({}) < 1.5 * x.nbytes
    rows = x.reshape(6, 63).astype(np.float64)
    wanted = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5) * s[:, None]
    np.testing.assert_allclose(kernel(x, s).reshape(6, 63), wanted, rtol=1e-5, atol=1e-5)


PLAIN = """\
func @plain(%x: tensor<[M]x7xf32>, %w: tensor<7x5xf32>) -> tensor<[M]x5xf32> symbols [M: 0..] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x5xf32>
  tcp.return(%mm)
}
"""
WINDOW = """\
func @window(%x: tensor<9xf32>) -> tensor<1xf32> {
  %mm = tcp.generic(%x) {iterators = [["i", "parallel"], ["k", "reduction", 9]], maps = [[i + k], [i]],
      combiner = "tcp.add"} ({ (%a: f32, %acc: f32):
    %s = tcp.add(%acc, %a) : f32
    tcp.yield(%s)
  }) : tensor<1xf32>
  tcp.return(%mm)
}
"""
REQUIRED = "a dim of size 1, by which operands and results are indexed alone; of those reduced, one stays"


@pytest.mark.parametrize(
    ("payload", "body", "said"),
    [
        (PLAIN, "fold_unit_dims(mm)", ("%mm has no dim of one index", REQUIRED,
         "parallel dim `m` of M, parallel dim `n` of 5, reduction dim `k` of 7")),
        (BATCH, "fold_unit_dims(mm, [b, n])", ("%mm has no such dim of one index", REQUIRED,
         "parallel dim `n` of 5")),
        (WINDOW, "fold_unit_dims(mm)", ("%mm has no dim of one index", REQUIRED,
         "parallel dim `i` of 1, reduction dim `k` of 9")),
        (SOFTMAX.replace("%y", "%mm"), "fold_unit_dims(mm)", ("the dims of %mm stay",
         "a structured operation", "tcp.softmax")),
    ],
)  # fmt: skip
def test_refusals(payload: str, body: str, said: tuple[str, str, str]) -> None:
    found = refusal(payload, 'let mm = match one "mm" in root\n' + body)
    assert (found.message, found.required, found.found) == said
