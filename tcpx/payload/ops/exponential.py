"""Powers of e and of 2."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from typing import Final

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ChoiceAttribute, NumberAttribute
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.elementwise import Binary, FloatOnly, Unary
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import FORMATS, Term, split
from tcpx.payload.traits.algebra import Group
from tcpx.payload.types import ScalarType, f32, f64
from tcpx.records import frozen

LN2: Final = "0.6931471805599453094172321214581765680755"
LOG_LEAST: Final = {f32: -87.33654022216797, f64: -708.3964185322641}
"""The least number of which e**x is normal."""
LOG_MOST: Final = {f32: 88.72283172607422, f64: 709.782712893384}
"""The last number of which e**x is not infinite."""
LOG_ZERO: Final = {f32: -104.0, f64: -746.0}
"""Here e**x is 0."""
EXP_SERIES: Final = {
    f32: (0.4999999701976776, 0.1666654348373413, 0.04166720435023308, 0.008366545662283897, 0.0013882308267056942),
    f64: (
        *(0.5, 0.16666666666666677, 0.041666666666666505, 0.008333333333321653, 0.0013888888888962598),
        *(0.00019841269886073677, 2.4801587172243182e-05, 2.755724425397578e-06, 2.75574027645195e-07),
        *(2.510902453634193e-08, 2.0875332366054647e-09),
    ),
}
"""(e**r - 1 - r) / r**2 for |r| <= ln 2 / 2: minimax (Remez) for the relative error of e**r - 1, 2**-26.2, 2**-61."""
FAST_EXP_SERIES: Final = (0.5000435709953308, 0.16790907084941864, 0.0414586067199707)
"""The same to 3e-6 of e**r."""


def exp2_series(dtype: ScalarType) -> list[float]:
    """2**r in r for |r| <= 1/2."""
    return [log(2) ** k * c for k, c in enumerate((1.0, 1.0, *EXP_SERIES[dtype]))]


@frozen
class Power:
    """2**n * p with p from 0.7 to 1.42: the bits of p and, in its exponent, n; they need not be those of a number."""

    bits: Term
    dtype: ScalarType

    @staticmethod
    def of(p: Term, exponent: Term) -> Power:
        """The integer n is the low bits of the float `exponent`."""
        return Power(p.bits() + (exponent.bits() << p.format.fraction), p.dtype)

    def normal(self) -> Term:
        """The power where it is a normal number."""
        return self.bits.number()

    def subnormal(self) -> Term:
        """The power where it is less: 2**lift times it, rounded by adding a number of which the last bit is the least
        subnormal one. What an instruction that scales would do takes some processors a hundred cycles."""
        form = FORMATS[self.dtype]
        lifted = (self.bits + (form.lift << form.fraction)).number()
        base = form.least * 2.0**form.lift
        return ((lifted + base).bits() - form.bits(form.lift + 1 - form.bias)).number()


@register
class Scale2(Binary, FloatOnly):
    """a * 2**b for integral-valued b, rounded once: overflow gives infinity, underflow denormals and zero."""

    __slots__ = ()
    opcode = "tcp.scale2"
    semantics = "scale2(a, b)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        a, b = args[0].astype(np.float64), args[1].astype(np.float64)
        exponent = np.clip(np.nan_to_num(b), -4000, 4000).astype(np.int32)
        scaled = np.where(np.isnan(b), np.nan, np.ldexp(a, exponent))
        return (np.asarray(scaled).astype(args[0].dtype),)


def power_of_e(x: Term, *, rest: Term | None = None, scale: float = 1.0, is_fast: bool = False, lift: int = 0) -> Power:
    """2**lift * exp(scale * (x + rest)), for a scale that is a power of two or minus that.

    n = round(scale * x / ln 2), r = scale * x - n ln 2 in two parts (Cody and Waite, 1980). `scale * x` lies between
    `LOG_ZERO` and `LOG_MOST`; `rest` is what rounding took from x. `is_fast`: within 3e-6.
    """
    exponent, r = reduced(x, scale, lift)
    if rest is not None:
        r = r + rest
    series = (1.0, 1.0, *(FAST_EXP_SERIES if is_fast else EXP_SERIES[x.dtype]))
    return Power.of(r.polynomial([c * scale**k for k, c in enumerate(series)]), exponent)


def power_of_at_most_0(x: Term, *, is_fast: bool = False) -> Term:
    """exp(x) for an x of at most 0, -inf and NaN.

    It is p * 2**(n + lift) * 2**-lift: the last product rounds where 2**(n + lift) is normal, and of the least n, which
    numbers further down have too, that power is 0. Unlike `Power.subnormal`, it takes some processors a hundred cycles
    to round a result that is subnormal; an instruction that scales takes them also where the result is 0.
    """
    form = x.format
    lift = form.fraction + 1
    exponent, r = reduced(x.at_least(-(form.bias + lift) * log(2)))
    p = r.polynomial((1.0, 1.0, *(FAST_EXP_SERIES if is_fast else EXP_SERIES[x.dtype])))
    power = ((exponent.bits() + (form.bias + lift)) << form.fraction).number()
    return p * power * 2.0**-lift


def reduced(x: Term, scale: float = 1.0, lift: int = 0) -> tuple[Term, Term]:
    """n + lift in the low bits of a float, for the integer n nearest to scale * x / ln 2, and x - n ln 2 / scale."""
    magic = x.format.magic + lift
    exponent = x.times_plus(scale / log(2), magic)
    return exponent, remainder(x, exponent - magic, scale)


def remainder(x: Term, n: Term, scale: float = 1.0) -> Term:
    """x - n ln 2 / scale."""
    high, low = split(LN2, x.dtype)
    return n.times_plus(-low / scale, n.times_plus(-high / scale, x))


@register
class Exp(RealFunction, Unary):
    """e to the power a. Fast: relative error 3e-6, and 0 instead of subnormal numbers."""

    __slots__ = ()
    opcode = "tcp.exp"
    homomorphism = (Group.SUM, Group.PRODUCT)
    accuracy = ChoiceAttribute("accurate", "fast")
    most = NumberAttribute(default=inf)
    """What the operand is known not to exceed; of more the result is not specified."""
    semantics = "exp(a)"

    @classmethod
    def of_at_most_0(cls, operand: Value) -> Exp:
        """A detached one of what is at most 0, as what remains of numbers without the largest."""
        return cls([operand], [operand.type], {"most": 0.0})

    def reference(self, *args: Wide) -> Wide:
        return np.exp(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        is_fast = self.accuracy == "fast"
        if self.most <= 0:
            return power_of_at_most_0(x, is_fast=is_fast)
        power = power_of_e(x.at_least(LOG_ZERO[x.dtype]), is_fast=is_fast)
        low = x.constant(0.0) if is_fast else power.subnormal()
        made = x.is_below(LOG_LEAST[x.dtype]).choose(low, power.normal())
        return x.is_at_most(LOG_MOST[x.dtype]).choose(made, x + inf)


@register
class Exp2(RealFunction, Unary):
    """2 to the power a; exact for integral numbers."""

    __slots__ = ()
    opcode = "tcp.exp2"
    homomorphism = (Group.SUM, Group.PRODUCT)
    semantics = "exp2(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.exp2(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        form = x.format
        inside = x.at_least(-form.bias - form.fraction - 2.0)
        exponent = inside + form.magic
        r = inside - (exponent - form.magic)
        power = Power.of(r.polynomial(exp2_series(x.dtype)), exponent)
        made = x.is_below(1.0 - form.bias).choose(power.subnormal(), power.normal())
        return x.is_below(form.bias + 1.0).choose(made, x + inf)


@register
class Expm1(RealFunction, Unary):
    """e to the power a, minus 1, without cancellation; -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.expm1"
    semantics = "expm1(a)"

    def reference(self, *args: Wide) -> Wide:
        return np.expm1(args[0])

    def term(self, *args: Term) -> Term:
        (x,) = args
        made = power_less_one(x.at_least(-40.0))
        made = abs(x).is_below(2.0 ** -(x.format.fraction + 2)).choose(x, made)
        return x.is_at_most(LOG_MOST[x.dtype]).choose(made, x + inf)


def power_less_one(x: Term) -> Term:
    """e**x - 1 for x from -40 to `LOG_MOST`."""
    half, s = power_parts(x)
    made = half.times_plus(s, half - 0.5)
    return made + made


def power_parts(x: Term, halvings: int = 1) -> tuple[Term, Term]:
    """h and s with 2**halvings h (1 + s) = e**x, for such x: h = 2**(n - halvings), s = e**r - 1."""
    form = x.format
    exponent, r = reduced(x)
    s = (r * r).times_plus(r.polynomial(EXP_SERIES[x.dtype]), r)
    return ((exponent.bits() << form.fraction) + form.bits(-halvings)).number(), s
