"""A convolution with stride, dilation and padding, written as a `generic` with windows, under schedules by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[Any]

CHANNELS_LAST = """\
func @f(%x: tensor<[H]x[W]x[C]xf32>, %w: tensor<3x3x[C]x[D]xf32>, %b: tensor<[D]xf32>) -> tensor<RESULTxf32>
    symbols [H: 3..1000, W: 3..1000, C: 0..1000, D: 0..1000] {
  %p = tcp.pad(%x) {value = 0.0, low = [1, 1, 0]}
      : tensor<[2*floordiv(H - 1, 2) + 3]x[2*floordiv(W - 1, 2) + 3]x[C]xf32>
  %c = tcp.generic(%p, %w) {iterators = [["i", "parallel"], ["j", "parallel"], ["d", "parallel"], ["k", "reduction"],
      ["l", "reduction"], ["c", "reduction"]], maps = [[2*i + 2*k, 2*j + 2*l, c], [k, l, c, d], [i, j, d]],
      combiner = "tcp.add"} ({ (%e: f32, %f: f32, %acc: f32):
    %m = tcp.mul(%e, %f) : f32
    %s = tcp.add(%acc, %m) : f32
    tcp.yield(%s)
  }) : tensor<RESULTxf32>
  %bias = tcp.broadcast(%b) {dims = [2]} : tensor<RESULTxf32>
  %y = tcp.add(%c, %bias) : tensor<RESULTxf32>
  %zero = tcp.fill {value = 0.0} : tensor<RESULTxf32>
  %r = tcp.max(%y, %zero) : tensor<RESULTxf32>
  tcp.return(%r)
}
""".replace("RESULT", "[floordiv(H - 1, 2)]x[floordiv(W - 1, 2)]x[D]")
CHANNELS_FIRST = """\
func @f(%x: tensor<[C]x[H]x[W]xf32>, %w: tensor<[D]x[C]x3x3xf32>, %b: tensor<[D]xf32>) -> tensor<RESULTxf32>
    symbols [H: 3..1000, W: 3..1000, C: 0..1000, D: 0..1000] {
  %p = tcp.pad(%x) {value = 0.0, low = [0, 1, 1]}
      : tensor<[C]x[2*floordiv(H - 1, 2) + 3]x[2*floordiv(W - 1, 2) + 3]xf32>
  %c = tcp.generic(%p, %w) {iterators = [["d", "parallel"], ["i", "parallel"], ["j", "parallel"], ["c", "reduction"],
      ["k", "reduction"], ["l", "reduction"]], maps = [[c, 2*i + 2*k, 2*j + 2*l], [d, c, k, l], [d, i, j]],
      combiner = "tcp.add"} ({ (%e: f32, %f: f32, %acc: f32):
    %m = tcp.mul(%e, %f) : f32
    %s = tcp.add(%acc, %m) : f32
    tcp.yield(%s)
  }) : tensor<RESULTxf32>
  %bias = tcp.broadcast(%b) {dims = [0]} : tensor<RESULTxf32>
  %y = tcp.add(%c, %bias) : tensor<RESULTxf32>
  %zero = tcp.fill {value = 0.0} : tensor<RESULTxf32>
  %r = tcp.max(%y, %zero) : tensor<RESULTxf32>
  tcp.return(%r)
}
""".replace("RESULT", "[D]x[floordiv(H - 1, 2)]x[floordiv(W - 1, 2)]")
TILED = "let jd, ji, jj = tile(c, [d: 32, i: 1, j: 6], tail: pad)\npack(c.in1, [k, l, c, d], at: jd)\n"
ENDS = "fuse(r, into: jj)\nvectorize(jj)\nhoist_accumulator(c, out_of: kk)"
TAPS = "let kk, ll, cc = tile(c, [k: 1, l: 1, c: 1])\n"
LAST = {
    "as it is": "",
    "fused": "let ji, jj = tile(r, [d0: 3, d1: 5])\nfuse(c, into: jj)",
    "in place": TILED + TAPS + ENDS,
    "halo tile": f"{TILED}pack(c.in0, [c], at: ji)\n{TAPS}{ENDS}",
    "im2col": f"{TILED}pack(c.in0, [i, j, k, l, c], at: ji)\n{TAPS}{ENDS}",
    "masked taps": TILED + "let kk, ll, cc = tile(c, [k: 2, l: 2, c: 3], tail: pad)\n" + ENDS,
    "threads": TILED.replace("j: 6]", "j: 6], parallel: true") + f"pack(c.in0, [c], at: ji)\n{TAPS}{ENDS}",
}
FIRST = {
    "as it is": "",
    "in place": "let jd, ji, jj = tile(c, [d: 4, i: 1, j: 16], tail: pad)\n"
    "let kk, cc, ll = tile(c, [k: 1, c: 1, l: 1])\n" + ENDS,
    "im2col": "let jd, ji, jj = tile(c, [d: 4, i: 1, j: 16], tail: pad)\n"
    "pack(c.in1, [k, l, c, d], at: jd)\npack(c.in0, [k, l, c, i, j], at: ji)\n" + TAPS + ENDS,
    "masked taps": "let jd, ji, jj = tile(c, [d: 4, i: 1, j: 16], tail: pad)\n"
    "let kk, cc, ll = tile(c, [k: 2, c: 3, l: 2], tail: pad)\n" + ENDS,
}
RUNS = [
    *(("last", name, threads) for name in LAST for threads in ((1, 2) if name == "threads" else (1,))),
    *(("first", name, 1) for name in FIRST),
]


def schedule(steps: str) -> str:
    lets = 'let c = match one "c" in root\nlet r = match one "r" in root\n'
    return f"language 1\nschedule s(root: func) {{\n{lets}{steps}\n}}"


def convolved(x: Array, w: Array, b: Array) -> Array:
    """Of arrays with the channels last."""
    rows, columns = ((n - 1) // 2 for n in x.shape[:2])
    wide = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    total = np.zeros((rows, columns, w.shape[3]), np.float32)
    for k in range(3):
        for l in range(3):
            total += wide[2 * k : 2 * k + 2 * rows : 2, 2 * l : 2 * l + 2 * columns : 2] @ w[k, l]
    return np.maximum(total + b, 0)


@pytest.mark.parametrize("target", ["native", "x86_avx2"])
@pytest.mark.parametrize(("order", "name", "threads"), RUNS)
def test_computes_a_convolution(order: str, name: str, threads: int, target: str) -> None:
    require_cpu_of(load_target(target))
    payload, steps = (CHANNELS_LAST, LAST[name]) if order == "last" else (CHANNELS_FIRST, FIRST[name])
    program = tcpx.parse_schedule(schedule(steps))
    kernel = tcpx.compile(tcpx.parse(payload), schedule=program, threads=threads, target=target)
    for h, w, c, d in ((9, 11, 5, 7), (3, 3, 1, 1), (4, 20, 8, 33), (17, 36, 3, 40), (8, 8, 0, 4), (5, 5, 2, 0)):
        random = np.random.default_rng(h)
        shapes = (h, w, c), (3, 3, c, d), (d,)
        x, weights, bias = (random.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
        wanted = convolved(x, weights, bias)
        if order == "last":
            found = kernel(x, weights, bias)
        else:
            turned = np.ascontiguousarray(x.transpose(2, 0, 1)), np.ascontiguousarray(weights.transpose(3, 2, 0, 1))
            found = np.asarray(kernel(*turned, bias)).transpose(1, 2, 0)
        assert np.array_equal(found, wanted), (h, w, c, d)


@pytest.mark.parametrize("target", ["x86_avx512", "x86_avx2"])
@pytest.mark.parametrize("name", ["halo tile", "im2col", "masked taps"])
def test_no_element_of_the_result_is_computed_alone(name: str, target: str) -> None:
    program = tcpx.parse_schedule(schedule(LAST[name]))
    source = tcpx.emit(tcpx.parse(CHANNELS_LAST), schedule=program, target=target).c_source
    assert "*(out" not in source
    assert source.count("storeu_ps(out") + source.count("masked_store_f32x8(out") >= 12
