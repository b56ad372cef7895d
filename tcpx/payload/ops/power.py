"""Powers of any base."""

from __future__ import annotations

from math import inf, nan
from typing import Final

import numpy as np

from tcpx.payload.evaluator import Array
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.arithmetic import InSinglePrecision, NumbersOnly
from tcpx.payload.ops.elementwise import Binary
from tcpx.payload.ops.exponential import Power, exp2_series
from tcpx.payload.ops.logarithm import exponent_and_fraction, is_unusual, usual_exponent_and_fraction
from tcpx.payload.ops.real_function import in_wider
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import dtype_of, f32, f64
from tcpx.records import frozen

LOG2_SERIES: Final = {
    f32: (0.9617982506752014, 0.5767565369606018, 0.4309007525444031),
    f64: (
        *(0.577078016355618, 0.41219858309195406, 0.32059890227106075, 0.26230770134221215, 0.2219839879055529),
        *(0.19125538709083414, 0.19038336000405803),
    ),
}
"""log2((1 + s) / (1 - s)) / s less its first coefficient, of f64 its first two, in s**2: minimax (Remez) for
|s| <= 0.1716, of the logarithm 2**-30.2, 2**-66.3."""
LOG2_FIRST: Final = {f32: (2.885390043258667, 3.851926067000022e-08), f64: (2.8853900817779268, 4.0710547481862066e-17)}
"""2 / ln 2 in two parts."""
LOG2_SECOND: Final = (0.9617966939259756, 5.0577616648125907e-17)
"""2 / (3 ln 2) in two parts, of f64."""


@frozen
class Twofold:
    """A number as the sum of two, of which the first is it, rounded (Dekker, 1971)."""

    high: Term
    low: Term

    @staticmethod
    def constant(term: Term, parts: tuple[float, float]) -> Twofold:
        return Twofold(term.constant(parts[0]), term.constant(parts[1]))

    @staticmethod
    def sum_of(greater: Term, smaller: Term) -> Twofold:
        """A sum with what rounding took from it."""
        total = greater + smaller
        return Twofold(total, smaller - (total - greater))

    def plus_smaller(self, other: Twofold) -> Twofold:
        """The sum with a number that is smaller, unless this one is 0."""
        total = Twofold.sum_of(self.high, other.high)
        return Twofold(total.high, total.low + (self.low + other.low))

    def times(self, other: Twofold) -> Twofold:
        high = self.high * other.high
        lost = self.high.fused(other.high, -high)
        return Twofold(high, self.high.times_plus(other.low, self.low.times_plus(other.high, lost)))


def log2_of_significand(f: Term) -> Twofold:
    """log2(1 + f) from -1/2 to 1/2: the series of s = f / (2 + f), its first term in two parts, of f64 two terms."""
    inverse = 1.0 / (f + 2.0)
    s = f * inverse
    ratio = Twofold(s, s.fused(-f, f - (s + s)) * inverse)  # f and 2 s are so near that their difference is exact
    high, low = LOG2_FIRST[f.dtype]
    if f.dtype == f32:
        square = s * ratio.low.times_plus(2.0, s)
        rest = square.times_plus(square.polynomial(LOG2_SERIES[f32]), low)
        return ratio.times(Twofold.sum_of(f.constant(high), rest))
    square = ratio.times(ratio)
    rest = square.high * square.high.polynomial(LOG2_SERIES[f64])
    second = Twofold.sum_of(f.constant(LOG2_SECOND[0]), rest + LOG2_SECOND[1])
    return ratio.times(Twofold.constant(f, (high, low)).plus_smaller(square.times(second)))


def log2_of_product(k: Term, f: Term) -> Twofold:
    """log2(2**k (1 + f)): with 5 bits more than f32 has, 9 more than f64."""
    made = log2_of_significand(f)
    total = Twofold.sum_of(k, made.high)
    return Twofold(total.high, total.low + made.low)


def log2_of_size(size: Term) -> Twofold:
    """The logarithm of any number that is not negative."""
    made = log2_of_product(*exponent_and_fraction(size))
    ends = size.equals(0.0).choose(-inf, size)
    is_inside = size.is_below(inf) & size.constant(0.0).is_below(size)
    return Twofold(is_inside.choose(made.high, ends), made.low)


@frozen
class Exponent:
    """An exponent of 2: the integer next to it, also in the low bits of the float `shifted`, and the rest."""

    whole: Term
    shifted: Term
    rest: Term

    @staticmethod
    def of(y: Term, logarithm: Twofold) -> Exponent:
        form = y.format
        shifted = y.times_plus(logarithm.high, form.magic)
        whole = shifted - form.magic
        return Exponent(whole, shifted, y.times_plus(logarithm.low, y.fused(logarithm.high, -whole)))

    def power(self) -> Power:
        return Power.of(self.rest.polynomial(exp2_series(self.whole.dtype)), self.shifted)

    def is_below(self, integer: float) -> Term:
        return ((self.whole - integer) + self.rest).is_below(0.0)

    def is_abnormal(self) -> Term:
        """Whether 2 to it may not be a normal number: it is not from 2 - bias to bias."""
        form, dtype = self.whole.format, self.whole.dtype
        least = int(np.array(form.magic, dtype.numpy).view(form.integers.numpy)) + (2 - form.bias)
        above = self.shifted.bits() - least
        return above.constant(2 * form.bias - 1).is_at_most(above)

    def number(self) -> Term:
        """2 to it, whatever it is."""
        form, power = self.whole.format, self.power()
        made = self.is_below(1.0 - form.bias).choose(power.subnormal(), power.normal())
        made = self.is_below(form.bias + 1.0).choose(made, self.whole + inf)
        return self.whole.is_below(-form.bias - form.fraction - 1.0).choose(0.0, made)


def power_of_any(x: Term, y: Term) -> Term:
    """x**y with all special cases."""
    size, half = abs(x), y * 0.5
    made = Exponent.of(y, log2_of_size(size)).number()
    made = (y.equals(0.0) | size.equals(1.0)).choose(1.0, made)
    whole = half.round().equals(half).choose(made, made.signed_as(x))
    is_undefined = x.is_below(0.0) & x.constant(-inf).is_below(x)
    return y.round().equals(y).choose(whole, is_undefined.choose(nan, made))


def usual_power(x: Term, y: Term) -> tuple[Term, Term]:
    """x**y of usual numbers, where the result is normal; and where it is not that."""
    exponent = Exponent.of(y, log2_of_product(*usual_exponent_and_fraction(x)))
    return exponent.power().normal(), is_unusual(x) | exponent.is_abnormal()


@register
class Pow(InSinglePrecision, Binary, NumbersOnly):
    """a to the power b. Floats follow C (Annex F) and IEEE 754: 1 if b is 0 or a is 1, even for NaN; NaN if a is below
    0 and b is not integral. Integers wrap around; for a negative b, the result is the integral part of 1 / a**-b, and 0
    if a is 0."""

    __slots__ = ()
    opcode = "tcp.pow"
    semantics = "pow(a, b)"

    def function(self, *args: Array) -> Array:
        a, b = args
        return in_wider(np.power, a, b) if dtype_of(self.result.type).is_float else integer_power(a, b)

    def expanded(self, build: Build, *args: Value) -> Value | None:
        """Of integers there is none: a target does that by squaring, one at a time."""
        if not dtype_of(self.result.type).is_float:
            return None
        x, y = (Term(build, a) for a in args)
        return x.branch(lambda x: usual_power(x, x.beside(y)), lambda x: power_of_any(x, x.beside(y))).value


def integer_power(a: Array, b: Array) -> Array:
    """By squaring, modulo two to the width."""
    made, square = np.ones_like(a), a
    for bit in range(a.dtype.itemsize * 8 - (a.dtype.kind == "i")):
        is_set = np.not_equal(np.bitwise_and(np.right_shift(b, bit), 1), 0)
        made = np.where(is_set, np.multiply(made, square), made)
        square = np.multiply(square, square)
    is_odd = np.not_equal(np.bitwise_and(b, 1), 0)
    of_unit = np.where(is_odd, a, np.multiply(a, a))  # its own reciprocal
    is_unit = np.equal(a, 1) | np.equal(np.add(a, 1), 0)
    return np.where(np.less(b, 0), np.where(is_unit, of_unit, 0), made).astype(a.dtype)
