"""Activation functions of neural networks: elementwise operations that every target has in terms of simpler ones.

Of NaN they are NaN. The attribute `accuracy` says how they are computed:
  * "accurate", the default: f32 within 4.1 ulp where the result is above 1.2e-36, f64 to 1e-12 of it where it is above
    1e-300; without FMA instructions, as in the target `generic`, relative errors of gelu grow to 1e-5 far to the left.
    At infinities they are what they tend to;
  * "fast": as each of them says, at infinities too.
"""

from collections.abc import Sequence
from math import erfc, pi, sqrt

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ChoiceAttribute
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import (
    EXP_RANGE,
    Add,
    Div,
    FloatOnly,
    Max,
    Min,
    Mul,
    MultiplyAdd,
    Sub,
    Unary,
    exponential,
    polynomial,
)
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.types import dtype_of, f32, f64
from tcpx.records import frozen

Wide = npt.NDArray[np.float64]


class Activation(Unary, FloatOnly):
    """A smooth function that tends to 0 on the left."""

    __slots__ = ()
    accuracy = ChoiceAttribute("accurate", "fast")

    @property
    def is_fast(self) -> bool:
        """Whether speed goes before accuracy."""
        return self.accuracy == "fast"

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        (x,) = args
        return self.expanded(build, x) if dtype_of(x.type) in (f32, f64) else None

    def expanded(self, build: Build, x: Value) -> Value:
        """The function of an f32 or f64."""
        raise self.error("the activation declares no expansion", required="an operation with this method")

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (self.reference(args[0].astype(np.float64)).astype(args[0].dtype),)

    def reference(self, x: Wide) -> Wide:
        """The function in float64."""
        raise self.error("the activation declares no values", required="an operation with this method")


@register
class Sigmoid(Activation):
    """1 / (1 + e**-a). Fast: relative error 4e-6."""

    __slots__ = ()
    opcode = "tcp.sigmoid"
    semantics = "sigmoid(a)"

    def expanded(self, build: Build, x: Value) -> Value:
        """e / (1 + e), e = e**min(a, 60): at 60 it is 1."""
        lowest = build(Max.of(splat(build, EXP_RANGE[dtype_of(x.type)][0], x.type), x))
        power = exponential(build, build(Min.of(splat(build, 60.0, x.type), lowest)), is_fast=self.is_fast)
        return build(Div.of(power, build(Add.of(power, splat(build, 1.0, x.type)))))

    def reference(self, x: Wide) -> Wide:
        power = np.exp(np.minimum(x, 60))
        return power / (1 + power)


class SelfGated(Activation):
    """a * g(a), where g rises from 0 to 1 and g(a) = 1 - g(-a): max(a, 0) - |a| g(-|a|).

    So there is no cancellation on the left, and an infinity does not meet a 0.
    """

    __slots__ = ()

    def parts(self, build: Build, x: Value) -> tuple[Value, Value]:
        """max(a, 0) and |a|."""
        zero = splat(build, 0.0, x.type)
        positive = build(Max.of(zero, x))
        return positive, build(Sub.of(positive, build(Min.of(zero, x))))

    def gated_parts(self, build: Build, x: Value, end: float) -> tuple[Value, Value]:
        """max(a, 0), and |a| where that is below `end`, else 0: there |a| g(-|a|) is less than the error that is
        allowed, and subnormal numbers on the way to it would take some processors a hundred cycles for each vector."""
        positive, size = self.parts(build, x)
        is_inside = build(Less.of(size, splat(build, end, x.type)))
        return positive, build(Select.of(is_inside, size, splat(build, 0.0, x.type)))

    def gated(self, build: Build, positive: Value, size: Value, power: Value) -> Value:
        """With g(-|a|) = power / (1 + power)."""
        total = build(Add.of(power, splat(build, 1.0, power.type)))
        return build(Sub.of(positive, build(Div.of(build(Mul.of(size, power)), total))))


@register
class Silu(SelfGated):
    """a / (1 + e**-a), also called swish. Fast: within 4e-6 * |a|."""

    __slots__ = ()
    opcode = "tcp.silu"
    semantics = "silu(a)"

    def expanded(self, build: Build, x: Value) -> Value:
        positive, size = self.gated_parts(build, x, 87.25 if dtype_of(x.type) == f32 else 700.0)
        return self.gated(build, positive, size, exponential(build, size, scale=-1.0, is_fast=self.is_fast))

    def reference(self, x: Wide) -> Wide:
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


TAIL = {
    f32: Tail(
        13.0,
        3.75,
        0.453125,
        (
            *(-0.808666467666626, 1.316965103149414, -1.5900688171386719, 1.3232412338256836, -0.581888735294342),
            *(-0.11579988896846771, 0.2812372148036957, -0.022661296650767326, -0.11352313309907913),
        ),
    ),
    f64: Tail(
        37.5,
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

    def expanded(self, build: Build, x: Value) -> Value:
        if self.is_fast:
            return self._by_polynomial(build, x)
        return self._by_tail(build, x) if self.form == "none" else self._by_logistic(build, x)

    def _by_polynomial(self, build: Build, x: Value) -> Value:
        """s g(-s) = s / 2 - s**2 p(s**2)."""
        positive, size = self.parts(build, x)
        size = build(Min.of(splat(build, 4.25, x.type), size))
        square = build(Mul.of(size, size))
        gate = polynomial(build, square, FAST_GATE[self.form])
        half = build(MultiplyAdd.of(size, splat(build, -0.5, x.type), positive))
        return build(MultiplyAdd.of(square, gate, half))

    def _by_tail(self, build: Build, x: Value) -> Value:
        """s Phi(-s) = exp(-s**2 / 2) p(t) t where t = s / (s + pole); what rounding takes from s**2 is made up for."""
        tail = TAIL[dtype_of(x.type)]

        def constant(number: float) -> Value:
            return splat(build, number, x.type)

        positive, size = self.gated_parts(build, x, tail.end)
        ratio = build(Div.of(size, build(Add.of(size, constant(tail.pole)))))
        minus = polynomial(build, build(Add.of(ratio, constant(-tail.centre))), tail.series)
        square = build(Mul.of(size, size))
        lost = build(MultiplyAdd.of(size, size, build(Sub.of(constant(0.0), square))))
        power = exponential(build, square, rest=lost, scale=-0.5)
        return build(MultiplyAdd.of(build(Mul.of(minus, power)), ratio, positive))

    def _by_logistic(self, build: Build, x: Value) -> Value:
        """(1 + tanh(-u)) / 2 = e / (1 + e), e = exp(-2 u); what rounding takes from 2 u is made up for."""
        dtype = dtype_of(x.type)

        def constant(number: float) -> Value:
            return splat(build, number, x.type)

        def minus(value: Value) -> Value:
            return build(Sub.of(constant(0.0), value))

        few_bits = 2.0 ** (17 if dtype == f32 else 46)  # so that `slope - factor` is exact
        slope = round(TANH_SLOPE * few_bits) / few_bits
        cube = float(dtype.numpy.type(TANH_SLOPE * TANH_CUBE))
        positive, size = self.gated_parts(build, x, 10.0 if dtype == f32 else 21.1)
        square = build(Mul.of(size, size))
        factor = build(MultiplyAdd.of(constant(cube), square, constant(slope)))
        twice = build(Mul.of(size, factor))
        lost = build(MultiplyAdd.of(constant(cube), square, build(Sub.of(constant(slope), factor))))
        lost = build(MultiplyAdd.of(constant(cube), build(MultiplyAdd.of(size, size, minus(square))), lost))
        lost = build(MultiplyAdd.of(constant(TANH_SLOPE * TANH_CUBE - cube), square, lost))
        lost = build(Add.of(lost, constant(TANH_SLOPE - slope)))
        lost = build(MultiplyAdd.of(size, lost, build(MultiplyAdd.of(size, factor, minus(twice)))))
        power = exponential(build, twice, rest=lost, scale=-1.0)
        return self.gated(build, positive, size, power)

    def reference(self, x: Wide) -> Wide:
        size = np.minimum(np.abs(x), 40)
        if self.form == "none":
            tail = np.vectorize(erfc, otypes=[np.float64])(size / sqrt(2)) / 2
        else:
            power = np.exp(-TANH_SLOPE * (size + TANH_CUBE * size**3))
            tail = power / (1 + power)
        return np.asarray(np.maximum(x, 0) - size * tail)
