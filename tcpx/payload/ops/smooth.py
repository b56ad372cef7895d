"""Smooth and piecewise functions of neural networks and statistics that are no gates."""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from tcpx.payload.ir import register
from tcpx.payload.ops.activation import TAIL
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.exponential import Exp, power_of_e, power_parts
from tcpx.payload.ops.logarithm import Log1p
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import f32, f64

ERF_SERIES: Final = {
    f32: (
        *(0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853809133172035, 0.005188320763409138),
        *(-0.0008010110468603671, 7.853517308831215e-05),
    ),
    f64: (
        *(0.1283791670955126, -0.3761263890318375, 0.11283791670954858, -0.026866170645072903, 0.0052239776247807995),
        *(-0.0008548326978731067, 0.00012055331036263046, -1.4925593486749647e-05, 1.6460972425539066e-06),
        *(-1.6350020430624879e-07, 1.4657843773063008e-08, -1.1365513300379117e-09, 5.944983433748904e-11),
    ),
}
"""erf(a) / a - 1 in a**2 for |a| <= 1: minimax (Remez) for the relative error, 2**-29.6 and 2**-62.7."""
ERF_END: Final = {f32: 4.0, f64: 6.0}
"""From here on erf is 1."""
TANH_END: Final = 18.4
"""The hyperbolic tangent of half of it is 1 in f32."""


@register
class Tanh(RealFunction, Unary):
    """The hyperbolic tangent: 1 and -1 at infinities, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.tanh"
    semantics = "tanh(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.tanh(args[0])

    def term(self, *args: Term) -> Term:
        """With u = (e**(2 |a|) - 1) / 2: u / (u + 1)."""
        (x,) = args
        if x.dtype == f64:
            return self.of_f64(x)
        half, s = power_parts(abs(x + x).at_most(TANH_END))
        u = half.times_plus(s, half - 0.5)
        return (u / (u + 1.0)).signed_as(x)

    def of_f64(self, x: Term) -> Term:
        """With e = e**(-2 |a|): (1 - e) / (1 + e) for small a, and what both sums have lost, times 1 / (1 + e) to 9 %;
        else 1 - 2 e / (1 + e)."""
        size = abs(x)
        half, s = power_parts((size * -2.0).at_least(-40.0))
        less, power = half.times_plus(s, half - 0.5), half.times_plus(s, half)  # halves of e - 1 and e
        total = power + 0.5
        is_small = size.is_below(0.6)
        ratio = is_small.choose(-less, power + power) / total
        lost = (less - (half - 0.5)) - half * s
        small = ratio + (lost - ratio * (power - (total - 0.5))) * (2.914 - total * 2.0)
        made = is_small.choose(small, 1.0 - ratio).signed_as(x)
        return size.is_below(2.0 ** -(x.format.fraction // 2 + 2)).choose(x, made)


@register
class Erf(RealFunction, Unary):
    """The error function: 1 and -1 at infinities, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.erf"
    semantics = "erf(a)"

    def reference(self, *args: Wide) -> Wide:
        """2 / sqrt(pi) exp(-a**2) times the sum of 2**n a**(2 n + 1) / (1 * 3 * .. * (2 n + 1)), all of one sign."""
        size = np.minimum(np.abs(args[0]), 7)
        term, total = size, size
        for n in range(1, 180):
            term = term * (2 * size * size / (2 * n + 1))
            total = total + term
        root_pi = np.sqrt(4 * np.arctan(size.dtype.type(1)))
        return np.copysign(np.minimum(2 / root_pi * np.exp(-size * size) * total, 1), args[0])

    def term(self, *args: Term) -> Term:
        """Up to 1 a polynomial; from there 1 - 2 Phi(-sqrt(2) |a|), as gelu has it."""
        (x,) = args
        square = x * x
        small = x.times_plus(square.polynomial(ERF_SERIES[x.dtype]), x)
        size = abs(x).at_most(ERF_END[x.dtype])
        turned = size * sqrt(2)
        _, minus = TAIL[x.dtype].parts(turned)
        tail = minus / (turned + TAIL[x.dtype].pole) * power_of_e(size * size, scale=-1.0).normal()
        large = tail.times_plus(2.0, 1.0).signed_as(x)
        return size.is_below(1.0).choose(small, large)


@register
class Softplus(RealFunction, Unary):
    """log(1 + e**a): 0 at -inf, a for large a."""

    __slots__ = ()
    opcode = "tcp.softplus"
    semantics = "softplus(a)"

    def reference(self, *args: Wide) -> Wide:
        (x,) = args
        return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))

    def term(self, *args: Term) -> Term:
        (x,) = args
        return x.at_least(0.0) + (-abs(x)).made(Exp.of).made(Log1p.of)


@register
class Hardsigmoid(RealFunction, Unary):
    """min(max(a + 3, 0), 6) / 6."""

    __slots__ = ()
    opcode = "tcp.hardsigmoid"
    semantics = "hardsigmoid(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.clip(args[0] + 3, 0, 6) / 6

    def term(self, *args: Term) -> Term:
        (x,) = args
        return (x + 3.0).at_least(0.0).at_most(6.0) / 6.0


@register
class Hardswish(RealFunction, Unary):
    """a * min(max(a + 3, 0), 6) / 6; -0.0 at -inf."""

    __slots__ = ()
    opcode = "tcp.hardswish"
    semantics = "hardswish(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.maximum(args[0], -3) * (np.clip(args[0] + 3, 0, 6) / 6)

    def term(self, *args: Term) -> Term:
        (x,) = args
        return x.at_least(-3.0) * ((x + 3.0).at_least(0.0).at_most(6.0) / 6.0)
