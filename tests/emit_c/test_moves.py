"""`bufferize` makes a copy of elements that lie side by side, which is a call of `memcpy`; other loops are left."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.emit_c.payloads import GENERIC, Array, module, reference
from tests.guard_pages import run_guarded

NOTHING = tcpx.parse_schedule("language 1\nschedule s(f: func) {}")
ROWS = """
func @rows(%x: buffer<[N]x8xf32, strides [8, 1], space argument>, %r: buffer<[N]x8xf32, strides [8, 1], space result>)
    symbols [N] {results = 1} {
  %one = tcp.const {value = 1.0, row = "literal"} : f32
  gml_st.for %i in 0 to N {
    gml_st.for %c in 0 to 8 {
      vector.write(%one, %r) tile [%i, %c] [1, 1] drop [0, 1] {row = "store_f32"}
    }
    buffer.copy(%x, %r) tile TO drop [0] {part = tile FROM drop [0]}
  }
  tcp.return
}
"""
COPIES = {
    ("[%i, 0] [1, 8]", "[%i, 0] [1, 8]"): "r + i * 8, x + i * 8, 8 * sizeof(float)",
    ("[%i, 2] [1, 6]", "[%i, 2] [1, 6]"): "r + i * 8 + 2, x + i * 8 + 2, 6 * sizeof(float)",
    ("[%i, 2] [1, 6]", "[%i, 0] [1, 6]"): "r + i * 8, x + i * 8 + 2, 6 * sizeof(float)",
    ("[%i, 0] [1, 8]", "[N - 1 - %i, 0] [1, 8]"): "r + (N - i - 1) * 8, x + i * 8, 8 * sizeof(float)",
    ("[%i, 0] [1, min(8, N)]", "[%i, 0] [1, min(8, N)]"): "r + i * 8, x + i * 8, (size_t)size * sizeof(float)",
}


@pytest.mark.parametrize(("parts", "arguments"), COPIES.items())
def test_a_copy_is_printed(parts: tuple[str, str], arguments: str) -> None:
    text = ROWS.replace("FROM", parts[0]).replace("TO", parts[1])
    assert print_module(module(text)) == print_module(parse(print_module(module(text))))
    (kernel,) = build_many([KernelRequest(module(text))], GENERIC)
    assert f"memcpy({arguments});" in kernel.c_source
    for shape in ((0, 8), (1, 8), (5, 8), (9, 8)):
        x: Array = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
        (wanted,) = reference(module(text), x)
        for (found,) in ((kernel(x),), run_guarded(kernel, x)):
            np.testing.assert_array_equal(found, wanted)


LEFT = {
    "backwards": ("tcp.reverse(%x) {dims = [1]}", "[N]x8"),
    "every other element": ("tcp.pad(%x) {interior = [0, 1], value = 0.0}", "[N]x15"),
    "down a column": ("tcp.transpose(%x) {permutation = [1, 0]}", "8x[N]"),
    "one element again and again": (
        """tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel", 8]], maps = [[i, 0], [i, j]]} ({
      (%e: f32):
    tcp.yield(%e)
  })""",
        "[N]x8",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_left(name: str) -> None:
    operation, shape = LEFT[name]
    text = f"func @left(%x: tensor<[N]x8xf32>) -> tensor<{shape}xf32> symbols [N] {{\n  %t = {operation} : "
    text += f"tensor<{shape}xf32>\n  tcp.return(%t)\n}}"
    kernel = tcpx.compile(tcpx.parse(text), NOTHING, target="generic")
    assert "memcpy" not in kernel.c_source
    assert "string.h" not in kernel.c_source
    for rows in (0, 1, 5):
        x: Array = np.random.default_rng(3).uniform(-1, 1, (rows, 8)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(kernel(x)), np.asarray(tcpx.evaluate(tcpx.parse(text), x)))


TWO = """func @two(%x: tensor<[N]x8xf32>) -> (tensor<[N]x8xf32>, tensor<8x[N]xf32>) symbols [N] {
  %a, %b = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j], [j, i]]} ({
      (%e: f32):
    tcp.yield(%e, %e)
  }) : tensor<[N]x8xf32>, tensor<8x[N]xf32>
  tcp.return(%a, %b)
}"""


def test_a_loop_that_moves_elements_twice_is_left() -> None:
    kernel = tcpx.compile(tcpx.parse(TWO), NOTHING, target="generic")
    assert "memcpy" not in kernel.c_source
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    for found, wanted in zip(kernel(x), (x, x.T), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


PRODUCT = """func @product(%x: tensor<[M]x40x{t}>, %w: tensor<40x[N]x{t}>) -> tensor<[M]x[N]x{t}> symbols [M, N] {{
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]x{t}>
  tcp.return(%mm)
}}"""
PACKED = """language 1
schedule packed(root: func) {
  let mm = match one matmul in root
  let j = tile(mm, [n: 16], parallel: true)
  let i = tile(mm, [m: 4], tail: pad)
  let bp = pack(mm.rhs, [k, n], at: j)
  pack(mm.lhs, [m, k], at: i)
}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "si8", "si32"])
@pytest.mark.parametrize("threads", [1, 2])
def test_packed_rows(dtype: str, threads: int) -> None:
    """Rows of known length are moved whole, the last columns of the right factor one by one. A loop that threads may
    share is printed twice."""
    kernel = tcpx.compile(
        tcpx.parse(PRODUCT.format(t=dtype)), tcpx.parse_schedule(PACKED), target="generic", threads=threads
    )
    assert re.findall(r"memcpy\((\w+) .*, 40 \* sizeof\(\w+\)\);", kernel.c_source) == ["mm_lhs_buf"] * threads
    random = np.random.default_rng(1)
    kind = {"f32": np.float32, "f64": np.float64, "si8": np.int8, "si32": np.int32}[dtype]
    for m, n in ((0, 5), (7, 0), (1, 1), (4, 16), (9, 37)):
        x, w = random.integers(-1, 2, (m, 40)).astype(kind), random.integers(-1, 2, (40, n)).astype(kind)
        for (found,) in ((kernel(x, w),), run_guarded(kernel, x, w)):
            np.testing.assert_array_equal(np.asarray(found), x @ w)


TURNED = """func @turned(%x: tensor<[M]x[K]x[N]x{t}>) -> tensor<[K]x[M]x[N]x{t}> symbols [M, K, N] {{
  %t = tcp.transpose(%x) {{permutation = [1, 0, 2]}} : tensor<[K]x[M]x[N]x{t}>
  tcp.return(%t)
}}"""


@pytest.mark.parametrize("dtype", ["f32", "i1", "f16"])
def test_rows_of_any_length(dtype: str) -> None:
    kernel = tcpx.compile(tcpx.parse(TURNED.format(t=dtype)), NOTHING, target="generic")
    size = {"f32": "float", "i1": "_Bool", "f16": "uint16_t"}[dtype]
    assert re.search(rf"if \(N > 0\) {{\s+memcpy\(out .*, x .*, \(size_t\)N \* sizeof\({size}\)\);", kernel.c_source)
    for shape in ((2, 3, 0), (0, 2, 3), (1, 1, 1), (3, 4, 37)):
        x = np.random.default_rng(2).integers(0, 2, shape).astype({"f32": "f4", "i1": "?", "f16": "f2"}[dtype])
        for (found,) in ((kernel(x),), run_guarded(kernel, x)):
            np.testing.assert_array_equal(np.asarray(found), x.transpose(1, 0, 2))
