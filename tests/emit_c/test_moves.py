"""A loop that moves elements which lie side by side is a call of `memcpy`; every other loop is left."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tests.emit_c.payloads import GENERIC, Array, module, reference
from tests.guard_pages import run_guarded

ROWS = """
func @rows(%x: buffer<[N]x8xf32, strides [8, 1], space argument>, %r: buffer<[N]x8xf32, strides [8, 1], space result>)
    symbols [N] {results = 1} {
  %one = tcp.const {value = 1.0, row = "literal"} : f32
  gml_st.for %i in 0 to N {
    gml_st.for %c in 0 to 8 {
      vector.write(%one, %r) tile [%i, %c] [1, 1] drop [0, 1] {row = "store_f32"}
    }
    gml_st.for %j in RANGE {
      %v = vector.read(%FROM) tile [READ] [1, SIZE] drop [0, 1] {row = "load_f32"} : f32
      vector.write(%v, %r) tile [WRITE] [1, 1] drop [0, 1] {row = "store_f32"}
    }
  }
  tcp.return
}
"""


def rows(range_: str, read: str, write: str, source: str = "x", size: str = "1") -> str:
    text = ROWS.replace("RANGE", range_).replace("READ", read).replace("WRITE", write)
    return text.replace("FROM", source).replace("SIZE", size)


MOVED = {
    "a row": (rows("0 to 8", "%i, %j", "%i, %j"), "r + i * 8, x + i * 8, 8 * sizeof(float)"),
    "from the third element on": (
        rows("2 to 8", "%i, %j", "%i, %j"),
        "r + i * 8 + 2, x + i * 8 + 2, 6 * sizeof(float)",
    ),
    "to the beginning": (rows("2 to 8", "%i, %j", "%i, %j - 2"), "r + i * 8, x + i * 8 + 2, 6 * sizeof(float)"),
    "to a row further up": (
        rows("0 to 8", "%i, %j", "N - 1 - %i, %j"),
        "r + (N - i - 1) * 8, x + i * 8, 8 * sizeof(float)",
    ),
}
LEFT = {
    "backwards": rows("0 to 8", "%i, 7 - %j", "%i, %j"),
    "every other element": rows("0 to 4", "%i, 2 * %j", "%i, %j"),
    "in steps": rows("0 to 8 step 2", "%i, %j", "%i, %j"),
    "by a quotient": rows("0 to 8", "%i, floordiv(%j, 2)", "%i, %j"),
    "down a column": rows("0 to min(8, N)", "%j, 0", "%i, %j"),
    "one element again and again": rows("0 to 8", "%i, 3", "%i, %j"),
    "within an array": rows("0 to 7", "%i, %j", "%i, %j + 1", source="r"),
    "what may not be there": rows("0 to 8", "%i, %j", "%i, %j", size="min(1, N - 2)"),
    "a length that is bounded": rows("0 to min(8, N)", "%i, %j", "%i, %j"),
}


def built(text: str) -> Kernel:
    (kernel,) = build_many([KernelRequest(module(text))], GENERIC)
    return kernel


def check(kernel: Kernel, text: str, *shapes: tuple[int, ...]) -> None:
    for shape in shapes:
        x: Array = np.random.default_rng(3).uniform(-1, 1, shape).astype(np.float32)
        (wanted,) = reference(module(text), x)
        for (found,) in ((kernel(x),), run_guarded(kernel, x)):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", MOVED)
def test_moved(name: str) -> None:
    text, arguments = MOVED[name]
    kernel = built(text)
    assert f"memcpy({arguments});" in kernel.c_source
    check(kernel, text, (0, 8), (1, 8), (5, 8))


@pytest.mark.parametrize("name", LEFT)
def test_left(name: str) -> None:
    kernel = built(LEFT[name])
    assert "memcpy" not in kernel.c_source
    assert "string.h" not in kernel.c_source
    check(kernel, LEFT[name], *([] if name == "what may not be there" else [(0, 8), (1, 8), (5, 8)]), (9, 8))


def test_a_loop_with_a_carried_value_is_left() -> None:
    text = MOVED["a row"][0].replace("gml_st.for %j in 0 to 8 {", "%last = gml_st.for %j in 0 to 8 (%held = %one) {")
    text = text.replace(
        """    }
  }
  tcp.return""",
        """    } : f32
    vector.write(%last, %r) tile [%i, 0] [1, 1] drop [0, 1] {row = "store_f32"}
  }
  tcp.return""",
    )
    kernel = built(text)
    assert "memcpy" not in kernel.c_source
    check(kernel, text, (0, 8), (5, 8))


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
    """Rows of known length are moved whole, the last columns of the right factor one by one."""
    kernel = tcpx.compile(
        tcpx.parse(PRODUCT.format(t=dtype)), tcpx.parse_schedule(PACKED), target="generic", threads=threads
    )
    assert re.findall(r"memcpy\((\w+) .*, 40 \* sizeof\(\w+\)\);", kernel.c_source) == ["mm_lhs_buf"]
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
    kernel = tcpx.compile(
        tcpx.parse(TURNED.format(t=dtype)), tcpx.parse_schedule("language 1\nschedule s(f: func) {}"), target="generic"
    )
    size = {"f32": "float", "i1": "_Bool", "f16": "uint16_t"}[dtype]
    assert re.search(rf"if \(N > 0\) {{\s+memcpy\(out .*, x .*, \(size_t\)N \* sizeof\({size}\)\);", kernel.c_source)
    for shape in ((2, 3, 0), (0, 2, 3), (1, 1, 1), (3, 4, 37)):
        x = np.random.default_rng(2).integers(0, 2, shape).astype({"f32": "f4", "i1": "?", "f16": "f2"}[dtype])
        for (found,) in ((kernel(x),), run_guarded(kernel, x)):
            np.testing.assert_array_equal(np.asarray(found), x.transpose(1, 0, 2))
