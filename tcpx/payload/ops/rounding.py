"""Integral values near a float."""

from typing import Any

import numpy as np

from tcpx.payload.evaluator import Array
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.arithmetic import Function, InSinglePrecision, Neg
from tcpx.payload.ops.bits import And, Bitcast, Or
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, FloatOnly, Unary
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.types import dtype_of, f32, si32, si64


@register
class Floor(FloatOnly, Function):
    """The greatest integral value that is at most a; a zero has the sign of a."""

    __slots__ = ()
    opcode = "tcp.floor"
    semantics = "floor(a)"
    ufunc = np.floor


@register
class Ceil(InSinglePrecision, Unary, FloatOnly):
    """The least integral value that is at least a; a zero has the sign of a."""

    __slots__ = ()
    opcode = "tcp.ceil"
    semantics = "ceil(a)"

    def function(self, *args: Array) -> Array:
        return np.ceil(args[0])

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return build(Neg.of(build(Floor.of(build(Neg.of(args[0]))))))


@register
class Trunc(InSinglePrecision, Unary, FloatOnly):
    """The integral part, rounded towards 0; a zero has the sign of a."""

    __slots__ = ()
    opcode = "tcp.trunc"
    semantics = "trunc(a)"

    def function(self, *args: Array) -> Array:
        return np.trunc(args[0])

    def expanded(self, build: Build, *args: Value) -> Value | None:
        (a,) = args
        is_below = build(Less.of(a, splat(build, 0.0, a.type)))
        return build(Select.of(is_below, build(Ceil.of(a)), build(Floor.of(a))))


@register
class RoundAway(InSinglePrecision, Unary, FloatOnly):
    """The nearest integral value, ties away from 0, like C's round; a zero has the sign of a."""

    __slots__ = ()
    opcode = "tcp.round_away"
    semantics = "round_away(a)"

    def function(self, *args: Array) -> Array:
        return np.trunc(args[0] + np.copysign(below_half(args[0].dtype), args[0]))

    def expanded(self, build: Build, *args: Value) -> Value | None:
        """trunc(a + h), where h is the number next to 1/2 towards 0: with 1/2 itself, it would be rounded up to 1."""
        (a,) = args
        half = copysign(build, float(below_half(dtype_of(a.type).numpy)), a)
        return build(Trunc.of(build(Add.of(a, half))))


def below_half(dtype: np.dtype[np.generic]) -> np.floating[Any]:
    """The largest number of a dtype below 1/2."""
    return np.nextafter(dtype.type(0.5), dtype.type(0))


def copysign(build: Build, size: float, sign: Value) -> Value:
    """A positive number with the sign of an f32 or f64."""
    dtype = dtype_of(sign.type)
    bits = build(Bitcast.of(sign, si32 if dtype == f32 else si64))
    least = build(And.of(bits, splat(build, int(dtype_of(bits.type).minimum), bits.type)))
    number = int(np.array(size, dtype.numpy).view(dtype_of(bits.type).numpy))
    return build(Bitcast.of(build(Or.of(least, splat(build, number, bits.type))), dtype))
