"""Elementwise functions of numbers that are exact or rounded once: signs, roots, quotients, integral parts."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.elementwise import FloatOnly, Max, SameType, Unary
from tcpx.payload.types import dtype_of, i1


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
    """-a, of 0.0 -0.0; integers wrap around: of the least signed one itself, of an unsigned one 2**width - a."""

    __slots__ = ()
    opcode = "tcp.neg"
    semantics = "neg(a)"
    ufunc = np.negative


@register
class Abs(NumbersOnly, Function):
    """The size of a, of -0.0 0.0; the least signed integer has none, and stays itself."""

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
    """The square root, rounded once: of numbers below 0 NaN, of -0.0 -0.0."""

    __slots__ = ()
    opcode = "tcp.sqrt"
    semantics = "sqrt(a)"
    ufunc = np.sqrt


@register
class Floor(FloatOnly, Function):
    """The greatest integral value that is at most a; what is 0 has the sign of a."""

    __slots__ = ()
    opcode = "tcp.floor"
    semantics = "floor(a)"
    ufunc = np.floor
