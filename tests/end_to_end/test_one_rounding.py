"""`tcp.fma` rounds once, in every dtype and on every target; products of the library pay nothing for it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.target import Target

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
COUNT = 203
"""No multiple of a vector: tails are scalars or masked."""


def payload(dtype: str) -> tcpx.Module:
    type_ = f"tensor<[N]x{dtype}>"
    header = f"func @fused_{dtype}(%a: {type_}, %b: {type_}, %c: {type_}) -> {type_} symbols [N]"
    return tcpx.parse(f"{header} {{\n  %r = tcp.fma(%a, %b, %c) : {type_}\n  tcp.return(%r)\n}}")


def near_cancellation(dtype: str) -> list[npt.NDArray[Any]]:
    """Products of which an addend leaves only the last bits, that it pushes just past a tie, or that it dominates."""
    random, target = np.random.default_rng(5), np.dtype(DTYPES[dtype])
    bits = ml_dtypes.finfo(target).nmant
    a, b = (random.uniform(1, 2, COUNT).astype(target) for _ in range(2))
    c = -(a * b)
    a[1::3], b[1::3] = 1 + 2.0 ** -((bits + 1) // 2), 1 + 2.0 ** -(bits + 1 - (bits + 1) // 2)
    c[1::3] = random.choice([-1, 1], len(c[1::3])) * 2.0 ** -(24 if dtype == "f16" else 100)
    c[2::3] = np.ldexp(random.uniform(-1, 1, len(c[2::3])), random.integers(-bits - 3, 2, len(c[2::3])))
    return [a, b, c]


def test_one_rounding(target: Target) -> None:
    kernels = tcpx.compile_many([tcpx.CompileRequest(payload(dtype)) for dtype in DTYPES], target=target)
    for dtype, kernel in zip(DTYPES, kernels, strict=True):
        a, b, c = near_cancellation(dtype)
        got = np.asarray(kernel(a, b, c))
        wanted = np.asarray(tcpx.evaluate(payload(dtype), a, b, c))
        np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64), dtype)
        twice = np.asarray(a * b + c)
        assert np.count_nonzero(twice != wanted) > 20, f"{dtype}: two roundings pass as well"
        exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
        for k in range(COUNT):
            beside = (np.nextafter(got[k], got.dtype.type(side)) for side in (-np.inf, np.inf))
            error = abs(Fraction(float(got[k])) - exact[k])
            assert all(error <= abs(Fraction(float(x)) - exact[k]) for x in beside), f"{dtype}: {a[k]}, {b[k]}, {c[k]}"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_issues_example(dtype: str, target: Target) -> None:
    scale = {"f32": 12, "f64": 27}[dtype]
    a = np.full(5, 1 + 2.0**-scale, DTYPES[dtype])
    kernel = tcpx.compile(payload(dtype), target=target)
    assert np.asarray(kernel(a, a, -(a * a))).tolist() == [2.0 ** (-2 * scale)] * 5


def test_no_product_calls_the_library() -> None:
    """Without an instruction, what lowering fuses is a product and a sum: the library's fma takes ten times as long."""
    text = """func @f(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %y = tcp.matmul(%x, %w) : tensor<64x64xf32>
      %z = tcp.silu(%y) : tensor<64x64xf32>
      tcp.return(%z)
    }"""
    assert "fma" not in tcpx.compile(tcpx.parse(text), target="generic").c_source
