"""Causal attention as exporters write it: the default schedule computes masks by positions, and leaves out blocks."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.structural.test_attention import reference

PAYLOAD = """
func @f(%q: tensor<[B]x3x[T]x16xf32>, %k: tensor<[B]x3x[T]x16xf32>, %v: tensor<[B]x3x[T]x16xf32>)
    -> tensor<[B]x3x[T]x16xf32> symbols [B: 1.., T: 8..] {
  %kt = tcp.transpose(%k) {permutation = [0, 1, 3, 2]} : tensor<[B]x3x16x[T]xf32>
  %s = tcp.contract(%q, %kt) {lhs = ["b", "h", "t", "d"], rhs = ["b", "h", "d", "u"], out = ["b", "h", "t", "u"]}
    : tensor<[B]x3x[T]x[T]xf32>
  %c = tcp.mul(%s, 0.25) : tensor<[B]x3x[T]x[T]xf32>
MASK
  %p = tcp.softmax(%a) {dim = 3} : tensor<[B]x3x[T]x[T]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["b", "h", "t", "u"], rhs = ["b", "h", "u", "d"], out = ["b", "h", "t", "d"]}
    : tensor<[B]x3x[T]x16xf32>
  tcp.return(%o)
}
"""
TRILU = """\
  %one = tcp.fill {value = 1.0} : tensor<[T]x[T]xf32>
  %i = tcp.iota {dim = 0} : tensor<[T]x[T]xsi64>
  %j = tcp.iota {dim = 1} : tensor<[T]x[T]xsi64>
  %ge = tcp.greater_equal(%i, %j) : tensor<[T]x[T]xi1>
  %tri = tcp.select(%ge, %one, 0.0) : tensor<[T]x[T]xf32>
  %zero = tcp.equal(%tri, 0.0) : tensor<[T]x[T]xi1>
  %m = tcp.select(%zero, -inf, 0.0) : tensor<[T]x[T]xf32>
  %a = tcp.add(%c, broadcast(%m, [2, 3])) : tensor<[B]x3x[T]x[T]xf32>"""
BUFFER = """\
  %bias = tcp.const {constant = "bias"} : tensor<1x1x160x160xf32>
  %rows = tcp.slice(%bias) {offsets = [0, 0, 0, 0]} : tensor<1x1x[T]x160xf32>
  %part = tcp.slice(%rows) {offsets = [0, 0, 0, 0]} : tensor<1x1x[T]x[T]xf32>
  %zero = tcp.equal(%part, 0.0) : tensor<1x1x[T]x[T]xi1>
  %flat = tcp.reshape(%zero) : tensor<[T]x[T]xi1>
  %a = tcp.select(broadcast(%flat, [2, 3]), -3.4028234663852886e+38, %c) : tensor<[B]x3x[T]x[T]xf32>"""
WRITTEN = {"scaled_dot_product_attention": TRILU, "a buffer of a triangle": BUFFER}


def module(name: str) -> tcpx.Module:
    text = PAYLOAD.replace("MASK", WRITTEN[name])
    if WRITTEN[name] is TRILU:
        return tcpx.parse(text)
    bias = np.tri(160, dtype=np.float32)[None, None]
    return tcpx.parse(text.replace("T: 8..]", "T: 8..160]"), constants={"bias": bias})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", WRITTEN)
def test_beside_numpy(name: str) -> None:
    kernel = tcpx.compile(module(name))
    draw = np.random.default_rng(0)
    for b, t in ((1, 8), (2, 33), (1, 150)):
        args = [draw.standard_normal((b, 3, t, 16), np.float32) for _ in range(3)]
        (wanted,) = reference(args, causal=True, scale=0.25)
        np.testing.assert_allclose(np.asarray(kernel(*args), np.float64), wanted, rtol=2e-5, atol=2e-6)


def test_no_array_of_all_queries_and_keys() -> None:
    source = tcpx.emit(module("scaled_dot_product_attention")).c_source
    start = source.index("size_t f_workspace(")
    assert "T * T" not in source[start : source.index("\n}", start)]
