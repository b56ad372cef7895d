"""Logarithms."""

from __future__ import annotations

from math import inf, log, log10, nan
from typing import Final

import numpy as np

from tcpx.payload.ir import register
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.exponential import LN2
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term, split
from tcpx.payload.types import f32, f64

ROOT_HALF: Final = {f32: 0x3F3504F3, f64: 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2): significands lie between it and its double."""
LOG_SERIES: Final = {
    f32: (
        *(0.3333333134651184, -0.2500081956386566, 0.20001228153705597, -0.1662335842847824, 0.1420173943042755),
        *(-0.13160157203674316, 0.12761686742305756, -0.07634684443473816),
    ),
    f64: (
        *(0.33333333333333454, -0.2499999999999892, 0.19999999999946136, -0.16666666666914337, 0.14285714293841073),
        *(-0.12499999982023931, 0.11111110516064347, -0.10000000383037337, 0.09090933505080043, -0.08333345766783491),
        *(0.07691714488950367, -0.07141999957810946, 0.06675147992246143, -0.06269802259111892, 0.05817782925757713),
        *(-0.05326773043437965, 0.054159550527695, -0.0627504956217869, 0.05696898861658098, -0.024276365225903086),
    ),
}
"""(log(1 + f) - f + f**2 / 2) / f**3 where 1 + f is such a significand: minimax (Remez) for the relative error of the
logarithm, 2**-27.3 and 2**-59.3."""

LOG_RATIO_SERIES: Final = {
    10: (
        *(0.4342944920063019, -0.21714721620082855, 0.14476636052131653, -0.10857988148927689, 0.08672187477350235),
        *(-0.07200416922569275, 0.06459543853998184, -0.061829887330532074, 0.03804050758481026),
    ),
    2: (
        *(1.4426950216293335, -0.7213473916053772, 0.48090896010398865, -0.3607005774974823, 0.2879534959793091),
        *(-0.2390148788690567, 0.21548081934452057, -0.20678715407848358, 0.12584272027015686),
    ),
}
"""The logarithm of 1 + f to a base, over f, for such significands of f32: minimax, 2**-24.7 and 2**-25.1."""


def significand(x: Term) -> tuple[Term, Term]:
    """k and m with 2**k m = x, x a positive number that is not subnormal, m from sqrt(1/2) to its double; k is biased
    and in the low bits of a float of which the exponent says that its last bit is 1."""
    form = x.format
    bits = x.bits() + (form.bits(0) - ROOT_HALF[x.dtype])
    k = ((bits >> form.fraction) | form.bits(form.fraction)).number()
    return k, ((bits & ((1 << form.fraction) - 1)) + ROOT_HALF[x.dtype]).number()


def usual_exponent_and_fraction(x: Term) -> tuple[Term, Term]:
    """k and f with 2**k (1 + f) = x, x a positive number that is not subnormal."""
    k, m = significand(x)
    return k - (2.0**x.format.fraction + x.format.bias), m - 1.0


def exponent_and_fraction(x: Term) -> tuple[Term, Term]:
    """k and f with 2**k (1 + f) = x, x a positive number."""
    form = x.format
    is_small = x.is_below(form.least)
    lifted = (x.bits() | form.bits(0)).number() - 1.0  # 2**(bias - 1) times a subnormal number
    k, m = significand(is_small.choose(lifted, x))
    bias = 2.0**form.fraction + form.bias
    return k - is_small.choose(bias + form.bias - 1, k.constant(bias)), m - 1.0


def log_of_significand(f: Term) -> Term:
    """log(1 + f)."""
    return (f * f).times_plus(f.times_plus(f.polynomial(LOG_SERIES[f.dtype]), -0.5), f)


def log_by_fraction(f: Term, base: int) -> Term:
    """The logarithm of 1 + f to a base, over f."""
    if f.dtype == f32:
        return f.polynomial(LOG_RATIO_SERIES[base])
    return f.polynomial([c / log(base) for c in (1.0, -0.5, *LOG_SERIES[f.dtype])])


def with_ends(x: Term, zero: Term, made: Term) -> Term:
    """A logarithm: -inf where `zero` is 0, NaN below, infinity and NaN as they are."""
    ends = zero.equals(0.0).choose(-inf, made.constant(nan))
    inside = made.constant(0.0).is_below(zero).choose(made, ends)
    return x.is_below(inf).choose(inside, x)


def is_unusual(x: Term) -> Term:
    """Whether a number is subnormal, not above 0, infinite or NaN: by its bits, less those of the least that is not."""
    least = x.format.bits(1 - x.format.bias)
    above = x.bits() - least
    return above.constant(x.format.bits(x.format.bias + 1) - least).is_at_most(above)


class Logarithm(RealFunction, Unary):
    """Of 0 it is -inf, of numbers below NaN. In vectors, these and subnormal numbers are in a branch."""

    __slots__ = ()

    def term(self, *args: Term) -> Term:
        (x,) = args
        return x.branch(lambda x: (self.of_usual(x), is_unusual(x)), self.of_any)

    def of_usual(self, x: Term) -> Term:
        """The logarithm of a positive number that is neither subnormal nor infinite."""
        return self.of_parts(*usual_exponent_and_fraction(x))

    def of_any(self, x: Term) -> Term:
        """The logarithm of any number."""
        return with_ends(x, x, self.of_parts(*exponent_and_fraction(x)))

    def of_parts(self, k: Term, f: Term) -> Term:
        """The logarithm of 2**k (1 + f)."""
        raise self.error("the function declares no values", required="an operation with this method")


@register
class Log(Logarithm):
    """The natural logarithm: -inf for 0.0 and -0.0, NaN for negative numbers."""

    __slots__ = ()
    opcode = "tcp.log"
    semantics = "log(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.log(args[0])

    def of_parts(self, k: Term, f: Term) -> Term:
        high, low = split(LN2, f.dtype)
        return k.times_plus(high, k.times_plus(low, log_of_significand(f)))


@register
class Log2(Logarithm):
    """The logarithm to base 2, exact for powers of 2: -inf for 0.0 and -0.0, NaN for negative numbers."""

    __slots__ = ()
    opcode = "tcp.log2"
    semantics = "log2(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.log2(args[0])

    def of_parts(self, k: Term, f: Term) -> Term:
        return f.times_plus(log_by_fraction(f, 2), k)


@register
class Log10(Logarithm):
    """The logarithm to base 10: -inf for 0.0 and -0.0, NaN for negative numbers."""

    __slots__ = ()
    opcode = "tcp.log10"
    semantics = "log10(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.log10(args[0])

    def of_parts(self, k: Term, f: Term) -> Term:
        return k.times_plus(log10(2), f * log_by_fraction(f, 10))


@register
class Log1p(RealFunction, Unary):
    """The natural logarithm of 1 + a, accurate also for small a: -inf for -1.0, NaN below, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.log1p"
    semantics = "log1p(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.log1p(args[0])

    def term(self, *args: Term) -> Term:
        """2**k (1 + f) = 1 + a: k is that of the sum, f = a / 2**k + (1 / 2**k - 1) is exact but for one rounding."""
        (x,) = args
        form = x.format
        total = x + 1.0
        exponent, m = significand(total)
        k = exponent - (2.0**form.fraction + form.bias)
        inverse = (exponent.bits().constant(2 * form.bits(0)) - (exponent.bits() << form.fraction)).number()
        is_large = x.constant(2.0 ** (form.fraction + 2)).is_below(x)
        f = is_large.choose(m - 1.0, x.times_plus(inverse, inverse - 1.0))
        high, low = split(LN2, x.dtype)
        made = k.times_plus(high, k.times_plus(low, log_of_significand(f)))
        made = abs(x).is_below(2.0 ** -(form.fraction + 2)).choose(x, made)
        return with_ends(x, total, made)
