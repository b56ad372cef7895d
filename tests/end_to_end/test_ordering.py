"""Kernels that sort, next to NumPy: rows that are counted and rows that are sorted by digits, along any dim."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.guard_pages import run_guarded
from tests.payload.test_ordering import drawn, order, same

SORTED = """
func @f(%x: tensor<[R]x[N]xf32>) -> tensor<[R]x[N]xf32> symbols [R, N] {
  %y = tcp.sort(%x) {dim = 1} : tensor<[R]x[N]xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_of_any_length(threads: int) -> None:
    kernel = tcpx.compile(tcpx.parse(SORTED), threads=threads)
    for shape in ((3, 0), (0, 5), (1, 1), (5, 17), (2, 128), (2, 129), (1, 1003)):
        x = drawn("f32", shape)
        assert same(run_guarded(kernel, x)[0], np.take_along_axis(x, order(x, 1), 1)), shape
    x = np.asfortranarray(drawn("f32", (7, 130)))[::2]
    found = kernel(x)
    assert isinstance(found, np.ndarray)
    assert same(found, np.take_along_axis(x, order(x, 1), 1))


@pytest.mark.parametrize(("dtype", "extent"), [("si8", 40), ("bf16", 130)])
def test_indices_along_the_first_dim(dtype: str, extent: int) -> None:
    type_ = f"tensor<{extent}x[R]"
    text = f"func @f(%x: {type_}x{dtype}>) -> {type_}xsi32> symbols [R] {{"
    text += f"%y = tcp.argsort(%x) {{dim = 0, descending = true}} : {type_}xsi32> tcp.return(%y) }}"
    kernel = tcpx.compile(tcpx.parse(text))
    for rows in (0, 1, 3):
        x = drawn(dtype, (extent, rows))
        assert same(run_guarded(kernel, x)[0], order(x, 0, True).astype(np.int32))


def test_the_largest_of_one_row() -> None:
    text = """
func @f(%x: tensor<[N]xf32>, %k: index as [K]) -> (tensor<[K]xf32>, tensor<[K]xsi64>) symbols [N: 0..5000, K: 0..5000] {
  tcp.assert {any = [K <= N], message = "there are K elements"}
  %v, %i = tcp.topk(%x) {dim = 0} : tensor<[K]xf32>, tensor<[K]xsi64>
  tcp.return(%v, %i)
}
"""
    kernel = tcpx.compile(tcpx.parse(text))
    for extent, count in ((0, 0), (1, 1), (40, 3), (128, 128), (129, 0), (1000, 7), (1000, 1000)):
        x = drawn("f32", (extent,))
        values, indices = run_guarded(kernel, x, numbers={"K": count})
        wanted = order(x, 0, True)[:count]
        assert same(indices, wanted), (extent, count)
        assert same(values, x[wanted])
    with pytest.raises(tcpx.ArgumentError, match="there are K elements"):
        kernel(x, 1001)


def test_few_of_many() -> None:
    """From the blocks whose largest elements come first, and from what is left over behind the last block."""
    text = """
func @f(%x: tensor<2x1003xf32>) -> (tensor<2x5xf32>, tensor<2x5xsi32>) {
  %v, %i = tcp.topk(%x) {dim = 1} : tensor<2x5xf32>, tensor<2x5xsi32>
  tcp.return(%v, %i)
}
"""
    module = tcpx.parse(text)
    kernel = tcpx.compile(module)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    for seed in range(4):
        x = drawn("f32", (2, 1003), seed)
        if seed:
            x = np.nan_to_num(x, nan=0.5, posinf=2.0, neginf=-1.0)  # of many equal ones the first
        x[0, 1002] = 3
        values, indices = run_guarded(kernel, x)
        wanted = order(x, 1, True)[:, :5]
        assert same(indices, wanted.astype(np.int32))
        assert same(values, np.take_along_axis(x, wanted, 1))
