"""Rows, elements and packed operands are shared among threads also where the outermost dim has one index."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx

NORM = """\
func @f(%x: tensor<[B]x[S]x[N]xf32>) -> tensor<[B]x[S]x[N]xf32> symbols [B, N, S] {
  %r = tcp.softmax(%x) {dim = 2} : tensor<[B]x[S]x[N]xf32>
  tcp.return(%r)
}
"""
BIAS = """\
func @f(%x: tensor<[B]x[S]x[N]xf32>, %b: tensor<[B]x[N]xf32>) -> tensor<[B]x[S]x[N]xf32> symbols [B, N, S] {
  %c = tcp.broadcast(%b) {dims = [0, 2]} : tensor<[B]x[S]x[N]xf32>
  %r = tcp.mul(%x, %c) : tensor<[B]x[S]x[N]xf32>
  tcp.return(%r)
}
"""
MEAN = """\
func @f(%x: tensor<[B]x[S]x[N]xf32>) -> tensor<[B]x[N]xf32> symbols [B, N, S] {
  %r = tcp.reduce_max(%x) {dims = [1]} : tensor<[B]x[N]xf32>
  tcp.return(%r)
}
"""
SCAN = """\
func @f(%x: tensor<[B]x[S]x[N]xsi32>) -> tensor<[B]x[S]x[N]xsi32> symbols [B, N, S] {
  %r, %all = tcp.cumsum(%x) {dim = 2} : tensor<[B]x[S]x[N]xsi32>, tensor<[B]x[S]xsi32>
  tcp.return(%r)
}
"""
SHORT = NORM.replace("[N]", "5").replace(", N", "")
GROUPS = NORM.replace("[S]", "12").replace(", S", "")
LARGE = NORM.replace("symbols [B,", "symbols [B: 2..,")
PAYLOADS = {"rows": NORM, "elements": BIAS, "columns": MEAN, "scans": SCAN, "short rows": SHORT, "few rows": GROUPS}
EXTENTS = ({"B": 1, "S": 131, "N": 97}, {"B": 3, "S": 5, "N": 33}, {"B": 1, "S": 1, "N": 1}, {"B": 0, "S": 7, "N": 9})


def counted(text: str) -> list[int]:
    """How many loops share their iterations, in each place where threads do."""
    source = tcpx.emit(tcpx.parse(text), target="x86_avx2", threads=2).c_source
    found = re.findall(r"#pragma omp parallel for(?: collapse\((\d)\))?", source)
    return [int(number or 1) for number in found]


@pytest.mark.parametrize(("name", "loops"), [("rows", 2), ("elements", 2), ("columns", 2), ("scans", 2)])
def test_all_outer_dims_are_shared(name: str, loops: int) -> None:
    assert set(counted(PAYLOADS[name])) == {loops}


def test_an_outermost_dim_that_has_an_index_for_every_thread_is_shared_alone() -> None:
    assert set(counted(LARGE)) == {1}


def test_a_short_dim_stays_whole() -> None:
    assert set(counted(GROUPS)) == {1}


@pytest.mark.parametrize("name", PAYLOADS)
def test_numbers(name: str) -> None:
    module = tcpx.parse(PAYLOADS[name])
    kernel = tcpx.compile(module, threads=2)
    for extents in EXTENTS:
        sizes = {symbol.name: extents[symbol.name] for symbol in module.main.symbols}
        arrays = tcpx.random_inputs(module, 3, sizes=sizes)
        found, expected = (np.asarray(r, np.float64) for r in (kernel(*arrays), tcpx.evaluate(module, *arrays)))
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7, err_msg=str(sizes))
