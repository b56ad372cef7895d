"""Multiply and add with one rounding, in NumPy; the reference semantics of `tcp.fma`."""

from fractions import Fraction
from math import inf
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Float = TypeVar("Float", np.float32, np.float64)

_SPLITTER = 2.0**27 + 1
_LARGEST, _SMALLEST = 2.0**990, 2.0**-900
"""Algorithm 5 neither over- nor underflows where factors and sum are below the one, and the product above the other."""


def fused_multiply_add(a: Doubles, b: Doubles, c: Doubles, target: np.dtype[np.generic]) -> npt.NDArray[np.generic]:
    """a * b + c, rounded once to `target`, a float of at most 64 bits; the arguments hold values of `target`.

    Below f64 the product is exact in f64, and a sum rounded to odd rounds correctly again (Boldo and Melquiond,
    "Emulation of a FMA and correctly rounded sums", 2008). For f64 their algorithm 5 is used, and rational arithmetic
    where it might over- or underflow.
    """
    product = np.multiply(a, b)
    if target != np.float64:
        is_brain = target.itemsize == 2 and target != np.float16  # NumPy takes it from f64 by way of f32
        zeros = 44 if is_brain else 41 if target == np.float16 else 28
        total = _sum_to_round_again(product, c, zeros)
        return np.asarray(_odd_single(total) if is_brain else total).astype(target)
    is_factor = np.isfinite(a) & np.isfinite(b)  # else a product that overflows is no infinity
    plain = np.where(is_factor & np.isinf(c), c, np.add(product, c))
    low = _product_error(a, b, product)
    high_of_sum, low_of_sum = _two_sum(c, low)
    high, rest = _two_sum(product, high_of_sum)
    fused = np.add(high, _odd_sum(low_of_sum, rest))
    is_plain = ~(is_factor & np.isfinite(c)) | (a == 0) | (b == 0)
    is_zero = (fused == 0) & (plain == 0)  # of the sign that a sum of zeros has
    result = np.array(np.where(is_plain | is_zero, plain, fused))
    factors = np.maximum(np.abs(a), np.abs(b))
    is_extreme = (np.maximum(factors, np.abs(plain)) > _LARGEST) | (np.abs(product) < _SMALLEST)
    given = [np.ravel(x) for x in np.broadcast_arrays(a, b, c)]
    for k in np.flatnonzero(is_extreme & ~is_plain):
        result.reshape(-1)[k] = _exact(*(float(x[k]) for x in given))
    return result


def _exact(a: float, b: float, c: float) -> float:
    """a * b + c for finite numbers, in rational arithmetic."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return inf if exact > 0 else -inf


def _two_sum(x: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """x + y rounded, and the exact rest (Knuth)."""
    total = np.add(x, y)
    shadow = np.subtract(total, x)
    return total, np.add(np.subtract(x, np.subtract(total, shadow)), np.subtract(y, shadow))


def _odd_sum(x: Doubles, y: Doubles) -> Doubles:
    """x + y; if that is inexact, the neighbour whose last bit is 1."""
    return _to_odd(*_two_sum(x, y))


def _odd_single(x: Doubles) -> npt.NDArray[np.float32]:
    """x in f32; if that is inexact, the neighbour whose last bit is 1."""
    single = x.astype(np.float32)
    return _to_odd(single, np.subtract(x, single))


def _to_odd(rounded: npt.NDArray[Float], rest: Doubles) -> npt.NDArray[Float]:
    """What `rounded` is if the rest is 0 or no number; else that, or the neighbour on the side of the rest: the one
    whose last bit is 1."""
    bits = np.array(rounded).view(f"i{rounded.dtype.itemsize}")
    moves = (rest != 0) & np.isfinite(rest) & ((bits & 1) == 0)
    grows = (rest > 0) != np.signbit(rounded)
    np.add(bits, np.where(grows, 1, -1), out=bits, where=moves)
    return bits.view(rounded.dtype)


def _sum_to_round_again(x: Doubles, y: Doubles, zeros: int) -> Doubles:
    """x + y, rounded to odd where the rest might decide how it is rounded next: where as many trailing bits are 0 as
    in every number half-way between two of the type it is rounded to."""
    total = np.array(np.add(x, y))
    is_undecided = (total.view(np.int64) & ((1 << zeros) - 1)) == 0
    if is_undecided.any():
        x, y = np.broadcast_arrays(x, y)
        total[is_undecided] = _odd_sum(x[is_undecided], y[is_undecided])
    return total


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
