"""Payloads of whole-path tests: products of every kind that `packed_gemm` takes, and what they should give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.emit_c.kernel import Kernel
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.ir import Module
from tcpx.payload.types import dtype_of
from tests.guard_pages import run_guarded
from tests.tolerance import Bounded, assert_close

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tcp"
DIGITS_SCHEDULE = ROOT / "schedules" / "digits.tcps"
TARGETS = ("generic", "x86_avx2", "x86_avx512")


def _shared(name: str) -> str:
    """A text that is also measured."""
    return (ROOT / "benchmarks" / "payloads" / name).read_text(encoding="utf-8")


MATMUL = _shared("matmul.tcp")
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
MIN_PLUS = _shared("min_plus.tcp")
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
SIZES = ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (2, 5, 3), (7, 65, 130), (127, 17, 521), (13, 333, 517))
"""m, n, k: empty, unit, odd; beyond one register tile, one block of m, one panel of k."""
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
}

PACKED = _shared("packed.tcps")


def arguments(module: Module, sizes: Sizes, seed: int = 0) -> list[Array]:
    """Random arguments; integers are of the whole range of their dtype, floats from a normal distribution."""
    evaluation = Evaluation(module.constants, sizes)
    random = np.random.default_rng([seed, *sizes.values()])
    made: list[Array] = []
    for arg in module.main.args:
        shape, dtype = evaluation.shape(arg.type), dtype_of(arg.type).numpy
        if dtype.kind == "f":
            made.append(random.standard_normal(shape).astype(dtype))
        else:
            limits = np.iinfo(dtype.name)
            made.append(random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    return made


def _float_product(name: str, arrays: list[Array]) -> Bounded:
    x, w, *bias = (Bounded.of(a) for a in arrays)
    specs = {"transposed": "mk,nk->mn", "transposed_lhs": "km,kn->mn", "two_k": "mkj,kjn->mn"}
    made = x.einsum(specs.get(name, "mk,kn->mn"), w)
    return (made + bias[0]).relu() if bias else made


def check_product(name: str, kernel: Kernel, arrays: list[Array]) -> None:
    """Call a kernel, bound to the arrays too, and between guard pages: all must give what the payload says.

    Integer products wrap, and the minimum of sums is free of rounding beyond that of each sum: those are exact.
    """
    plain = np.asarray(kernel(*arrays))
    np.testing.assert_array_equal(plain, np.asarray(kernel.bind(*arrays)()))
    (guarded,) = run_guarded(kernel, *arrays)
    np.testing.assert_array_equal(plain, guarded)
    if name == "min_plus":
        x, w = arrays
        exact = np.min(x[:, :, None] + w[None], axis=1, initial=np.inf).astype(np.float32)
        np.testing.assert_array_equal(plain, exact)
    elif plain.dtype.kind == "i":
        x, w = (a.astype(np.int64) for a in arrays)
        np.testing.assert_array_equal(plain, (x @ w).astype(plain.dtype))
    else:
        assert_close(plain, _float_product(name, arrays), f"{name} {[a.shape for a in arrays]}")


def digits_reference(module: Module, x: Array) -> Bounded:
    """The digits network in float64, with the error that float32 may make."""

    def held(name: str) -> Array:
        array = module.constants.get(name)
        assert array is not None
        return array

    w1, b1, w2, b2, w3, b3 = (Bounded.of(held(n)) for n in ("w1", "b1", "w2", "b2", "w3", "b3"))
    hidden = (Bounded.of(x).matmul(w1) + b1).relu()
    hidden = (hidden.matmul(w2) + b2).relu()
    return (hidden.matmul(w3) + b3).softmax()


def load_digits() -> tuple[Module, tcpx.Schedule]:
    """The payload and its schedule, as they are shipped."""
    return tcpx.load(DIGITS), tcpx.load_schedule(DIGITS_SCHEDULE)
