"""What a loop carries is changed where it lies, if nothing reads the old value; else it is copied, and right."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import tcpx

LOOP = """\
func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N: 1..] {{
  %a, %b = gml_st.for %i in 0 to 5 step 1 (%s = %x, %t = %y) {{
    {}
    gml_st.yield(%u, %s) tile [0] [N]
    gml_st.yield(%v, %t) tile [0] [N]
  }} : tensor<[N]xf32>, tensor<[N]xf32>
  tcp.return(%a, %b)
}}
"""
WHILE = """\
func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xf32>) symbols [N: 1..] {
  %yes = tcp.const {value = true} : i1
  %c, %a, %b = gml_st.while %i in 0 to 9 step 1 (%go = %yes, %s = %x, %t = %y) {
    %u = tcp.mul(%s, 0.5) : tensor<[N]xf32>
    %v = tcp.add(%t, %u) : tensor<[N]xf32>
    %m = tcp.reduce_max(%u) {dims = [0]} : tensor<f32>
    %top = gml_st.materialize(%m) point [] : f32
    %least = tcp.const {value = 0.25} : f32
    %more = tcp.greater(%top, %least) : i1
    gml_st.yield(%u, %s) tile [0] [N]
    gml_st.yield(%v, %t) tile [0] [N]
    gml_st.yield(%more, %go) point []
  } : i1, tensor<[N]xf32>, tensor<[N]xf32>
  tcp.return(%a, %b)
}
"""
SHIFTED = """\
%rest = tcp.slice(%s) {offsets = [1]} : tensor<[N - 1]xf32>
    %first = tcp.slice(%s) {offsets = [0]} : tensor<1xf32>
    %moved = tcp.concat(%rest, %first) {dim = 0} : tensor<[N]xf32>
    %u = tcp.sub(%s, %moved) : tensor<[N]xf32>
    %v = tcp.mul(%t, 0.5) : tensor<[N]xf32>"""
EACH = "%u = tcp.mul(%s, 0.5) : tensor<[N]xf32>\n    %v = tcp.mul(%t, 2.0) : tensor<[N]xf32>"
SPRING = """\
%force = tcp.mul(%s, -0.1) : tensor<[N]xf32>
    %v = tcp.add(%t, %force) : tensor<[N]xf32>
    %step = tcp.mul(%v, 0.1) : tensor<[N]xf32>
    %u = tcp.add(%s, %step) : tensor<[N]xf32>"""
OLD = """\
%u = tcp.add(%s, %t) : tensor<[N]xf32>
    %v = tcp.mul(%s, 1.0) : tensor<[N]xf32>"""
NORMED = """\
%square = tcp.mul(%s, %s) : tensor<[N]xf32>
    %sum = tcp.reduce_sum(%square) {dims = [0]} : tensor<f32>
    %more = tcp.add(%sum, 1.0) : tensor<f32>
    %root = tcp.sqrt(%more) : tensor<f32>
    %u = tcp.div(%s, broadcast(%root, [])) : tensor<[N]xf32>
    %v = tcp.add(%t, %u) : tensor<[N]xf32>"""
PROGRAMS = {
    "each": LOOP.format(EACH),
    "a spring": LOOP.format(SPRING),
    "the old value": LOOP.format(OLD),
    "a norm": LOOP.format(NORMED),
    "the next element": LOOP.format(SHIFTED),
    "while": WHILE,
}
BEFORE = 2
"""Copies of the arguments, which the loop begins with."""
COPIES = {"each": 0, "a spring": 0, "a norm": 0, "while": 0}
"""Within the loop; of the others nothing is said."""


@cache
def kernels() -> dict[str, tcpx.Kernel]:
    requests = [tcpx.CompileRequest(tcpx.parse(text), name=f"k{k}") for k, text in enumerate(PROGRAMS.values())]
    return dict(zip(PROGRAMS, tcpx.compile_many(requests), strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str) -> None:
    module = tcpx.parse(PROGRAMS[name])
    for n in (1, 2, 7, 64, 131):
        x, y = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
        if n == 7:
            x[3], y[5] = np.inf, np.nan
        given = x.copy(), y.copy()
        with np.errstate(invalid="ignore"):
            wanted = tcpx.evaluate(module, x, y)
        for ours, theirs in zip(kernels()[name](x, y), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)
        np.testing.assert_array_equal(x, given[0])
        np.testing.assert_array_equal(y, given[1])


@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    source = tcpx.emit(tcpx.parse(PROGRAMS[name])).c_source
    assert source.count("memcpy(") == BEFORE + COPIES[name]


def test_more_than_caches_hold() -> None:
    """No element is written past the caches that the next iteration reads, and none is computed twice."""
    n = (1 << 22) + 37
    x, y = np.linspace(-1, 1, n, dtype=np.float32), np.ones(n, np.float32)
    u, v = kernels()["each"](x, y)
    np.testing.assert_array_equal(u, x * np.float32(0.5**5))
    np.testing.assert_array_equal(v, y * np.float32(2**5))


ROWS = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 1.., N: 1..] {
  %a = gml_st.for %i in 0 to 3 step 1 (%s = %x) {
    %m = tcp.reduce_max(%s) {dims = [1]} : tensor<[M]xf32>
    %d = tcp.sub(%s, broadcast(%m, [0])) : tensor<[M]x[N]xf32>
    %u = tcp.mul(%d, 0.5) : tensor<[M]x[N]xf32>
    gml_st.yield(%u, %s) tile [0, 0] [M, N]
  } : tensor<[M]x[N]xf32>
  tcp.return(%a)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_reductions_with_what_reads_them(threads: int) -> None:
    """What the loop carries is read row by row, and in parts by threads, in vectors."""
    rows = tcpx.compile(tcpx.parse(ROWS), threads=threads)
    norm = tcpx.emit(tcpx.parse(PROGRAMS["a norm"]), threads=threads)
    assert all(remark.factor for remark in (*rows.remarks, *norm.remarks))  # nothing is left alone
    for m, n in ((1, 1), (3, 7), (5, 131), (70, 33)):
        x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
        found: Any = rows(x)
        wanted: Any = tcpx.evaluate(tcpx.parse(ROWS), x)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


READ_AGAIN = {
    "what was yielded, under another shape": """\
%u = tcp.add(%s, %t) : tensor<2x4xf32>
    gml_st.yield(%u, %s) full
    %v = tcp.neg(%s) : tensor<2x4xf32>
    gml_st.yield(%v, %s) full""",
    "old and new, transposed": """\
%old = tcp.transpose(%s) {permutation = [1, 0]} : tensor<4x2xf32>
    %less = tcp.neg(%old) : tensor<4x2xf32>
    %u = tcp.add(%s, %t) : tensor<2x4xf32>
    gml_st.yield(%u, %s) full
    %new = tcp.transpose(%s) {permutation = [1, 0]} : tensor<4x2xf32>
    %sum = tcp.add(%new, %less) : tensor<4x2xf32>
    %back = tcp.transpose(%sum) {permutation = [1, 0]} : tensor<2x4xf32>
    gml_st.yield(%back, %t) full""",
    "old and new, in one elementwise operation if that could be": """\
%old = tcp.min(%s, %t) : tensor<2x4xf32>
    %p = tcp.add(%t, %t) : tensor<2x4xf32>
    gml_st.yield(%old, %s) full
    %sum = tcp.add(%s, %old) : tensor<2x4xf32>
    gml_st.yield(%p, %s) full
    gml_st.yield(%sum, %s) full""",
}


@pytest.mark.parametrize("name", READ_AGAIN)
def test_what_is_read_after_a_yield_is_what_was_yielded(name: str) -> None:
    text = f"""\
func @f(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {{
  %a, %b = gml_st.for %i in 0 to 3 step 1 (%s = %x, %t = %y) {{
    {READ_AGAIN[name]}
  }} : tensor<2x4xf32>, tensor<2x4xf32>
  tcp.return(%a, %b)
}}
"""
    module = tcpx.parse(text)
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    found: Any = tcpx.compile(module, target="generic")(x, y)
    wanted: Any = tcpx.evaluate(module, x, y)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


STENCIL = """
func @f(%u: tensor<[H]x[W]xf32>, %s: tensor<[T]xf32>) -> tensor<[H]x[W]xf32> symbols [H: 2.., W: 2.., T] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %n = gml_st.materialize(%d) tile [0, 1] [H - 2, W - 2] : tensor<[H - 2]x[W - 2]xf32>
    %c = gml_st.materialize(%d) tile [1, 1] [H - 2, W - 2] : tensor<[H - 2]x[W - 2]xf32>
    %x = tcp.add(%n, %c) : tensor<[H - 2]x[W - 2]xf32>
    gml_st.yield(%x, %d) tile [1, 1] [H - 2, W - 2]
  } : tensor<[H]x[W]xf32>
  tcp.return(%y)
}
"""
HISTORY = """
func @f(%u: tensor<[T + 1]x[H]x[W]xf32>, %s: tensor<[T]xf32>) -> tensor<[T + 1]x[H]x[W]xf32> symbols [H, W, T] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %n = gml_st.materialize(%d) tile [%t, 0, 0] [1, H, W] drop [0] : tensor<[H]x[W]xf32>
    %x = tcp.mul(%n, 0.5) : tensor<[H]x[W]xf32>
    gml_st.yield(%x, %d) tile [%t + 1, 0, 0] [1, H, W] drop [0]
  } : tensor<[T + 1]x[H]x[W]xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(("text", "rank"), [(STENCIL, 2), (HISTORY, 3)], ids=["stencil", "history"])
def test_parts_of_a_state_are_read_and_written_in_rows(text: str, rank: int) -> None:
    """No part is copied an element at a time, with a quotient and a remainder for each index."""
    kernel = tcpx.compile(tcpx.parse(text))
    assert "tcpx_size_floordiv" not in kernel.c_source
    assert not any(" / (" in line or " / W" in line for line in kernel.c_source.splitlines())
    for h, w, t in ((2, 2, 1), (3, 3, 0), (5, 67, 3), (7, 19, 1)):
        state = np.random.default_rng(h).normal(size=(t + 1, h, w)[-rank:]).astype(np.float32)
        steps = np.zeros(t, np.float32)
        np.testing.assert_array_equal(kernel(state, steps), tcpx.evaluate(tcpx.parse(text), state, steps))
