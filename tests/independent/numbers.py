"""Numbers with a bound of their error: what a kernel may return for a program, by running error analysis.

A float is a value in extended precision and an absolute bound: any correct computation in the declared dtypes, with or
without FMA, in any order of summation, rounding between operations or not, is within it. An integer is exact, in its
own dtype, so that it wraps around as documented. A bound of 0 says that the result is determined bit for bit (but for
the sign of zero and the payload of NaN); an infinite one says that nothing is known, as after an overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
WIDE = np.longdouble

DTYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "si64": np.dtype(np.int64),
    "si32": np.dtype(np.int32),
    "si16": np.dtype(np.int16),
    "si8": np.dtype(np.int8),
    "ui64": np.dtype(np.uint64),
    "ui32": np.dtype(np.uint32),
    "ui16": np.dtype(np.uint16),
    "ui8": np.dtype(np.uint8),
    "i1": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
}
FLOATS = ("f64", "f32", "f16", "bf16")
SIGNED = ("si64", "si32", "si16", "si8", "index")
UNSIGNED = ("ui64", "ui32", "ui16", "ui8")
UNIT = {"f64": 2.0**-53 + 2.0**-64, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""Half the distance from 1 to the next number; of f64, with the rounding of the reference itself."""
TINY = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
"""The least positive number: what a rounding near zero may be off by."""


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def largest(dtype: str) -> float:
    return float(ml_dtypes.finfo(DTYPES[dtype]).max)


def int_range(dtype: str) -> tuple[int, int]:
    info = np.iinfo(DTYPES[dtype])
    return int(info.min), int(info.max)


def gamma(dtype: str, roundings: Any) -> Any:
    """The relative error of so many roundings; infinite where the analysis says nothing."""
    part = roundings * UNIT[dtype]
    return np.where(part < 1, part / np.where(part < 1, 1 - part, 1), np.inf)


@dataclass(frozen=True)
class Num:
    """An array of `dtype`: values, and how far a kernel may be off."""

    dtype: str
    value: Array
    error: Array

    @staticmethod
    def exact(dtype: str, array: Array) -> Num:
        value = array.astype(np.float64).astype(WIDE) if is_float(dtype) else array.astype(DTYPES[dtype])
        return Num(dtype, value, np.zeros(array.shape, np.float64))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    def size_of(self) -> Array:
        """The largest magnitude that an element may have."""
        return np.abs(self.value.astype(WIDE)) + self.error

    def at(self, index: Any) -> Num:
        return Num(self.dtype, self.value[index], self.error[index])


def representable(dtype: str, value: Array) -> Array:
    """Where a value in extended precision is a number of the dtype; of f64 only integers, as that precision is near."""
    with np.errstate(all="ignore"):
        if dtype == "f64":
            return (value == np.rint(value)) & (np.abs(value) < 2**53)
        return value.astype(np.float64).astype(DTYPES[dtype]).astype(np.float64).astype(WIDE) == value


def rounded(dtype: str, value: Array, error: Any, certain: Array, roundings: float = 1, exact: Any = False) -> Num:
    """The result of a float operation: `error` carried over from its operands, then rounded `roundings` times.

    `certain` is where all operands are free of error; `exact` where the result then is too, if it is a number.
    """
    with np.errstate(all="ignore"):
        reach = np.abs(value) + error
        bound = error + gamma(dtype, roundings) * reach + TINY[dtype]
        bound = np.where(np.isnan(bound) | (np.abs(value) + bound > largest(dtype)), np.inf, bound)
        bound = np.where(certain & exact & representable(dtype, value), 0.0, bound)
        # An infinity or NaN of certain operands is one in every order, unless finite numbers overflowed on the way.
        bound = np.where(~np.isfinite(value), np.where(certain, 0.0, np.inf), bound)
    return Num(dtype, np.asarray(value, WIDE), np.asarray(bound, np.float64))


def wrapped(dtype: str, value: Any, certain: Any) -> Num:
    """The result of an integer operation: exact, or not known."""
    return Num(dtype, np.asarray(value, DTYPES[dtype]), np.where(certain, 0.0, np.inf))


def interval(num: Num, function: Any, dtype: str) -> Num:
    """A monotone function without rounding of its own: the bound is that of the ends of the interval."""
    with np.errstate(all="ignore"):
        value = function(num.value)
        low, high = function(num.value - num.error), function(num.value + num.error)
        off = np.maximum(np.abs(high.astype(WIDE) - value.astype(WIDE)), np.abs(value.astype(WIDE) - low.astype(WIDE)))
        unknown = np.isnan(off) | ~np.isfinite(num.value.astype(WIDE))
        off = np.where(num.error == 0, 0.0, np.where(unknown, np.inf, off))
    return Num(dtype, value, np.asarray(off, np.float64))


# ---------------------------------------------------------------- casts


def cast(num: Num, dtype: str) -> Num:
    """`tcp.cast`: float to integer truncates and saturates, NaN is 0; integers wrap around; f16 and bf16 by f32."""
    if dtype == num.dtype:
        return num
    if is_float(dtype):
        return _to_float(num, dtype)
    if dtype == "i1":
        value = num.value != 0
        unsure = (num.error > 0) & ~(np.abs(num.value.astype(WIDE)) > num.error)
        return Num("i1", value, np.where(unsure, np.inf, 0.0))
    if is_float(num.dtype):
        return interval(num, lambda v: _saturated(v, dtype), dtype)
    return Num(dtype, num.value.astype(DTYPES[dtype]), np.where(num.error == 0, 0.0, np.inf))


def _saturated(value: Array, dtype: str) -> Array:
    low, high = int_range(dtype)
    cut = np.trunc(np.where(np.isnan(value), 0, value))
    inside = (cut >= low) & (cut <= high)
    signed = np.where(inside, cut, 0).astype(np.uint64 if dtype == "ui64" else np.int64).astype(DTYPES[dtype])
    ends = np.where(cut > high, DTYPES[dtype].type(high), DTYPES[dtype].type(low))
    return np.where(inside, signed, ends).astype(DTYPES[dtype])


def _to_float(num: Num, dtype: str) -> Num:
    with np.errstate(all="ignore"):
        narrow = num.value.astype(np.float64) if is_float(num.dtype) else num.value
        if dtype != "f64":
            narrow = narrow.astype(np.float32)
        exact = narrow.astype(DTYPES[dtype]).astype(np.float64).astype(WIDE)
    wide = num.value.astype(WIDE)
    loose = rounded(dtype, wide, num.error, num.error == 0, 1 if dtype in {"f64", "f32"} else 2)
    certain = num.error == 0
    return Num(dtype, np.where(certain, exact, wide), np.where(certain, 0.0, loose.error))


# ---------------------------------------------------------------- elementwise operations


def _certain(*nums: Num) -> Array:
    found: Any = True
    for num in nums:
        found = found & (num.error == 0)
    return np.asarray(found)


def add(a: Num, b: Num, sign: int = 1) -> Num:
    if not is_float(a.dtype):
        if a.dtype == "i1":
            return wrapped("i1", a.value | b.value, _certain(a, b))
        value = a.value + b.value if sign > 0 else a.value - b.value
        return wrapped(a.dtype, value, _certain(a, b))
    value = a.value + sign * b.value
    return rounded(a.dtype, value, a.error + b.error, _certain(a, b), exact=True)


def sub(a: Num, b: Num) -> Num:
    return add(a, b, -1)


def mul(a: Num, b: Num) -> Num:
    if not is_float(a.dtype):
        return wrapped(a.dtype, a.value & b.value if a.dtype == "i1" else a.value * b.value, _certain(a, b))
    carried = np.abs(a.value) * b.error + a.error * b.size_of()
    return rounded(a.dtype, a.value * b.value, carried, _certain(a, b), exact=True)


def div(a: Num, b: Num) -> Num:
    least = np.abs(b.value) - b.error
    carried = np.where(least > 0, (a.error + np.abs(a.value / b.value) * b.error) / least, np.inf)
    carried = np.where(_certain(a, b), 0.0, carried)
    return rounded(a.dtype, a.value / b.value, carried, _certain(a, b), exact=True)


def fma(a: Num, b: Num, c: Num) -> Num:
    """One rounding, so the bound is one of the result, not of the product. The reference rounds the sum as well."""
    product = a.value * b.value
    carried = np.abs(a.value) * b.error + a.error * b.size_of() + c.error
    own = 2.0**-63 * (np.abs(product) + np.abs(c.value)) if a.dtype == "f64" else 0.0
    own = np.where(np.isfinite(product), own, 0.0)
    return rounded(a.dtype, product + c.value, carried + own, _certain(a, b, c), exact=a.dtype != "f64")


def _pick(a: Num, b: Num, which: Any) -> Num:
    value = which(a.value, b.value)
    error = np.where(_certain(a, b), 0.0, np.maximum(a.error, b.error))
    if is_float(a.dtype):
        nan = (np.isnan(a.value) & (a.error == 0)) | (np.isnan(b.value) & (b.error == 0))
        error = np.where(nan, 0.0, np.where(np.isfinite(value) | _certain(a, b), error, np.inf))
    elif a.dtype == "i1":
        error = np.where(_certain(a, b), 0.0, np.inf)
    return Num(a.dtype, value, error)


def maximum(a: Num, b: Num) -> Num:
    return _pick(a, b, np.maximum)


def minimum(a: Num, b: Num) -> Num:
    return _pick(a, b, np.minimum)


def less(a: Num, b: Num) -> Num:
    if not is_float(a.dtype):
        return wrapped("i1", a.value < b.value, _certain(a, b))
    nan = (np.isnan(a.value) & (a.error == 0)) | (np.isnan(b.value) & (b.error == 0))
    sure = _certain(a, b) | nan | (np.abs(a.value - b.value) > a.error + b.error)
    return Num("i1", a.value < b.value, np.where(sure, 0.0, np.inf))


def select(c: Num, a: Num, b: Num) -> Num:
    value, error = np.where(c.value, a.value, b.value), np.where(c.value, a.error, b.error)
    apart = np.abs(a.value.astype(WIDE) - b.value.astype(WIDE)) + np.maximum(a.error, b.error)
    apart = np.where(np.isnan(apart), np.inf, apart)
    return Num(a.dtype, value.astype(a.value.dtype), np.where(c.error == 0, error, apart).astype(np.float64))


def exp(a: Num) -> Num:
    value = np.exp(a.value)
    return rounded(a.dtype, value, value * np.expm1(a.error), _certain(a), 4)


def round_even(a: Num) -> Num:
    found = interval(a, np.rint, a.dtype)
    bad = ~np.isfinite(found.value) & (a.error > 0)
    return Num(a.dtype, found.value, np.where(bad, np.inf, found.error))


def scale2(a: Num, b: Num) -> Num:
    """a * 2**b for a b that is an integer; overflow is infinity."""
    known = (b.error == 0) & np.isfinite(b.value) & (b.value == np.rint(b.value))
    scale = np.exp2(np.clip(np.where(known, b.value, 0), -8000, 8000))
    value = a.value * scale
    carried = np.where(known, np.where(a.error == 0, 0.0, a.error * scale), np.inf)
    found = rounded(a.dtype, value, carried, _certain(a) & known, exact=True)
    over = known & (a.error == 0) & (np.abs(value) >= largest(a.dtype) * (1 + UNIT[a.dtype]))
    return Num(a.dtype, np.where(over, np.copysign(np.inf, value), found.value), np.where(over, 0.0, found.error))


# ---------------------------------------------------------------- activations: fast, with errors that are documented


def _erf(value: Array) -> Array:
    from math import erf

    return np.asarray(np.vectorize(erf, otypes=[np.float64])(value.astype(np.float64))).astype(WIDE)


def _activation(a: Num, value: Array, slope: float, own: Any) -> Num:
    """A smooth function with a bounded slope, computed with an error of its own."""
    error = slope * a.error + own
    bound = rounded(a.dtype, value, np.where(a.error == np.inf, np.inf, error), np.zeros(a.shape, bool), 2).error
    bound = np.where(np.isnan(a.value) & (a.error == 0), 0.0, bound)
    return Num(a.dtype, value, np.where(np.isinf(a.value), np.inf, bound))


def sigmoid(a: Num) -> Num:
    value = 1 / (1 + np.exp(-a.value))
    return _activation(a, value, 0.25, 4e-6 * value + float(ml_dtypes.finfo(DTYPES[a.dtype]).tiny))


def silu(a: Num) -> Num:
    value = a.value / (1 + np.exp(-a.value))
    return _activation(a, value, 1.1, 4e-6 * a.size_of())


def gelu(a: Num, approximate: bool) -> Num:
    v = a.value
    if approximate:
        inner = np.sqrt(WIDE(2) / WIDE(np.pi)) * (v + WIDE(0.044715) * v**3)
        value = v * (1 + np.tanh(inner)) / 2
    else:
        value = v * (1 + _erf(v / np.sqrt(WIDE(2)))) / 2
    return _activation(a, value, 1.13, 1.5e-4)


# ---------------------------------------------------------------- sums and other combinations


def _sum(terms: Num, axes: tuple[int, ...]) -> Num:
    dtype = terms.dtype
    certain = (terms.error == 0).all(axis=axes)
    if not is_float(dtype):
        if dtype == "i1":
            return wrapped("i1", terms.value.any(axis=axes), certain)
        return wrapped(dtype, terms.value.sum(axis=axes, dtype=DTYPES[dtype]), certain)
    count = int(np.prod([terms.shape[k] for k in axes], dtype=np.int64))
    value = terms.value.sum(axis=axes)
    reach = terms.size_of().sum(axis=axes)
    error = terms.error.sum(axis=axes) + gamma(dtype, count + 1) * reach + TINY[dtype] * (count + 1)
    whole = (terms.value == np.rint(terms.value)).all(axis=axes) & (reach <= 1 / UNIT[dtype])
    error = np.where(certain & whole, 0.0, error)
    error = np.where(np.isnan(error) | (reach > largest(dtype)), np.inf, error)
    error = np.where(np.isfinite(value), error, np.where(certain, 0.0, np.inf))
    return Num(dtype, value, error.astype(np.float64))


def _product(terms: Num, axes: tuple[int, ...]) -> Num:
    dtype = terms.dtype
    certain = (terms.error == 0).all(axis=axes)
    if not is_float(dtype):
        if dtype == "i1":
            return wrapped("i1", terms.value.all(axis=axes), certain)
        return wrapped(dtype, terms.value.prod(axis=axes, dtype=DTYPES[dtype]), certain)
    count = int(np.prod([terms.shape[k] for k in axes], dtype=np.int64))
    value, size = terms.value.prod(axis=axes), terms.size_of()
    reach = size.prod(axis=axes)
    most = np.maximum(size, 1).prod(axis=axes)
    error = reach - np.abs(value) + gamma(dtype, count + 1) * reach + TINY[dtype] * (count + 1) * most
    error = np.where(np.isnan(error) | (most > largest(dtype)), np.inf, error)
    nan = (np.isnan(terms.value) & (terms.error == 0)).any(axis=axes)
    return Num(dtype, value, np.where(nan, 0.0, error).astype(np.float64))


def _extreme(terms: Num, axes: tuple[int, ...], which: Any, neutral: Any) -> Num:
    dtype = terms.dtype
    value = which.reduce(terms.value, axis=axes, initial=neutral)
    error = np.where((terms.error == 0).all(axis=axes), 0.0, terms.error.max(axis=axes, initial=0.0))
    if is_float(dtype):
        nan = (np.isnan(terms.value) & (terms.error == 0)).any(axis=axes)
        error = np.where(nan, 0.0, np.where(np.isfinite(value) | (error == 0), error, np.inf))
    elif dtype == "i1":
        error = np.where(error == 0, 0.0, np.inf)
    return Num(dtype, value, error)


def reduce(terms: Num, axes: tuple[int, ...], combiner: str) -> Num:
    """Join all elements along some axes, from the neutral element of the combiner on."""
    if not axes:
        return terms
    if combiner == "add":
        return _sum(terms, axes)
    if combiner == "mul":
        return _product(terms, axes)
    if is_float(terms.dtype):
        least, most = WIDE(-np.inf), WIDE(np.inf)
    elif terms.dtype == "i1":
        least, most = np.bool_(False), np.bool_(True)
    else:
        least, most = (DTYPES[terms.dtype].type(v) for v in int_range(terms.dtype))
    return _extreme(terms, axes, np.maximum, least) if combiner == "max" else _extreme(terms, axes, np.minimum, most)


def reach(terms: Num, axes: tuple[int, ...]) -> Num:
    """The sum of the magnitudes along some axes."""
    total = np.asarray(terms.size_of().sum(axis=axes))
    return Num("f64", total, np.zeros(total.shape, np.float64))


COMBINE = {"add": add, "mul": mul, "max": maximum, "min": minimum}


def flushed_products(a: Num, b: Num, terms: Num, axes: tuple[int, ...]) -> Array:
    """What dot products of bf16 may add to the error, which take denormals for 0 and give 0 for them."""
    count = int(np.prod([terms.shape[k] for k in axes], dtype=np.int64))
    both = np.broadcast_to(a.size_of() + b.size_of(), terms.shape).sum(axis=axes)
    return (2.0**-126 * (both + 2 * count)).astype(np.float64)


def softmax(a: Num, axis: int) -> Num:
    """exp(x - max) / sum: an error of x is a relative one of its exponential."""
    dtype = a.dtype
    if a.shape[axis] == 0:
        return a
    peak = a.value.max(axis=axis, keepdims=True)
    shifted = a.value - peak
    made = np.exp(shifted)
    slip = a.error + a.error.max(axis=axis, keepdims=True) + gamma(dtype, 1) * np.abs(shifted) + TINY[dtype]
    each = np.expm1(slip) + gamma(dtype, 4)
    total = each.max(axis=axis, keepdims=True) + gamma(dtype, a.shape[axis])
    relative = np.where(total < 0.5, (1 + each) / (1 - np.minimum(total, 0.5)) * (1 + gamma(dtype, 2)) - 1, np.inf)
    value = made / made.sum(axis=axis, keepdims=True)
    error = value * relative + float(ml_dtypes.finfo(DTYPES[dtype]).tiny)
    error = np.minimum(error, np.where(np.isfinite(a.value).all(axis=axis, keepdims=True), np.inf, np.nan))
    return Num(dtype, value, np.where(np.isnan(error), np.inf, error).astype(np.float64))


ELEMENTWISE = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "max": maximum,
    "min": minimum,
    "fma": fma,
    "less": less,
    "select": select,
    "exp": exp,
    "round": round_even,
    "scale2": scale2,
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": lambda a: gelu(a, False),
    "gelu_tanh": lambda a: gelu(a, True),
}


def mismatch(found: Array, wanted: Num) -> str | None:
    """What is wrong with an array that was computed, or None; where the bound is infinite, anything goes."""
    if found.shape != wanted.shape or found.dtype != DTYPES[wanted.dtype]:
        return f"required {DTYPES[wanted.dtype]}{wanted.shape}, found {found.dtype}{found.shape}"
    with np.errstate(all="ignore"):
        if is_float(wanted.dtype):
            wide = found.astype(np.float64).astype(WIDE)
            same = (wide == wanted.value) | (np.isnan(wide) & np.isnan(wanted.value))
        else:
            wide = found.astype(WIDE)
            same = found == wanted.value
        near = np.abs(wide - wanted.value.astype(WIDE)) <= wanted.error
    wrong = ~(same | near | ~np.isfinite(wanted.error))
    if not wrong.any():
        return None
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {found.size} elements are off; at {list(at)} found {found[at]!r}, "
        f"required {wanted.value[at]!r} +- {float(wanted.error[at]):.3g}"
    )
