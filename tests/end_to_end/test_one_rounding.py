"""`tcp.fma` rounds once, in every dtype and on every target; products of the library pay nothing for it."""

from __future__ import annotations

from collections.abc import Iterator
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


def hard_halves(dtype: str, count: int) -> Iterator[list[npt.NDArray[Any]]]:
    """Any bits; sums that cancel, are ties, or are next to one by the least numbers, of all sizes."""
    random, target, seeds = np.random.default_rng(23), np.dtype(DTYPES[dtype]), range(3)
    m, sizes, least = (10, (-8, 0, 8), -24) if dtype == "f16" else (7, (-130, -126, -100, -60, -30, 0, 60), -133)
    yield [random.integers(0, 1 << 16, count).astype(np.uint16).view(target) for _ in range(3)]
    for size in sizes:
        for _ in seeds:
            a, b = (1 + random.integers(0, 1 << m, count) * 2.0**-m for _ in range(2))
            a = np.ldexp(a, size) * random.choice([-1, 1], count)
            product = a * b
            unit = np.ldexp(1.0, np.frexp(product)[1] - 1 - m)
            tie = (np.round(product / unit + 0.5) - 0.5) * unit - product
            tiny = np.ldexp(random.choice([-1.0, 1.0], count), random.integers(least, -20, count))
            other = np.ldexp(product, random.integers(-30, 9, count)) * random.choice([-1, 1], count)
            for c in (tie, tiny, other, -product * (1 + random.integers(-3, 4, count) * 2.0**-m)):
                with np.errstate(over="ignore"):
                    yield [x.astype(target) for x in (a, b, c)]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_in_vectors(dtype: str, target: Target) -> None:
    """Computed in f32, every bit is that of the evaluator."""
    program = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) {\n  let r = match one fma in root\n"
        "  let i = tile(r, [d0: lanes(dtype(r.out))], tail: pad)\n  vectorize(i)\n}\n"
    )
    kernel = tcpx.compile(payload(dtype), program, target=target)
    differ = 0
    for arrays in hard_halves(dtype, 1001):
        with np.errstate(all="ignore"):
            wanted = np.asarray(tcpx.evaluate(payload(dtype), *arrays))
            twice = np.asarray(arrays[0] * arrays[1] + arrays[2])
        found = np.asarray(kernel(*arrays))
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))
        differ += np.count_nonzero(twice != wanted)
    assert differ > 100, "two roundings pass as well"
