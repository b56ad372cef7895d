"""Several results, reductions of tuples and positions in `tcp.generic`: what is right, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

ARGMAX = """\
  %v, %k = tcp.generic(%p) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i], [i]],
      positions = [j], neutral = [-inf, 9223372036854775807], commutative = true} ({ (%e: f32, %at: si64):
    tcp.yield(%e, %at)
  }, { (%a: f32, %ka: si64, %b: f32, %kb: si64):
    %less = tcp.less(%a, %b) : i1
    %more = tcp.less(%b, %a) : i1
    %first = tcp.min(%ka, %kb) : si64
    %k1 = tcp.select(%more, %ka, %first) : si64
    %k2 = tcp.select(%less, %kb, %k1) : si64
    %m = tcp.max(%a, %b) : f32
    tcp.yield(%m, %k2)
  }) : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%v, %k)
}
"""
PADDED = (
    "func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M, N] {\n"
    "  %p = tcp.pad(%x) {value = 1.0, low = [0, 1]} : tensor<[M]x[N + 2]xf32>\n" + ARGMAX
)
BACKWARDS = (
    "func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M, N] {\n"
    "  %p = tcp.reverse(%x) {dims = [1]} : tensor<[M]x[N]xf32>\n" + ARGMAX
)
COUNTED = """\
func @f(%x: tensor<[N]xsi64>) -> tensor<[N]xsi64> symbols [N] {
  %v = tcp.generic(%x) {iterators = [["j", "parallel"]], maps = [[j], [j]], positions = [j]} ({ (%e: si64, %at: si64):
    %s = tcp.add(%e, %at) : si64
    tcp.yield(%s)
  }) : tensor<[N]xsi64>
  tcp.return(%v)
}
"""
AFFINE = """\
func @f(%x: tensor<2x2xsi32>) -> (tensor<si32>, tensor<si32>) {
  %v, %w = tcp.generic(%x) {iterators = [["j", "reduction"], ["k", "reduction"]], maps = [[j, k], [], []],
      neutral = [1, 0]} ({ (%e: si32):
    tcp.yield(%e, %e)
  }, { (%a: si32, %b: si32, %c: si32, %d: si32):
    %m = tcp.mul(%a, %c) : si32
    %n = tcp.mul(%b, %c) : si32
    %o = tcp.add(%n, %d) : si32
    tcp.yield(%m, %o)
  }) : tensor<si32>, tensor<si32>
  tcp.return(%v, %w)
}
"""
SMALL = """\
func @f(%x: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xsi8>) symbols [N: 0..100] {
  %v, %w = tcp.generic(%x) {iterators = [["j", "parallel"]], maps = [[j], [j], [j]],
      positions = [j]} ({ (%e: f32, %at: si8):
    tcp.yield(%e, %at)
  }) : tensor<[N]xf32>, tensor<[N]xsi8>
  tcp.return(%v, %w)
}
"""
TURNED = """\
func @f(%x: tensor<8x[N]xf32>) -> (tensor<8x[N]xf32>, tensor<[N]x8xf32>) symbols [N] {
  %v, %w = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j],
      [j, i]]} ({ (%e: f32):
    tcp.yield(%e, %e)
  }) : tensor<8x[N]xf32>, tensor<[N]x8xf32>
  tcp.return(%v, %w)
}
"""


def compiled(payload: str, steps: str, threads: int = 1) -> tcpx.Kernel:
    text = f'language 1\nschedule s(root: func) {{\nlet v = match one "v" in root\n{steps}\n}}'
    return tcpx.compile(tcpx.parse(payload), schedule=tcpx.parse_schedule(text), threads=threads)


def refused(payload: str, steps: str) -> tcpx.Diagnostic:
    with pytest.raises(tcpx.TcpxError) as raised:
        compiled(payload, steps)
    return raised.value.diagnostic


@pytest.mark.parametrize("steps", ["", "let b = tile(v, [j: 5], tail: scalar)", "let b = tile(v, [j: 5], tail: peel)"])
def test_positions_count_in_tails(steps: str) -> None:
    kernel = compiled(COUNTED, steps)
    for n in (0, 1, 5, 8, 13):
        assert np.array_equal(kernel(np.zeros(n, np.int64)), np.arange(n))


@pytest.mark.parametrize("payload", [PADDED, BACKWARDS])
@pytest.mark.parametrize(
    "steps",
    [
        "",
        "let a, b = tile(v, [i: 3, j: 5])",
        "let b = tile(v, [j: 5], tail: scalar)",
        "let a = tile(v, [i: 16], tail: pad)",
    ],
)
def test_what_views_show_is_reduced(payload: str, steps: str) -> None:
    if payload is PADDED and "scalar" in steps:
        assert "ends in padding" in refused(payload, steps).message
        return
    kernel = compiled(payload, steps)
    for rows, columns in ((7, 9), (1, 1), (0, 4), (4, 8)):
        x = np.random.default_rng(rows).integers(-3, 4, (rows, columns)).astype(np.float32)
        shown = np.pad(x, ((0, 0), (1, 1)), constant_values=1) if payload is PADDED else x[:, ::-1]
        value, index = kernel(x)
        assert np.array_equal(value, shown.max(1))
        assert np.array_equal(index, shown.argmax(1))


def test_what_is_not_commutative_keeps_its_order() -> None:
    x = np.array([[2, 3], [5, 7]], np.int32)
    for steps in (
        "",
        "let r, c = split_reduction(v, dim: j, parts: 2)",
        "tile(v, [j: 1])\nlet r, c = split_reduction(v, dim: k, parts: 2)",
        "let a, b = tile(v, [j: 1, k: 1])",
    ):
        assert [int(made) for made in compiled(AFFINE, steps)(x)] == [210, 357], steps
    found = refused(AFFINE, "let r, c = split_reduction(v, dim: k, parts: 2)")
    assert found.message == "parts of `k` inside `j` change the order in which %v reduces"
    found = refused(AFFINE, "let b = tile(v, [k: 1])")
    assert found.message == "a loop over `k` round `j` changes the order in which %v reduces"
    found = refused(AFFINE, "let g = interchange(v, [k, j])")
    assert found.message == "%v reduces in the order of its dims"
    found = refused(AFFINE, "let r, c = split_reduction(v, dim: j, factor: 2)")
    assert found.message == "elements of `j` of %v cannot be combined side by side"


def test_a_position_that_padding_takes_too_far() -> None:
    found = refused(SMALL, "let b = tile(v, [j: 32], tail: pad)")
    assert found.message.endswith("(tcp.generic): the position `j` does not fit into si8")
    assert found.schedule is not None


def test_results_in_different_orders() -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    value, turned = compiled(TURNED, "let a, b = tile(v, [i: 3, j: 2])")(x)
    assert np.array_equal(value, x)
    assert np.array_equal(turned, x.T)
    found = refused(TURNED, 'let a, b = tile(v, [i: 8, j: 16], tail: peel)\nvectorize(v.copy("main").loop(j))')
    assert (found.required, found.found) == ("one order of dims in all results", "[i, j], [j, i]")
    assert found.schedule is not None
    found = refused(TURNED, "let t = transpose_result(v, [j, i])")
    assert found.message == "%v has several results, which have one order of dims"
