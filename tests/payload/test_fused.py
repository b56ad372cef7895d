"""One rounding: against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ml_dtypes import finfo

from tcpx.payload.fused import fused_multiply_add
from tcpx.payload.types import ScalarType, bf16, f16, f32, f64


def nearest(exact: Fraction, near: float, dtype: np.dtype[np.generic]) -> float:
    """The value of `dtype` nearest to `exact`, ties to an even last bit, searched around `near`."""
    bits = np.array(near, dtype).view(f"i{dtype.itemsize}")
    found = [(bits + k).astype(bits.dtype).view(dtype) for k in (-1, 0, 1)]
    found = [v for v in found if np.isfinite(v)]
    return float(min(found, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(bits.dtype)) & 1)))


@pytest.mark.parametrize("dtype", [bf16, f16, f32, f64], ids=str)
def test_rounds_once(dtype: ScalarType) -> None:
    target = dtype.numpy
    random = np.random.default_rng(1)
    a, b = (random.uniform(1, 2, 1000).astype(target).astype(np.float64) for _ in range(2))
    exponents = random.integers(-30, 4, 1000) if target.itemsize > 2 else random.integers(-8, 4, 1000)
    c = (random.choice([-1, 1], 1000) * random.uniform(1, 2, 1000) * 2.0**exponents).astype(target).astype(np.float64)
    near = -np.multiply(a, b)
    c[::3] = near[::3].astype(target).astype(np.float64)
    fused = fused_multiply_add(a, b, c, target)
    assert fused.dtype == target
    for k in range(1000):
        exact = Fraction(a[k]) * Fraction(b[k]) + Fraction(c[k])
        assert float(fused[k]) == nearest(exact, float(fused[k]), target), (a[k], b[k], c[k])


@pytest.mark.parametrize("dtype", [bf16, f16, f32, f64], ids=str)
def test_rounds_once_at_both_ends_of_the_range(dtype: ScalarType) -> None:
    """Products near the smallest and the largest number, sums that leave the range, that come back or that cancel."""
    target, count = dtype.numpy, 3000
    limits, random = finfo(target), np.random.default_rng(2)
    low, high = int(limits.minexp) - int(limits.nmant), int(limits.maxexp)
    first = random.integers(low // 2, high // 2, count)
    second = np.where(random.integers(0, 2, count) == 0, low, high) + random.integers(-3, 4, count) - first
    third = first + second + random.integers(-4, 3, count)
    with np.errstate(all="ignore"):
        parts = [np.ldexp(random.uniform(1, 2, count), e) for e in (first, second, np.minimum(third, high))]
        a, b, c = (np.where(np.isfinite(x.astype(target)), x.astype(target), limits.max) for x in parts)
        a, b, c = (x.astype(np.float64) for x in (a, b, -c * random.choice([-1, 1, 1], count).astype(target)))
        near = np.multiply(a, b).astype(target).astype(np.float64)
        c[::4] = np.where(np.isfinite(near), -near, c)[::4]
        fused = fused_multiply_add(a, b, c, target)
    finite = infinite = small = 0
    for k in range(count):
        exact, got = Fraction(a[k]) * Fraction(b[k]) + Fraction(c[k]), float(fused[k])
        if np.isinf(got):
            infinite += 1
            half = Fraction(float(limits.max)) - Fraction(float(np.nextafter(limits.max, target.type(0))))
            assert abs(exact) >= Fraction(float(limits.max)) + half / 2, (a[k], b[k], c[k])
            assert (got > 0) == (exact > 0)
        else:
            finite += 1
            small += 0 < abs(exact) < Fraction(float(limits.smallest_normal))
            assert got == nearest(exact, got, target), (a[k], b[k], c[k])
    assert min(finite, infinite, small) > 200


@pytest.mark.parametrize(
    ("target", "largest", "smallest"),
    [
        (np.float16, 65504.0, 2.0**-14),
        (np.float32, 3.4028234663852886e38, 2.0**-126),
        (np.float64, 1.7e308, 2.0**-1022),
    ],
)
def test_special_values(target: type[np.floating], largest: float, smallest: float) -> None:
    dtype = np.dtype(target)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, largest, smallest]).astype(dtype).astype(np.float64)
    a, b, c = (x.reshape(-1) for x in np.meshgrid(values, values, values))
    with np.errstate(all="ignore"):
        fused = fused_multiply_add(a, b, c, dtype)
        plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c).astype(dtype)
    np.testing.assert_array_equal(np.isnan(fused), np.isnan(plain))
    np.testing.assert_allclose(fused.astype(np.float64), plain.astype(np.float64), rtol=1e-6)
    assert fused_multiply_add(np.array(2.0), np.array(3.0), np.array(4.0), dtype)[()] == 10


@pytest.mark.parametrize("target", [np.float64, np.float32])
def test_the_sign_of_zero(target: type[np.floating]) -> None:
    a, b, c = np.array([0.0, 1, -1, 0, -1, 2]), np.array([-0.0, -0.0, -0.0, 0, 1, -1]), np.array([-0.0] * 4 + [1, 2])
    assert [*np.signbit(fused_multiply_add(a, b, c, np.dtype(target)))] == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("dtype", "a", "b"),
    [(f32, 97, 172961), (f32, 1549, 10831), (f16, 3, 683), (f16, 7, 293), (bf16, 7, 37), (bf16, 9, 29)],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_product_between_two_numbers_goes_the_way_of_a_small_addend(
    dtype: ScalarType, a: int, b: int, sign: int
) -> None:
    """In f64 the sum is the product, the middle between two numbers: rounded again, it would go to the even one."""
    tiny = 2.0**-24 if dtype == f16 else 2.0**-100
    addends = np.array([tiny, -tiny])
    found = fused_multiply_add(np.full(2, float(sign * a)), np.full(2, float(b)), addends, dtype.numpy)
    assert [*found.astype(np.float64)] == [sign * a * b + 1, sign * a * b - 1]
