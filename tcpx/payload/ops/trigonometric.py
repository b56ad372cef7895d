"""Sine, cosine and tangent of angles of any size."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Final

import numpy as np

from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import dtype_of, f32

SIN_SERIES: Final = (-0.16666655242443085, 0.008332173340022564, -0.00019516650354489684)
"""(sin r / r - 1) / r**2 in r**2 for |r| <= pi / 4: minimax (Remez), 2**-28 of sin r."""
COS_SERIES: Final = (0.04166664555668831, -0.001388736185617745, 2.443775701976847e-05)
"""(cos r - 1 + r**2 / 2) / r**4 in r**2, 2**-33."""
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
    high, lower = two_sum(total - q, lost[1])
    high, lowest = two_sum(high, products[2])
    low = ((rest + low) + (lower + lowest)) + (lost[2] + products[3])
    r = high.fused(HALF_PI[0], high.times_plus(HALF_PI[1], low * HALF_PI[0]))
    is_small = x.is_below(0.78)
    return is_small.choose(0.0, q), is_small.choose(x, r)


class Trigonometric(RealFunction, Unary):
    """f32 in vectors, for angles up to the greatest number; f64 lane by lane, as the library has it."""

    __slots__ = ()

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return super().expanded(build, *args) if dtype_of(args[0].type) == f32 else None

    def parts(self, x: Term, turns: int) -> tuple[Term, Term, Term]:
        """The bits of q + `turns`, sin r and cos r."""
        q, r = quadrant(abs(x))
        square = r * r
        sine = (square * r).times_plus(square.polynomial(SIN_SERIES), r)
        cosine = (square * square).times_plus(square.polynomial(COS_SERIES), square.times_plus(-0.5, 1.0))
        return (q + (x.format.magic + turns)).bits(), sine, cosine

    def sine(self, x: Term, turns: int) -> Term:
        """sin(|x| + turns * pi / 2)."""
        q, sine, cosine = self.parts(x, turns)
        value = self.is_even(q).choose(sine, cosine)
        return (value.bits() ^ ((q & 2) << 30)).number()

    def is_even(self, q: Term) -> Term:
        """Whether the last bit is not set."""
        return ((q & 1) | 0x3F800000).number().equals(1.0)

    def at_ends(self, x: Term, made: Term) -> Term:
        """NaN of infinities."""
        return abs(x).is_below(inf).choose(made, x - x)


@register
class Sin(Trigonometric):
    """The sine of an angle in radians: of -0.0 -0.0, of infinities NaN."""

    __slots__ = ()
    opcode = "tcp.sin"
    semantics = "sin(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.sin(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        sign = x.bits() & (1 << x.dtype.bits - 1)
        return self.at_ends(x, (self.sine(x, 0).bits() ^ sign).number())


@register
class Cos(Trigonometric):
    """The cosine of an angle in radians: of infinities NaN."""

    __slots__ = ()
    opcode = "tcp.cos"
    semantics = "cos(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.cos(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        return self.at_ends(x, self.sine(x, 1))


@register
class Tan(Trigonometric):
    """The tangent of an angle in radians: of -0.0 -0.0, of infinities NaN."""

    __slots__ = ()
    opcode = "tcp.tan"
    semantics = "tan(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.tan(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        q, sine, cosine = self.parts(x, 0)
        is_even = self.is_even(q)
        ratio = is_even.choose(sine, -cosine) / is_even.choose(cosine, sine)
        return self.at_ends(x, (ratio.bits() ^ (x.bits() & (1 << x.dtype.bits - 1))).number())
