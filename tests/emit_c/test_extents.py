"""A call whose sizes make an extent negative is refused, by the kernel as by the evaluator."""

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
