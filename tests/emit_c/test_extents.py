"""Sizes that make an extent negative: a call is refused, by kernel and evaluator; in a loop the dim is empty."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

JOINED = """\
func @f(%x: tensor<[N]xf32>, %c: tensor<4xf32>) -> tensor<[N + 2]xf32> symbols [N] {
  %y = tcp.slice(%x) {offsets = [2]} : tensor<[N - 2]xf32>
  %z = tcp.concat(%y, %c) {dim = 0} : tensor<[N + 2]xf32>
  tcp.return(%z)
}
"""
RESULT = """\
func @f(%x: tensor<[N]xf32>, %c: tensor<4xf32>) -> tensor<[N - 2]xf32> symbols [N] {
  %y = tcp.slice(%x) {offsets = [2]} : tensor<[N - 2]xf32>
  %z = tcp.neg(%y) : tensor<[N - 2]xf32>
  tcp.return(%z)
}
"""
CALLED = """\
func @main(%x: tensor<[N]xf32>, %c: tensor<4xf32>) -> tensor<f32> symbols [N] {
  %y = tcp.call @inner(%x) : tensor<f32>
  tcp.return(%y)
}

func @inner(%x: tensor<[M]xf32>) -> tensor<f32> symbols [M] {
  %y = tcp.slice(%x) {offsets = [2]} : tensor<[M - 2]xf32>
  %s = tcp.reduce_sum(%y) {dims = [0]} : tensor<f32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize("text", [JOINED, RESULT, CALLED], ids=["joined", "result", "called"])
def test_negative_extents_are_refused(text: str) -> None:
    module = tcpx.parse(text)
    kernel, c = tcpx.compile(module, target="generic"), np.arange(4, dtype=np.float32)
    for n in (0, 1, 2, 3):
        x = np.arange(n, dtype=np.float32)
        if n >= 2:
            assert np.array_equal(kernel(x, c), tcpx.evaluate(module, x, c))
            continue
        for call in (lambda x=x: kernel(x, c), lambda x=x: tcpx.evaluate(module, x, c)):
            with pytest.raises(tcpx.ArgumentError) as caught:
                call()
            error = caught.value.diagnostic
            assert (error.message, error.required) == ("the extent N - 2 is negative", "N - 2 >= 0")
            assert error.found == f"N = {n}"


def test_a_negative_extent_in_a_loop_is_0() -> None:
    """The evaluator refused it, or took -1 for what NumPy's reshape makes of it."""
    module = tcpx.parse("""func @f(%u: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<f32>) symbols [N] {
      %zero = tcp.fill {value = 0.0} : tensor<f32>
      %y, %total = gml_st.for %t in 0 to 3 step 1 (%d = %u, %e = %zero) {
        %left = gml_st.materialize(%d) tile [0] [N - 2] : tensor<[N - 2]xf32>
        %outer = tcp.contract(%left, %left) {lhs = ["i"], rhs = ["j"], out = ["i", "j"]} : tensor<[N - 2]x[N - 2]xf32>
        %s = tcp.reduce_sum(%outer) {dims = [0]} : tensor<[N - 2]xf32>
        %dot = tcp.dot(%left, %left) : tensor<f32>
        %wide = tcp.pad(%left) {low = [1], value = 1.0} : tensor<[N - 1]xf32>
        %sum = tcp.reduce_sum(%wide, init = %dot) {dims = [0]} : tensor<f32>
        gml_st.yield(%s, %d) tile [1] [N - 2]
        gml_st.yield(%sum, %e) tile [] []
      } : tensor<[N]xf32>, tensor<f32>
      tcp.return(%y, %total)
    }""")
    kernel = tcpx.compile(module, target="generic")
    for n in (0, 1, 2, 3, 5):
        x = np.linspace(0.5, 1, n, dtype=np.float32)
        for found, wanted in zip(kernel(x), tcpx.evaluate(module, x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
        if n < 3:
            assert np.array_equal(kernel(x)[0], x)
