"""What the default shares between two threads: one that writes what the other reads next costs more than it saves."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx

SPARSE = """\
func @f(%vals: tensor<[K]xf32>, %cols: tensor<[K]xsi64> in 0 to V, %ptr: tensor<[R]xsi64> in 0 to K + 1 sorted spanning,
    %b: tensor<[V]x[D]xf32>) -> tensor<[R - 1]x[D]xf32> symbols [K, V, R: 1.., D] {
  %first = gml_st.materialize(%ptr) tile [0] [R - 1] : tensor<[R - 1]xsi64>
  %end = gml_st.materialize(%ptr) tile [1] [R - 1] : tensor<[R - 1]xsi64>
  %y = tcp.generic(%vals, %cols, %first, %end, %b) {iterators = [["m", "parallel"], ["k", "reduction"],
      ["d", "parallel"]], maps = [[k], [k], [m], [m], [in1, d], [m, d]], ragged = [["k", in2, in3]],
      combiner = "tcp.add"} ({ (%a: f32, %c: si64, %from: si64, %to: si64, %x: f32, %acc: f32):
    %sum = tcp.multiply_add(%a, %x, %acc) : f32
    tcp.yield(%sum)
  }) : tensor<[R - 1]x[D]xf32>
  tcp.return(%y)
}
"""


def payload(operation: str, given: str, result: str) -> tcpx.Module:
    return tcpx.parse(
        f"func @f(%x: tensor<{given}xf32>) -> tensor<{result}f32> {{\n"
        f"  %y = {operation} : tensor<{result}f32>\n  tcp.return(%y)\n}}\n"
    )


def shared(module: tcpx.Module) -> int:
    """How many loops threads share."""
    return len(re.findall("#pragma omp parallel", tcpx.emit(module, target="sapphire_rapids", threads=2).c_source))


def test_rows_of_a_sparse_matrix_are_shared() -> None:
    module = tcpx.parse(SPARSE)
    assert shared(module) == 1
    kernel = tcpx.compile(module, target="generic", threads=2)
    random = np.random.default_rng(0)
    for lengths, d in (([], 3), ([2], 1), ([0, 5, 1, 0, 3000], 33)):
        ptr = np.cumsum([0, *lengths])
        cols = random.integers(0, 7, ptr[-1])
        vals, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in (ptr[-1:], (7, d)))
        dense = np.zeros((len(lengths), 7), np.float32)
        np.add.at(dense, (np.repeat(np.arange(len(lengths)), lengths), cols), vals)
        assert np.array_equal(np.asarray(kernel(vals, cols, ptr, b)), dense @ b)


def test_a_row_is_shared_in_all_its_steps() -> None:
    """A softmax whose last division one thread computed would move what both wrote; few elements are shared by none."""
    assert shared(payload("tcp.softmax(%x) {dim = 0}", "1048576", "1048576x")) == 3
    assert shared(payload("tcp.softmax(%x) {dim = 0}", "1024", "1024x")) == 0


@pytest.mark.parametrize("operation", ["sum", "max"])
def test_columns_of_short_rows_are_shared_by_rows(operation: str) -> None:
    module = payload(f"tcp.reduce_{operation}(%x) {{dims = [0]}}", "6007x37", "37x")
    kernel = tcpx.compile(module, target="generic", threads=2)
    assert kernel.c_source.count("#pragma omp parallel") == 1
    assert "combined" in kernel.c_source
    x = np.random.default_rng(1).integers(-4, 5, (6007, 37)).astype(np.float32)
    assert np.array_equal(np.asarray(kernel(x)), getattr(x, operation)(0))
    long = payload(f"tcp.reduce_{operation}(%x) {{dims = [0]}}", "1024x4096", "4096x")
    assert "combined" not in tcpx.emit(long, target="generic", threads=2).c_source
