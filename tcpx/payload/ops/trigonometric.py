"""Sine, cosine and tangent of angles of any size."""

from __future__ import annotations

from fractions import Fraction
from math import pi
from typing import Final

import numpy as np

from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term, lanes_of
from tcpx.payload.types import dtype_of, f32, f64

SIN_SERIES: Final = {
    f32: (-0.16666655242443085, 0.008332173340022564, -0.00019516650354489684),
    f64: (
        *(-0.1666666666666663, 0.008333333333321981, -0.00019841269829446042, 2.755731356153799e-06),
        *(-2.5050736999329682e-08, 1.589553397065115e-10),
    ),
}
"""(sin r / r - 1) / r**2 in r**2 for |r| <= pi / 4: minimax (Remez), 2**-28 and 2**-57 of sin r."""
COS_SERIES: Final = {
    f32: (0.04166664555668831, -0.001388736185617745, 2.443775701976847e-05),
    f64: (
        *(0.041666666666666595, -0.001388888888887354, 2.4801587289100095e-05, -2.75573142375066e-07),
        *(2.087570710558417e-09, -1.1358783708778216e-11),
    ),
}
"""(cos r - 1 + r**2 / 2) / r**4 in r**2, 2**-33 and 2**-64."""
QUARTER: Final = {
    f32: (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15),
    f64: (1.5707963267948966, 6.123233995736765e-17, 1.0828566739219139e-32),
}
"""pi / 2 as a sum of three parts, rounded down each."""
LARGE: Final = {f32: 2.0**17, f64: 2.0**21}
"""From here on, an angle has more quarter turns than these are enough for."""
TWO_OVER_PI: Final = int("a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561", 16)
"""256 bits of 2 / pi."""
HALF_PI: Final = (1.5707963705062866, -4.371138828673793e-08)
STEP: Final = 16
"""Bits of an exponent from one window of 2 / pi to the next."""


def window(number: int) -> tuple[float, ...]:
    """2**(STEP * number) * 2 / pi less multiples of 4, from -2 to 2, as a sum of four f32."""
    rest = Fraction(TWO_OVER_PI << (STEP * number), 1 << 256)
    rest -= 4 * round(rest / 4)
    parts: list[float] = []
    for _ in range(4):
        parts.append(float(np.float32(float(rest))))
        rest -= Fraction(parts[-1])
    return tuple(parts)


WINDOWS: Final = tuple(window(number) for number in range(7))
"""Together they reach the greatest f32: the last one is for angles up to 2**136."""


def two_sum(a: Term, b: Term) -> tuple[Term, Term]:
    """a + b rounded, and what rounding took (Knuth, 1969)."""
    total = a + b
    there = total - a
    return total, (a - (total - there)) + (b - there)


def modulo_4(x: Term) -> Term:
    """x less a multiple of 4, from -2 to 2; exact."""
    return x - (x * 0.25).round() * 4.0


def quadrant(x: Term) -> tuple[Term, Term]:
    """q and r with x = q pi / 2 + r of an f32 that is not negative, |r| at most a little over pi / 4; q modulo 4.

    x 2 / pi modulo 4, from products with four parts of a window of 2 / pi: in front of the window are bits that give
    multiples of 4, as x is 2**(STEP * k) times an integer where the window is not the first (Payne and Hanek, 1983).
    """
    scale, parts = x.constant(1.0), [x.constant(part) for part in WINDOWS[0]]
    for number, later in enumerate(WINDOWS[1:], 1):
        is_later = x.constant(2.0 ** (24 + STEP * number)).is_at_most(x)
        scale = is_later.choose(2.0 ** (-STEP * number), scale)
        parts = [is_later.choose(part, before) for part, before in zip(later, parts, strict=True)]
    m = x * scale
    products = [m * part for part in parts]
    lost = [m.fused(part, -product) for part, product in zip(parts[:3], products[:3], strict=True)]
    total, rest = two_sum(modulo_4(products[0]), modulo_4(lost[0]))
    total, low = two_sum(total, modulo_4(products[1]))
    q = total.round()
    rest, low = two_sum(rest, low)  # where the angle is next to a quarter turn, all of these cancel
    high, least = two_sum(total - q, rest)
    high, lower = two_sum(high, lost[1])
    high, lowest = two_sum(high, products[2])
    low = ((low + least) + (lower + lowest)) + (lost[2] + products[3])
    r = high.fused(HALF_PI[0], high.times_plus(HALF_PI[1], low * HALF_PI[0]))
    is_small = x.is_below(0.78)
    return is_small.choose(0.0, q), is_small.choose(x, r)


def turns(x: Term) -> tuple[Term, Term]:
    """q, in the low bits of an integer, and r with x = q pi / 2 + r, of a number from 0 to `LARGE`.

    r = x - q pi / 2 in three parts (Cody and Waite, 1980): the first difference is exact, as its last bit is that of
    the first part.
    """
    exponent = x.times_plus(2 / pi, x.format.magic)
    q, r = exponent - x.format.magic, x
    for part in QUARTER[x.dtype]:
        r = q.fused(-part, r)
    return exponent.bits(), r


def turns_of_any(x: Term) -> tuple[Term, Term]:
    """The same of any f32 that is not negative."""
    q, r = quadrant(x)
    return (q + x.format.magic).bits(), r


def sine_and_cosine(r: Term) -> tuple[Term, Term]:
    """Those of r, from -pi / 4 to pi / 4."""
    square = r * r
    sine = (square * r).times_plus(square.polynomial(SIN_SERIES[r.dtype]), r)
    cosine = (square * square).times_plus(square.polynomial(COS_SERIES[r.dtype]), square.times_plus(-0.5, 1.0))
    return sine, cosine


def sine(q: Term, r: Term) -> Term:
    """sin(q pi / 2 + r)."""
    value = is_even(q, r).choose(*sine_and_cosine(r))
    return (value.bits() ^ ((q & 2) << r.dtype.bits - 2)).number()


def is_even(q: Term, r: Term) -> Term:
    """Whether the last bit of q is not set."""
    return ((q & 1) | r.format.bits(0)).number().equals(1.0)


class Trigonometric(RealFunction, Unary):
    """In vectors, NaN of infinities. Large angles are computed in a branch, those of f64 lane by lane."""

    __slots__ = ()

    def expanded(self, build: Build, *args: Value) -> Value | None:
        (a,) = args
        return super().expanded(build, a) if dtype_of(a.type) == f32 or lanes_of(a) else None

    def term(self, *args: Term) -> Term:
        (x,) = args
        return x.branch(self.usual, self.of_any)

    def usual(self, x: Term) -> tuple[Term, Term]:
        """The function of an angle of which the size is below `LARGE`; and whether it is not."""
        size = abs(x)
        return self.signed(self.turned(*turns(size)), x), size.constant(LARGE[x.dtype]).is_at_most(size)

    def of_any(self, x: Term) -> Term:
        """The function of any angle."""
        if x.dtype == f64:
            return x.lane_by_lane(type(self).of)
        return self.signed(self.turned(*turns_of_any(abs(x))), x)

    def signed(self, made: Term, x: Term) -> Term:
        """The function of x, given that of |x|."""
        return (made.bits() ^ (x.bits() & (1 << x.dtype.bits - 1))).number()

    def turned(self, q: Term, r: Term) -> Term:
        """The function of q pi / 2 + r."""
        raise self.error("the function declares no values", required="an operation with this method")


@register
class Sin(Trigonometric):
    """The sine of an angle in radians; -0.0 for -0.0, NaN for infinities."""

    __slots__ = ()
    opcode = "tcp.sin"
    semantics = "sin(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.sin(args[0])

    def turned(self, q: Term, r: Term) -> Term:
        return sine(q, r)


@register
class Cos(Trigonometric):
    """The cosine of an angle in radians; NaN for infinities."""

    __slots__ = ()
    opcode = "tcp.cos"
    semantics = "cos(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.cos(args[0])

    def turned(self, q: Term, r: Term) -> Term:
        return sine(q + 1, r)

    def signed(self, made: Term, x: Term) -> Term:
        return made


@register
class Tan(Trigonometric):
    """The tangent of an angle in radians; -0.0 for -0.0, NaN for infinities."""

    __slots__ = ()
    opcode = "tcp.tan"
    semantics = "tan(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.tan(args[0])

    def turned(self, q: Term, r: Term) -> Term:
        sine, cosine = sine_and_cosine(r)
        even = is_even(q, r)
        return even.choose(sine, -cosine) / even.choose(cosine, sine)
