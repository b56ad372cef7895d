"""Payloads of whole-path tests: products of every kind that `packed_gemm` takes, and what they should give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.emit_c.kernel import Kernel
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.ir import Module
from tcpx.payload.types import dtype_of
from tests.guard_pages import run_guarded
from tests.tolerance import Bounded, assert_close

Array = npt.NDArray[np.generic]
Sizes = Mapping[str, int]

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tcp"
DIGITS_SCHEDULE = ROOT / "schedules" / "digits.tcps"
TARGETS = ("generic", "x86_avx2", "x86_avx512")

MATMUL = """\
func @matmul(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
LINEAR = """\
func @linear(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32>
    symbols [K, M, N] {
  %zero = tcp.const {value = 0.0} : f32
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %s = tcp.add(%mm, %bb) : tensor<[M]x[N]xf32>
  %zb = tcp.broadcast(%zero) {dims = []} : tensor<[M]x[N]xf32>
  %r = tcp.max(%s, %zb) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
"""
MIN_PLUS = """\
func @min_plus(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]],
                             maps = [[m, k], [k, n], [m, n]], combiner = "tcp.min"} ({ (%a: f32, %b: f32, %acc: f32):
    %sum = tcp.add(%a, %b) : f32
    %least = tcp.min(%acc, %sum) : f32
    tcp.yield(%least)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
TRANSPOSED = """\
func @transposed(%x: tensor<[M]x[K]xf32>, %w: tensor<[N]x[K]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
TRANSPOSED_LHS = """\
func @transposed_lhs(%x: tensor<[K]x[M]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["k", "m"], rhs = ["k", "n"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
SI8 = """\
func @si8(%x: tensor<[M]x[K]xsi8>, %w: tensor<[K]x[N]xsi8>) -> tensor<[M]x[N]xsi32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}
"""
SI32 = """\
func @si32(%x: tensor<[M]x[K]xsi32>, %w: tensor<[K]x[N]xsi32>) -> tensor<[M]x[N]xsi32> symbols [K, M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}
"""
TWO_K = """\
func @two_k(%x: tensor<[M]x[K]x3xf32>, %w: tensor<[K]x3x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k", "k2"], rhs = ["k", "k2", "n"], out = ["m", "n"]}
    : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
TWO_K_SYMBOLIC = """\
func @two_k_symbolic(%x: tensor<[M]x[K]x[J]xf32>, %w: tensor<[K]x[J]x[N]xf32>) -> tensor<[M]x[N]xf32>
    symbols [J, K, M, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k", "k2"], rhs = ["k", "k2", "n"], out = ["m", "n"]}
    : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
PRODUCTS = {
    "matmul": MATMUL,
    "linear": LINEAR,
    "min_plus": MIN_PLUS,
    "transposed": TRANSPOSED,
    "transposed_lhs": TRANSPOSED_LHS,
    "si8": SI8,
    "si32": SI32,
    "two_k": TWO_K,
    "two_k_symbolic": TWO_K_SYMBOLIC,
}

PACKED = """\
language 1
import "lib/gemm.tcps" as gemm
schedule main(root: func) {
  let mm = match one "mm" in root
  gemm.packed_gemm(mm, epilogue(mm))
}
"""
