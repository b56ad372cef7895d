"""Elementwise functions of numbers that are exact or rounded once: signs, bounds, roots, reciprocals."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Div, FloatOnly, Max, Min, SameType, Unary
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.traits.algebra import Group
from tcpx.payload.types import HALF, dtype_of, f32, i1


class NumbersOnly(SameType):
    """Defined on floats and integers."""

    __slots__ = ()

    def verify(self) -> None:
        if dtype_of(self.result.type) == i1:
            raise self.error("the operation is defined on numbers", required="a float or integer type", found="i1")
        super().verify()


class Function(Unary):
    """One function of NumPy, in the dtype of the operand."""

    __slots__ = ()
    ufunc: ClassVar[np.ufunc]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.asarray(self.ufunc(args[0])),)


@register
class Neg(NumbersOnly, Function):
    """-a, of 0.0 -0.0; integers wrap around: the least signed one is unchanged, an unsigned one is 2**width - a."""

    __slots__ = ()
    opcode = "tcp.neg"
    homomorphism = (Group.SUM, Group.SUM)
    linear = (0,)
    semantics = "neg(a)"
    ufunc = np.negative


@register
class Abs(NumbersOnly, Function):
    """The absolute value of a, of -0.0 0.0; the least signed integer is unchanged."""

    __slots__ = ()
    opcode = "tcp.abs"
    semantics = "abs(a)"
    ufunc = np.abs

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        """Of integers the larger of a and -a, where they have a sign."""
        (a,) = args
        dtype = dtype_of(a.type)
        if dtype.is_float:
            return None
        return build(Max.of(a, build(Neg.of(a)))) if dtype.minimum < 0 else a


@register
class Sqrt(FloatOnly, Function):
    """The square root, rounded once: NaN for negative numbers, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.sqrt"
    semantics = "sqrt(a)"
    ufunc = np.sqrt


@register
class Sign(NumbersOnly, Unary):
    """1 if a is positive, -1 if it is negative, a for zeros and NaN: -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.sign"
    semantics = "sign(a)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        (a,) = args
        one = a.dtype.type(1)
        return (np.where(np.greater(a, 0), one, np.where(np.less(a, 0), np.negative(one), a)),)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        (a,) = args
        dtype, zero = dtype_of(a.type), splat(build, 0, a.type)
        if dtype in HALF:
            return None
        low = a
        if dtype.minimum < 0:
            low = build(Select.of(build(Less.of(a, zero)), splat(build, -1, a.type), a))
        return build(Select.of(build(Less.of(zero, a)), splat(build, 1, a.type), low))


@register
class Relu(NumbersOnly, Unary):
    """0 if a is negative, else a: NaN for NaN, -0.0 for -0.0."""

    __slots__ = ()
    opcode = "tcp.relu"
    semantics = "relu(a)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.where(np.less(args[0], 0), args[0].dtype.type(0), args[0]),)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        """Of zeros, rows of `max` hand on the second operand."""
        (a,) = args
        return build(Max.of(splat(build, 0, a.type), a)) if dtype_of(a.type).minimum < 0 else a


@register
class Clamp(NumbersOnly):
    """min(max(a, low), high): high if low > high, NaN if an operand is NaN. A zero that is equal to a bound is
    returned."""

    __slots__ = ()
    opcode = "tcp.clamp"
    a, low, high = Operand(), Operand(), Operand()
    semantics = "clamp(a, b, c)"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        a, low, high = args
        a = np.where(np.less(a, low) | np.not_equal(low, low), low, a)
        return (np.where(np.less(high, a) | np.not_equal(high, high), high, a),)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        a, low, high = args
        return build(Min.of(high, build(Max.of(low, a)))) if dtype_of(a.type) not in HALF else None


class InSinglePrecision(SameType):
    """One function of arrays; of f16 and bf16 it is that in f32, rounded at the end."""

    __slots__ = ()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype = dtype_of(self.result.type)
        wide = f32.numpy if dtype in HALF else dtype.numpy
        return (np.asarray(self.function(*(a.astype(wide) for a in args))).astype(dtype.numpy),)

    def function(self, *args: Array) -> Array:
        """The result of arrays that are not f16 or bf16."""
        raise self.error("the operation declares no values", required="an operation with this method")

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return self.expanded(build, *args) if dtype_of(self.result.type) not in HALF else None

    def expanded(self, build: Build, *args: Value) -> Value | None:
        """The operation on numbers that are not f16 or bf16, in terms of simpler ones."""
        del build, args
        return None


@register
class Reciprocal(InSinglePrecision, Unary, FloatOnly):
    """1 / a: inf for 0.0, -inf for -0.0."""

    __slots__ = ()
    opcode = "tcp.reciprocal"
    semantics = "reciprocal(a)"

    def function(self, *args: Array) -> Array:
        return np.divide(args[0].dtype.type(1), args[0])

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return build(Div.of(splat(build, 1.0, args[0].type), args[0]))


@register
class Rsqrt(InSinglePrecision, Unary, FloatOnly):
    """1 / sqrt(a), root and quotient each rounded: inf for 0.0, -inf for -0.0, NaN for negative numbers."""

    __slots__ = ()
    opcode = "tcp.rsqrt"
    semantics = "rsqrt(a)"

    def function(self, *args: Array) -> Array:
        return np.divide(args[0].dtype.type(1), np.sqrt(args[0]))

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return build(Reciprocal.of(build(Sqrt.of(args[0]))))
