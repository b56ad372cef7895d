"""The hyperbolic sine and cosine, and the inverses of all three."""

from __future__ import annotations

from math import log, nan
from typing import Final

import numpy as np

from tcpx.payload.ir import register
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.exponential import power_parts
from tcpx.payload.ops.logarithm import Log1p
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import f32, f64

END: Final = {f32: 89.5, f64: 710.6}
"""From here on the hyperbolic sine and cosine are infinite; a quarter of e to it is not."""


def is_tiny(size: Term) -> Term:
    """Whether a hyperbolic sine of it, rounded, is it."""
    return size.is_below(2.0 ** -(size.format.fraction // 2 + 2))


@register
class Sinh(RealFunction, Unary):
    """The hyperbolic sine: -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.sinh"
    semantics = "sinh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.sinh(args[0])

    def term(self, *args: Term) -> Term:
        """With u = (e**|a| - 1) / 4: 2 (u + u / (4 u + 1))."""
        (x,) = args
        size = abs(x)
        quarter, s = power_parts(size.at_most(END[x.dtype]), halvings=2)
        u = quarter.times_plus(s, quarter - 0.25)
        half = u + u / u.times_plus(4.0, 1.0)
        return is_tiny(size).choose(size, half + half).signed_as(x)


@register
class Cosh(RealFunction, Unary):
    """The hyperbolic cosine: infinity at both infinities."""

    __slots__ = ()
    opcode = "tcp.cosh"
    semantics = "cosh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.cosh(args[0])

    def term(self, *args: Term) -> Term:
        """With q = e**|a| / 4: 2 (q + 1 / (16 q))."""
        (x,) = args
        quarter, s = power_parts(abs(x).at_most(END[x.dtype]), halvings=2)
        q = quarter.times_plus(s, quarter)
        half = q + 0.0625 / q
        return half + half


def log1p_of(near: Term, far: Term) -> Term:
    """log(1 + near), but for a `far` from which on 1 counts for nothing, log(2 far)."""
    is_far = far.constant(2.0 ** (far.format.fraction + 4)).is_below(far)
    return is_far.choose(far, near).made(Log1p.of) + is_far.choose(log(2), far.constant(0.0))


@register
class Asinh(RealFunction, Unary):
    """The inverse of the hyperbolic sine: -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.asinh"
    semantics = "asinh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arcsinh(args[0])

    def term(self, *args: Term) -> Term:
        """log1p(|a| + a**2 / (1 + sqrt(1 + a**2)))."""
        (x,) = args
        size, square = abs(x), x * x
        return log1p_of(size + square / ((square + 1.0).sqrt() + 1.0), size).signed_as(x)


@register
class Acosh(RealFunction, Unary):
    """The inverse of the hyperbolic cosine that is not negative: NaN below 1."""

    __slots__ = ()
    opcode = "tcp.acosh"
    semantics = "acosh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arccosh(args[0])

    def term(self, *args: Term) -> Term:
        """With t = a - 1: log1p(t + sqrt(t (t + 2)))."""
        (x,) = args
        t = x - 1.0
        near = t + (t * (t + 2.0)).sqrt()
        return log1p_of(x.is_below(1.0).choose(nan, near), x)


@register
class Atanh(RealFunction, Unary):
    """The inverse of the hyperbolic tangent: infinities at -1 and 1, NaN beyond, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.atanh"
    semantics = "atanh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.arctanh(args[0])

    def term(self, *args: Term) -> Term:
        """log1p(2 |a| / (1 - |a|)) / 2."""
        (x,) = args
        size = abs(x)
        return (((size + size) / (1.0 - size)).made(Log1p.of) * 0.5).signed_as(x)
