"""A matrix of symbolic sizes times a vector: the rows and vectors that are whole are read without masks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tcpx

PRODUCT = """\
func @f(%a: tensor<[N]x[M]xf32>, %x: tensor<[M]xf32>) -> tensor<[N]xf32> symbols [N: 0.., M: 0..] {
  %y = tcp.matvec(%a, %x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
GRAY = """\
func @gray(%x: tensor<[N]x3xui8>, %w: tensor<3xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %c = tcp.cast(%x) : tensor<[N]x3xf32>
  %y = tcp.matvec(%c, %w) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
SIZES = [(0, 5), (3, 0), (1, 1), (7, 17), (8, 16), (9, 31), (16, 48), (29, 33)]


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def test_numbers() -> None:
    kernel: Any = tcpx.compile(tcpx.parse(PRODUCT))
    for n, m in SIZES:
        a, x = _array(n, m), _array(m)
        np.testing.assert_allclose(kernel(a, x), a @ x, rtol=1e-5, atol=1e-5)
    a, x = _array(9, 33), _array(33)
    a[8, 32], a[0, 0] = np.nan, np.inf
    found = np.asarray(kernel(a, x))
    assert np.isnan(found[8])
    assert np.isinf(found[0])
    np.testing.assert_allclose(found[1:8], (a @ x)[1:8], rtol=1e-5, atol=1e-5)


def test_sums_of_three() -> None:
    kernel: Any = tcpx.compile(tcpx.parse(GRAY))
    w = np.array([0.3, 0.6, 0.1], np.float32)
    for n in (0, 1, 7, 8, 9, 61):
        x = np.random.default_rng(n).integers(0, 255, (n, 3), dtype=np.uint8)
        np.testing.assert_allclose(kernel(x, w), x.astype(np.float32) @ w, rtol=1e-5)


@pytest.mark.parametrize("target", ["x86_avx512", "x86_avx2"])
def test_whole_vectors_of_whole_rows_have_no_masks(target: str) -> None:
    source = tcpx.emit(tcpx.parse(PRODUCT), target=target).c_source
    loops = re.findall(r"for \(int64_t y_k1 = .*?\n(.*?)\n *\}\n", source, re.DOTALL)
    assert loops
    assert not re.search(r"mask|\?", loops[0])
