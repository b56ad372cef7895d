"""Loops that the payload has: the default schedule does with the operations in them what it does with all others."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.types import shape_of

CELL = """
func @f(%x: tensor<[T]x[B]x33xf32>, %h0: tensor<[B]x33xf32>) -> (%y: tensor<[T]x[B]x33xf32>, %h: tensor<[B]x33xf32>)
    symbols [T, B] {
  %w = tcp.const {constant = "w"} : tensor<2x33x33xf32>
  %e = tcp.empty : tensor<[T]x[B]x33xf32>
  %h, %y = gml_st.for %t in 0 to T step 1 (%s = %h0, %all = %e) {
    %xt = gml_st.materialize(%x) tile [%t, 0, 0] [1, B, 33] drop [0] : tensor<[B]x33xf32>
    %w1 = tcp.slice(%w) {offsets = [1, 0, 0]} : tensor<1x33x33xf32>
    %own = tcp.reshape(%w1) : tensor<33x33xf32>
    %m = tcp.contract(%s, %own) {lhs = ["b", "k"], rhs = ["g", "k"], out = ["b", "g"]} : tensor<[B]x33xf32>
    %a = tcp.add(%xt, %m) : tensor<[B]x33xf32>
    %n = tcp.relu(%a) : tensor<[B]x33xf32>
    gml_st.yield(%n, %s) tile [0, 0] [B, 33]
    gml_st.yield(%n, %all) tile [%t, 0, 0] [1, B, 33] drop [0]
  } : tensor<[B]x33xf32>, tensor<[T]x[B]x33xf32>
  tcp.return(%y, %h)
}"""
STATE = """
func @f(%x: tensor<[T]x33xf32>, %h: inout tensor<33xf32>, %w: tensor<33x33xf32>)
    -> (%y: tensor<[T]xf32>, %h: tensor<33xf32>) symbols [T] {
  %e = tcp.empty : tensor<[T]xf32>
  %h1, %y = gml_st.for %t in 0 to T step 1 (%s = %h, %all = %e) {
    %xt = gml_st.materialize(%x) tile [%t, 0] [1, 33] drop [0] : tensor<33xf32>
    %b = tcp.contract(%s, %w) {lhs = ["k"], rhs = ["k", "n"], out = ["n"]} : tensor<33xf32>
    %c = tcp.add(%xt, %b) : tensor<33xf32>
    %n = tcp.relu(%c) : tensor<33xf32>
    %q = tcp.reduce_sum(%n) {dims = [0]} : tensor<f32>
    gml_st.yield(%n, %s) tile [0] [33]
    gml_st.yield(%q, %all) tile [%t] [1] drop [0]
  } : tensor<33xf32>, tensor<[T]xf32>
  tcp.return(%y, %h1)
}"""
NESTED = """
func @f(%x: tensor<[T]x5x19xf32>, %w: tensor<[T]x19x19xf32>) -> %y: tensor<[T]x5x19xf32> symbols [T] {
  %e = tcp.empty : tensor<[T]x5x19xf32>
  %y = gml_st.LOOP %t in 0 to T step 1 (%all = %e) {
    %xt = gml_st.materialize(%x) tile [%t, 0, 0] [1, 5, 19] drop [0] : tensor<5x19xf32>
    %wt = gml_st.materialize(%w) tile [%t, 0, 0] [1, 19, 19] drop [0] : tensor<19x19xf32>
    %r = gml_st.for %k in 0 to 3 step 1 (%s = %xt) {
      %m = tcp.matmul(%s, %wt) : tensor<5x19xf32>
      %p = tcp.softmax(%m) {dim = 1} : tensor<5x19xf32>
      %v = tcp.add(%p, %xt) : tensor<5x19xf32>
      gml_st.yield(%v, %s) tile [0, 0] [5, 19]
    } : tensor<5x19xf32>
    gml_st.yield(%r, %all) tile [%t, 0, 0] [1, 5, 19] drop [0]
  } : tensor<[T]x5x19xf32>
  tcp.return(%y)
}"""
CASES = {
    "a cell": (CELL, 1),
    "state": (STATE, 2),
    "nested": (NESTED.replace("LOOP", "for"), 2),
    "parallel": (NESTED.replace("LOOP", "parallel"), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_in_a_loop_is_scheduled(name: str) -> None:
    """Part of a weight is packed by the compiler, in versions for several numbers of rows too."""
    text, threads = CASES[name]
    weights = np.random.default_rng(3).standard_normal((2, 33, 33)).astype(np.float32) / 8
    module = tcpx.parse(text, constants={"w": weights} if "constant =" in text else {})
    kernel = tcpx.compile(module, target="x86_avx2", threads=threads)
    assert all(
        remark.message.startswith("each iteration of %t copies") for remark in kernel.remarks if not remark.factor
    )
    assert "fmaf(" not in kernel.c_source
    assert "constant w: " not in kernel.c_source
    assert ("constant m.rhs: " in kernel.c_source) == (text is CELL)
    rng = np.random.default_rng(threads)
    for length, batch in ((0, 1), (1, 0), (1, 5), (2, 1), (7, 4)):
        sizes = {"T": length, "B": batch}
        shapes = [
            [sizes[str(n)] if str(n) in sizes else int(str(n)) for n in shape_of(arg.type)] for arg in module.main.args
        ]
        given = [(rng.standard_normal(shape) / 8).astype(np.float32) for shape in shapes]
        wanted = results_of(tcpx.evaluate(module, *(a.copy() for a in given)))
        for ours, theirs in zip(results_of(kernel(*(a.copy() for a in given))), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def results_of(found: object) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, found)) if isinstance(found, tuple) else (np.asarray(found),)


ONE_GRID = """
func @shift(%a: tensor<[N]xf32>, %n: index as [T]) -> tensor<[N]xf32> symbols [N: 2.., T: 0..100] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %a) {
    %now = gml_st.materialize(%d) full : tensor<[N]xf32>
    %part = gml_st.materialize(%d) tile [1] [N - 1] : tensor<[N - 1]xf32>
    %new = tcp.reverse(%part) {dims = [0]} : tensor<[N - 1]xf32>
    gml_st.yield(%new, %d) tile [0] [N - 1]
    %mirrored = tcp.reverse(%d) {dims = [0]} : tensor<[N]xf32>
    %sum = tcp.sub(%mirrored, %now) : tensor<[N]xf32>
    gml_st.yield(%sum, %d) full
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""


def test_what_each_iteration_copies_of_carried_values_is_a_remark() -> None:
    """Only `explain` said so, in an attribute."""
    source = tcpx.emit(tcpx.parse(ONE_GRID), target="generic")
    remark = next(remark for remark in source.remarks if "each iteration" in remark.message)
    assert remark.message == "each iteration of %t copies %d: tensor<[N]xf32>"
    assert remark.found
    assert remark.fix == "carry one array with a dim of 2 in front: write slot `mod(%t, 2)`, read the other"
    assert remark.payload is not None
