"""Multiply and add with one rounding, in NumPy; the reference semantics of `tcp.fma`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_SPLITTER = 2.0**27 + 1
_BELOW_SINGLE = 2**29 - 1


def fused_multiply_add(a: Doubles, b: Doubles, c: Doubles, target: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """a * b + c, rounded once to `target`; the arguments hold values of `target`.

    Below f64 the product is exact in f64, and a sum rounded to odd rounds correctly again (Boldo and Melquiond,
    "Emulation of a FMA and correctly rounded sums", 2008). For f64 their algorithm 5 is used; where a partial product
    over- or underflows it falls back to two roundings, which also give a zero its sign.
    """
    product = np.multiply(a, b)
    if target != np.float64:
        total = _odd_sum(product, c)
        return np.asarray(_odd_single(total) if target.itemsize == 2 and target != np.float16 else total).astype(target)
    plain = np.add(product, c)
    low = _product_error(a, b, product)
    high_of_sum, low_of_sum = _two_sum(c, low)
    high, rest = _two_sum(product, high_of_sum)
    fused = np.add(high, _odd_sum(low_of_sum, rest))
    is_zero = (fused == 0) & (plain == 0)
    return np.asarray(np.where(np.isfinite(fused) & np.isfinite(low) & ~is_zero, fused, plain))


def _two_sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """x + y rounded, and the exact rest (Knuth)."""
    total = np.add(x, y)
    shadow = np.subtract(total, x)
    return total, np.add(np.subtract(x, np.subtract(total, shadow)), np.subtract(y, shadow))


def _odd_sum(x: Doubles, y: Doubles) -> Doubles:
    """x + y; if that is inexact, the neighbour whose last bit is 1."""
    total, rest = _two_sum(x, y)
    total = np.ascontiguousarray(total)
    even = (total.view(np.int64) & 1) == 0
    towards = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & np.isfinite(rest) & even, towards, total).reshape(np.shape(x))


def _odd_single(x: Doubles) -> Doubles:
    """x with the 24 leading bits, the last one set if others were: no later rounding is off by what passes f32."""
    bits = np.ascontiguousarray(x).view(np.int64)
    kept = np.where((bits & _BELOW_SINGLE) != 0, (bits & ~_BELOW_SINGLE) | (_BELOW_SINGLE + 1), bits)
    return np.where(np.isfinite(x), kept.view(np.float64).reshape(np.shape(x)), x)


def _product_error(a: Doubles, b: Doubles, product: Doubles) -> Doubles:
    """a * b - product, exactly (Dekker)."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    error = np.subtract(np.multiply(a_high, b_high), product)
    error = np.add(np.add(error, np.multiply(a_high, b_low)), np.multiply(a_low, b_high))
    return np.add(error, np.multiply(a_low, b_low))


def _halves(x: Doubles) -> tuple[Doubles, Doubles]:
    """x as two numbers of half its precision (Veltkamp)."""
    scaled = np.multiply(_SPLITTER, x)
    high = np.subtract(scaled, np.subtract(scaled, x))
    return high, np.subtract(x, high)
