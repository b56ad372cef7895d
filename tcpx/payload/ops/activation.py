"""Activation functions of neural networks: elementwise operations that every target has in terms of simpler ones.

Of NaN they are NaN. The attribute `accuracy` says how they are computed:
  * "accurate", the default: f32 within 4.1 ulp where the result is a normal number, f64 to 1e-12 of it; a product of a
    that would be subnormal is 0. At infinities they are what they tend to;
  * "fast": as each of them says, at infinities too.
"""

from math import erfc, pi, sqrt

import numpy as np

from tcpx.payload.fields import ChoiceAttribute
from tcpx.payload.ir import register
from tcpx.payload.ops.elementwise import Unary
from tcpx.payload.ops.exponential import LOG_LEAST, LOG_ZERO, Power, power_of_e
from tcpx.payload.ops.real_function import RealFunction, Wide
from tcpx.payload.ops.terms import Term
from tcpx.payload.types import f32, f64
from tcpx.records import frozen


class Activation(RealFunction, Unary):
    """A smooth function that tends to 0 on the left."""

    __slots__ = ()
    accuracy = ChoiceAttribute("accurate", "fast")

    @property
    def is_fast(self) -> bool:
        """Whether speed goes before accuracy."""
        return self.accuracy == "fast"


@register
class Sigmoid(Activation):
    """1 / (1 + e**-a). Fast: relative error 4e-6, and e**-87 instead of smaller results."""

    __slots__ = ()
    opcode = "tcp.sigmoid"
    semantics = "sigmoid(a)"

    def term(self, *args: Term) -> Term:
        """e / (1 + e), e = e**min(a, 60): at 60 it is 1."""
        (x,) = args
        inside = x.at_least(LOG_LEAST[x.dtype]).at_most(60.0)
        power = power_of_e(inside, is_fast=self.is_fast).normal()
        made = power / (inside.times_plus(0.0, 1.0) + power)  # NaN where a is: the power need not be
        if self.is_fast:
            return made
        low = power_of_e(x.at_least(LOG_ZERO[x.dtype])).subnormal()
        return x.is_below(LOG_LEAST[x.dtype]).choose(low, made)

    def reference(self, *args: Wide) -> Wide:
        power = np.exp(np.minimum(args[0], 60))
        return power / (1 + power)


class SelfGated(Activation):
    """a * g(a), where g rises from 0 to 1 and g(a) = 1 - g(-a): max(a, 0) - |a| g(-|a|).

    So there is no cancellation on the left, and an infinity does not meet a 0.
    """

    __slots__ = ()

    def parts(self, x: Term) -> tuple[Term, Term]:
        """max(a, 0) and |a|."""
        return x.at_least(0.0), abs(x)

    def gated_parts(self, x: Term, end: float) -> tuple[Term, Term]:
        """max(a, 0), and |a| where that is below `end`, else 0: there |a| g(-|a|) is no normal number, and subnormal
        ones would take some processors a hundred cycles for each vector."""
        positive, size = self.parts(x)
        return positive, size.is_below(end).choose(size, x.constant(0.0))

    def gated(self, positive: Term, size: Term, power: Power) -> Term:
        """With g(-|a|) = power / (1 + power), of a power that is lifted: by itself it may be less than its product
        with |a|, and subnormal where that is normal."""
        number = power.normal()
        return positive - size * number / (number + 2.0**size.format.lift)


@register
class Silu(SelfGated):
    """a / (1 + e**-a), also called swish. Fast: within 4e-6 * |a|."""

    __slots__ = ()
    opcode = "tcp.silu"
    semantics = "silu(a)"

    def term(self, *args: Term) -> Term:
        (x,) = args
        positive, size = self.gated_parts(x, 91.85678 if x.dtype == f32 else 714.9686572379663)
        power = power_of_e(size, scale=-1.0, is_fast=self.is_fast, lift=x.format.lift)
        return self.gated(positive, size, power)

    def reference(self, *args: Wide) -> Wide:
        return silu(*args)


def silu(x: Wide) -> Wide:
    """x / (1 + e**-x)."""
    size = np.minimum(np.abs(x), 800)
    power = np.exp(-size)
    return np.maximum(x, 0) - size * power / (1 + power)


@frozen
class Tail:
    """-(s + pole) Phi(-s) exp(s**2 / 2) for s below `end`: a minimax polynomial in s / (s + pole) - centre."""

    end: float
    pole: float
    centre: float
    series: tuple[float, ...]

    def parts(self, size: Term, lift: int = 0) -> tuple[Term, Term]:
        """s / (s + pole), and 2**-lift times the polynomial there."""
        ratio = size / (size + self.pole)
        return ratio, (ratio - self.centre).polynomial([c * 2.0**-lift for c in self.series])


TAIL = {
    f32: Tail(
        13.146247,
        3.75,
        0.453125,
        (
            *(-0.808666467666626, 1.316965103149414, -1.5900688171386719, 1.3232412338256836, -0.581888735294342),
            *(-0.11579988896846771, 0.2812372148036957, -0.022661296650767326, -0.11352313309907913),
        ),
    ),
    f64: Tail(
        37.615868313955986,
        4.0,
        0.5,
        (
            *(-0.7552851304157515, 1.2157932839437842, -1.5485496029688777, 1.4921748636773275, -0.9663451982507227),
            *(0.2412860469253836, 0.2227003111477153, -0.20874476198710237, -0.034136127811051034, 0.11832058959975078),
            *(0.0019536363032278733, -0.07197605607507544, -0.002928590569836085, 0.0484964392737613),
            *(0.010244095472652672, -0.03348180616339684, -0.01731267996780524, 0.02051264134128684),
            *(0.020238524012186367, -0.008390318828246666, -0.015309191251049091, 0.0006689699095291896),
            *(0.004980357003440716,),
        ),
    ),
}
FAST_GATE = {
    "none": (
        *(0.3984895850703178, -0.0655515452581739, 0.009306255225928158, -0.000951941175431319),
        *(6.69927046930619e-05, -3.04160867708587e-06, 7.944281349853304e-08, -9.008980447284742e-10),
    ),
    "tanh": (
        *(0.3984039901911535, -0.06570714237777157, 0.009421880846523909, -0.0009794780137218424),
        *(7.02021556767103e-05, -3.242514374111982e-06, 8.594315899332656e-08, -9.864262680233496e-10),
    ),
}
"""Minimax coefficients of (g(s) - 1/2) / s in s**2 for s up to 4.25; the error of s g(s) is below 1.2e-4."""
TANH_SLOPE = 2 * sqrt(2 / pi)
TANH_CUBE = 0.044715


@register
class Gelu(SelfGated):
    """a * Phi(a), Phi the normal distribution function; with `approximate = "tanh"`, a * (1 + tanh(u)) / 2 where
    u = sqrt(2 / pi) * (a + 0.044715 a**3). Fast: within 1.5e-4."""

    __slots__ = ()
    opcode = "tcp.gelu"
    form = ChoiceAttribute("none", "tanh", key="approximate")
    """`none` for the normal distribution itself, or `tanh`."""
    semantics = "gelu(a)"

    def term(self, *args: Term) -> Term:
        (x,) = args
        if self.is_fast:
            return self._by_polynomial(x)
        return self._by_tail(x) if self.form == "none" else self._by_logistic(x)

    def _by_polynomial(self, x: Term) -> Term:
        """s g(-s) = s / 2 - s**2 p(s**2)."""
        positive, size = self.parts(x)
        size = size.at_most(4.25)
        square = size * size
        return square.times_plus(square.polynomial(FAST_GATE[self.form]), size.times_plus(-0.5, positive))

    def _by_tail(self, x: Term) -> Term:
        """s Phi(-s) = exp(-s**2 / 2) p(t) t where t = s / (s + pole); what rounding takes from s**2 is made up for."""
        positive, size = self.gated_parts(x, TAIL[x.dtype].end)
        lift = x.format.lift
        ratio, minus = TAIL[x.dtype].parts(size, lift)
        square = size * size
        power = power_of_e(square, rest=size.fused(size, -square), scale=-0.5, lift=lift).normal()
        return (minus * power).times_plus(ratio, positive)

    def _by_logistic(self, x: Term) -> Term:
        """(1 + tanh(-u)) / 2 = e / (1 + e), e = exp(-2 u); what rounding takes from 2 u is made up for."""
        few_bits = 2.0 ** (17 if x.dtype == f32 else 46)  # so that `slope - factor` is exact
        slope = round(TANH_SLOPE * few_bits) / few_bits
        cube = float(x.dtype.numpy.type(TANH_SLOPE * TANH_CUBE))
        positive, size = self.gated_parts(x, 10.100638 if x.dtype == f32 else 21.176880251785217)
        square = size * size
        factor = square.times_plus(cube, slope)
        twice = size * factor
        lost = square.fused(cube, slope - factor)
        lost = size.fused(size, -square).times_plus(cube, lost)
        lost = square.times_plus(TANH_SLOPE * TANH_CUBE - cube, lost) + (TANH_SLOPE - slope)
        lost = size.times_plus(lost, size.fused(factor, -twice))
        return self.gated(positive, size, power_of_e(twice, rest=lost, scale=-1.0, lift=x.format.lift))

    def reference(self, *args: Wide) -> Wide:
        (x,) = args
        size = np.minimum(np.abs(x), 40)
        if self.form == "none":
            tail = np.vectorize(erfc, otypes=[np.float64])(size / sqrt(2)) / 2
        else:
            power = np.exp(-TANH_SLOPE * (size + TANH_CUBE * size**3))
            tail = power / (1 + power)
        return np.asarray(np.maximum(x, 0) - size * tail)
