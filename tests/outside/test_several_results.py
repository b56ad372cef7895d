"""Several results, reductions of tuples and positions in `tcp.generic`: what is right, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.outside import operations  # noqa: F401  (registers them)

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
SPANNED = """\
func @f(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> (tensor<[M]x[N]xf32>, tensor<[N]x[M]xf32>)
    symbols [M: 0.., K: 0.., N: 0..] {
  %v, %w = tcp.generic(%x, %y) {iterators = [["i", "parallel"], ["j", "parallel"], ["k", "reduction"]],
      maps = [[i, k], [k, j], [i, j], [j, i]], neutral = [inf, -inf], commutative = true} ({ (%a: f32, %b: f32):
    %p = tcp.mul(%a, %b) : f32
    tcp.yield(%p, %p)
  }, { (%a: f32, %b: f32, %c: f32, %d: f32):
    %l = tcp.min(%a, %c) : f32
    %m = tcp.max(%b, %d) : f32
    tcp.yield(%l, %m)
  }) : tensor<[M]x[N]xf32>, tensor<[N]x[M]xf32>
  tcp.return(%v, %w)
}
"""
STARTED = """\
func @f(%x: tensor<[M]x[K]xf32>, %y: tensor<[M]xf32>, %z: tensor<[M]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>)
    symbols [M: 0.., K: 1..] {
  %p, %q = outside.ordered(%y, %z) : tensor<[M]xf32>, tensor<[M]xf32>
  %v, %w = tcp.generic(%x, init = (%p, %q)) {iterators = [["i", "parallel"], ["k", "reduction"]],
      maps = [[i, k], [i], [i]], neutral = [inf, -inf], commutative = true} ({ (%e: f32):
    tcp.yield(%e, %e)
  }, { (%a: f32, %b: f32, %c: f32, %d: f32):
    %l = tcp.min(%a, %c) : f32
    %m = tcp.max(%b, %d) : f32
    tcp.yield(%l, %m)
  }) : tensor<[M]xf32>, tensor<[M]xf32>
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


JOINED = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0..] {
  %v = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i]],
      neutral = [0.0], commutative = true} ({ (%e: f32):
    tcp.yield(%e)
  }, { (%a: f32, %b: f32):
    %p = tcp.mul(%a, %b) : f32
    %s = tcp.add(%a, %b) : f32
    %c = tcp.add(%s, %p) : f32
    tcp.yield(%c)
  }) : tensor<[M]xf32>
  tcp.return(%v)
}
"""


@pytest.mark.parametrize(
    "steps",
    [
        "",
        "let a, b = tile(v, [i: 3, j: 5], tail: pad)",
        "let r, c = split_reduction(v, dim: j, parts: 3)",
        "let a, b = tile(v, [i: 3, j: 20], tail: pad)\nvectorize(a)",
        "let a, b = tile(v, [i: 1, j: 20], tail: pad)\nvectorize(a)\nhoist_accumulator(v, out_of: b)",
    ],
)
def test_one_result_that_a_region_combines(steps: str) -> None:
    """a + b + a b is no single operation; (1 + a)(1 + b) - 1 says what it gives."""
    kernel = compiled(JOINED, steps)
    for m, n in ((7, 9), (1, 1), (0, 4), (3, 0)):
        x = np.random.default_rng(n).integers(0, 2, (m, n)).astype(np.float32)
        assert np.array_equal(kernel(x), np.prod(1 + x, 1) - 1), (m, n)


def test_a_position_that_padding_takes_too_far() -> None:
    found = refused(SMALL, "let b = tile(v, [j: 32], tail: pad)")
    assert found.message.endswith("(tcp.generic): the position `j` does not fit into si8")
    assert found.schedule is not None


@pytest.mark.parametrize(
    "steps",
    [
        "let a, b = tile(v, [i: 3, j: 2])",
        'let a, b = tile(v, [i: 8, j: 16], tail: peel)\nvectorize(v.copy("main").loop(j))',
        "let a, b = tile(v, [i: 3, j: 16], tail: pad)\nvectorize(b)",
        "let a, b = tile(v, [i: 8, j: 5], tail: pad)\nvectorize(a)",
    ],
)
def test_results_in_different_orders(steps: str) -> None:
    kernel = compiled(TURNED, steps)
    for n in (3, 0, 1, 16, 37):
        x = np.arange(8 * n, dtype=np.float32).reshape(8, n)
        value, turned = kernel(x)
        assert np.array_equal(value, x)
        assert np.array_equal(turned, x.T)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "steps",
    [
        "",
        "let a, b, k = tile(v, [i: 3, j: 8, k: 5], tail: pad)\nvectorize(b)\nhoist_accumulator(v, out_of: k)",
        "let a, b, k = tile(v, [i: 3, j: 1, k: 24], tail: pad)\nvectorize(b)",
        "let a, b = tile(v, [i: 4, j: 16], parallel: true, tail: pad)\nlet k = tile(v, [k: 5])\n"
        "let l = tile(v, [k: 1])\nvectorize(b)\nhoist_accumulator(v, out_of: k)",
    ],
)
def test_reductions_to_results_in_different_orders(steps: str, threads: int) -> None:
    kernel = compiled(SPANNED, steps, threads)
    for m, k, n in ((4, 9, 17), (1, 1, 1), (3, 0, 5), (0, 3, 4), (8, 24, 32)):
        random = np.random.default_rng(k)
        x, y = (random.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        least, most = kernel(x, y)
        products = x[:, :, None] * y[None]
        assert np.array_equal(least, np.min(products, 1, initial=np.inf))
        assert np.array_equal(most, np.max(products, 1, initial=-np.inf).T)


def test_results_in_different_orders_are_not_transposed() -> None:
    found = refused(TURNED, "let t = transpose_result(v, [j, i])")
    assert found.message == "%v has several results, whose dims differ"
    assert found.found == "%v by [i, j], %w by [j, i]"


@pytest.mark.parametrize(
    "steps",
    [
        "let i = tile(v, [i: 3])\nfuse(p, into: i)",
        "let k = tile(v, [k: 5])\nfuse(p, into: k)",
        "let k, i = tile(v, [k: 5, i: 3])\nfuse(p, into: i)",
        "let i, k = tile(v, [i: 3, k: 5])\nfuse(p, into: k)",
        "let k, i = tile(v, [k: 8, i: 4], tail: pad)\nfuse(p, into: i)\nvectorize(i)",
        "let i, k = tile(v, [i: 4, k: 24], tail: pad)\nfuse(p, into: i)\nvectorize(i)\nhoist_accumulator(v, out_of: k)",
    ],
)
def test_what_starts_several_accumulators_is_fused(steps: str) -> None:
    kernel = compiled(STARTED, f'let p = match one "p" in root\n{steps}')
    for m, k in ((7, 9), (1, 1), (0, 4), (4, 8), (9, 30)):
        random = np.random.default_rng(k)
        x, a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), m, m))
        least, most = kernel(x, a, b)
        assert np.array_equal(least, np.minimum(np.minimum(a, b), x.min(1)))
        assert np.array_equal(most, np.maximum(np.maximum(a, b), x.max(1)))


def test_what_starts_something_else_too_is_not_fused() -> None:
    payload = STARTED.replace("tcp.return(%v, %w)", "tcp.return(%v, %q)")
    found = refused(payload, 'let p = match one "p" in root\nlet k = tile(v, [k: 5])\nfuse(p, into: k)')
    assert found.message == "%q does not only start the destination of v/k1"
    assert found.fix == "recompute: true"
