"""Angles of tangents, sines, cosines and of points: atan, asin, acos and atan2."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcpx.payload.ir import register
from tcpx.payload.ops.elementwise import Binary, Unary
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import f32, f64

ATAN_SERIES: Final = {
    f32: (
        *(-0.33333298563957214, 0.19998548924922943, -0.14264245331287384, 0.10952199250459671, -0.08403484523296356),
        *(0.05795813351869583, -0.031178349629044533, 0.01091486681252718, -0.001793678617104888),
    ),
    f64: (
        *(-0.3333333333333307, 0.1999999999995145, -0.1428571428257462, 0.11111111007013881, -0.09090907002803163),
        *(0.07692279837361962, -0.06666404043554838, 0.0588052773976538, -0.0525351825147532, 0.04722321284585479),
        *(-0.042191767150435384, 0.03664186880923816, -0.029903796591236962, 0.021984782523696927),
        *(-0.013900497757518135, 0.007196461841126974, -0.0028848984733671128, 0.0008313152095929691),
        *(-0.00015215951051760664, 1.3224947497045437e-05),
    ),
}
"""(atan(t) / t - 1) / t**2 in t**2 for t from 0 to 1: minimax (Remez, in 50 digits) for the relative error of atan,
2**-28.5 and 2**-57.6 before the coefficients are rounded."""
ASIN_SERIES: Final = {
    f32: (0.16666752099990845, 0.07495297491550446, 0.045470353215932846, 0.0241796113550663, 0.04216616600751877),
    f64: (
        *(0.16666666666665408, 0.07500000000336916, 0.0446428568283937, 0.03038195913473795, 0.022371758095870498),
        *(0.017359704166242537, 0.013885240719969449, 0.012169180321583347, 0.006528100135812754),
        *(0.019527946341140443, -0.016223781168377853, 0.03191196248680086),
    ),
}
"""(asin(t) / t - 1) / t**2 in t**2 for t from 0 to 1/2: minimax in the same way, 2**-27.6 and 2**-55.9."""
RIGHT_ANGLE: Final = {
    f32: (1.5707963705062866, -4.371138828673793e-08),
    f64: (1.5707963267948966, 6.123233995736766e-17),
}
"""pi / 2 in two parts."""


def less(right_angles: int, angle: Term) -> Term:
    """So many right angles less an angle."""
    high, low = RIGHT_ANGLE[angle.dtype]
    return (right_angles * high) - (angle - right_angles * low)


def steep(is_steep: Term, tangent: Term) -> Term:
    """The angle from 0 to pi / 2 of a tangent of at most 1, or where `is_steep`, of a cotangent."""
    square = tangent * tangent
    angle = (square * tangent).times_plus(square.polynomial(ATAN_SERIES[tangent.dtype]), tangent)
    return is_steep.choose(less(1, angle), angle)


def is_negative(x: Term) -> Term:
    """Whether the sign of a number is set, also that of a zero."""
    return x.constant(1.0).signed_as(x).is_below(0.0)


@register
class Atan(RealFunction, Unary):
    """The angle in radians whose tangent is a, from -pi / 2 to pi / 2, which it is at infinities; -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.atan"
    semantics = "atan(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arctan(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        size = abs(x)
        is_steep = size.constant(1.0).is_below(size)
        return steep(is_steep, is_steep.choose(1.0, size) / is_steep.choose(size, size.constant(1.0))).signed_as(x)


@register
class Atan2(RealFunction, Binary):
    """The angle in radians of the point (b, a), from -pi to pi: that of a / b, in the quadrant of the signs of a and b.
    Zeros and infinities follow C (Annex F): 0.0 or -0.0, as a is, where b is positive or 0.0 and a is a zero, pi or -pi
    where b is negative or -0.0; odd multiples of pi / 4 where both are infinite."""

    __slots__ = ()
    opcode = "tcp.atan2"
    semantics = "atan2(a, b)"

    def reference(self, *args: Wide) -> Wide:
        return np.arctan2(args[0], args[1])

    def term(self, *args: Term) -> Term:
        y, x = args
        height, width = abs(y), abs(x)
        is_steep = width.is_below(height)
        least, most = is_steep.choose(width, height), is_steep.choose(height, width)
        most = most.equals(0.0).choose(1.0, most)
        angle = steep(is_steep, least.equals(most).choose(1.0, least / most))  # of infinities the quotient is NaN
        return is_negative(x).choose(less(2, angle), angle).signed_as(y)


class OfUnitCircle(RealFunction, Unary):
    """The angle of a coordinate of a point on the unit circle, NaN of other numbers."""

    __slots__ = ()

    def term(self, *args: Term) -> Term:
        """With t = |x| up to 1/2, and from there sqrt((1 - |x|) / 2), of which the angle is half of that of the other
        coordinate: the difference is exact."""
        (x,) = args
        size = abs(x)
        is_large = size.constant(0.5).is_below(size)
        square = is_large.choose((1.0 - size) * 0.5, size * size)
        t = is_large.choose(square.sqrt(), size)
        angle = (square * t).times_plus(square.polynomial(ASIN_SERIES[x.dtype]), t)
        return self.of_parts(x, is_large, angle)

    def of_parts(self, x: Term, is_large: Term, angle: Term) -> Term:
        """The function, given asin |x|, or where `is_large`, half of acos |x|."""
        raise self.error("the function declares no values", required="an operation with this method")


@register
class Asin(OfUnitCircle):
    """The angle in radians whose sine is a, from -pi / 2 to pi / 2: NaN below -1 and above 1, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.asin"
    semantics = "asin(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arcsin(args[0])

    def of_parts(self, x: Term, is_large: Term, angle: Term) -> Term:
        return is_large.choose(less(1, angle + angle), angle).signed_as(x)


@register
class Acos(OfUnitCircle):
    """The angle in radians whose cosine is a, from 0 to pi: NaN below -1 and above 1."""

    __slots__ = ()
    opcode = "tcp.acos"
    semantics = "acos(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arccos(args[0])

    def of_parts(self, x: Term, is_large: Term, angle: Term) -> Term:
        twice = angle + angle
        large = x.is_below(0.0).choose(less(2, twice), twice)
        return is_large.choose(large, less(1, angle.signed_as(x)))
