"""Quotients that are integral, and what they leave."""

from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.arithmetic import InSinglePrecision, NumbersOnly
from tcpx.payload.ops.bits import And, Xor
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Binary, Div, Mul, Sub
from tcpx.payload.ops.rounding import Floor, copysign
from tcpx.payload.ops.select import Equal, Less, NotEqual, Select
from tcpx.payload.ops.terms import Term, lanes_of
from tcpx.payload.types import dtype_of


@register
class Floordiv(InSinglePrecision, Binary, NumbersOnly):
    """floor(a / b). For integers exact, 0 if b is 0; the overflow of the least one over -1 wraps around. For floats the
    quotient is rounded first: 1.0 and 0.1 give 10.0."""

    __slots__ = ()
    opcode = "tcp.floordiv"
    semantics = "floordiv(a, b)"

    def function(self, *args: Array) -> Array:
        a, b = args
        return np.floor(np.divide(a, b)) if dtype_of(self.result.type).is_float else np.floor_divide(a, b)

    def expanded(self, build: Build, *args: Value) -> Value | None:
        return build(Floor.of(build(Div.of(*args)))) if dtype_of(self.result.type).is_float else None


class Remainder(InSinglePrecision, Binary, NumbersOnly):
    """What a quotient times b leaves of a: of integers a itself where b is 0."""

    __slots__ = ()
    ufunc: ClassVar[np.ufunc]

    def function(self, *args: Array) -> Array:
        a, b = args
        left = self.ufunc(a, b)
        return left if dtype_of(self.result.type).is_float else np.where(b == 0, a, left)


@register
class Mod(Remainder):
    """a - b * floor(a / b); it has the sign of b, as in Python. For integers a if b is 0, so that a is always
    b * floordiv(a, b) + mod(a, b). For floats NaN if b is 0, else exact but for one rounding."""

    __slots__ = ()
    opcode = "tcp.mod"
    semantics = "mod(a, b)"
    ufunc = np.mod

    def expanded(self, build: Build, *args: Value) -> Value | None:
        a, b = args
        zero = splat(build, 0, a.type)
        if not dtype_of(a.type).is_float:
            return build(Sub.of(a, build(Mul.of(build(Floordiv.of(a, b)), b))))
        left = build(Rem.of(a, b))
        differ = build(Xor.of(build(Less.of(left, zero)), build(Less.of(b, zero))))
        moved = build(Select.of(differ, build(Add.of(left, b)), left))
        return build(Select.of(build(Equal.of(left, zero)), copysign(build, 0.0, b), moved))


@register
class Rem(Remainder):
    """a - b * trunc(a / b); it has the sign of a, as in C. For integers a if b is 0. For floats exact, like C's fmod,
    and NaN if b is 0."""

    __slots__ = ()
    opcode = "tcp.rem"
    semantics = "rem(a, b)"
    ufunc = np.fmod

    def expanded(self, build: Build, *args: Value) -> Value | None:
        """Of integers mod(a, b) less b where the signs of a and b differ and something is left."""
        a, b = args
        if dtype_of(a.type).is_float:
            return exact_remainder(Term(build, a), Term(build, b)).value if lanes_of(a) else None
        left = build(Mod.of(a, b))
        if dtype_of(a.type).minimum >= 0:
            return left
        zero = splat(build, 0, a.type)
        differ = build(Xor.of(build(Less.of(a, zero)), build(Less.of(b, zero))))
        is_moved = build(And.of(differ, build(NotEqual.of(left, zero))))
        return build(Select.of(is_moved, build(Sub.of(left, b)), left))


def exact_remainder(a: Term, b: Term) -> Term:
    """C's fmod of lanes. A quotient with more digits than the dtype has takes a branch, lane by lane.

    Else its integral part is that of the rounded quotient or one less. What either leaves, from -b to b, is a multiple
    of the last place of b, so that `fma` is exact.
    """

    def usual(a: Term) -> tuple[Term, Term]:
        size, divisor = abs(a), abs(b)
        quotient = size / divisor
        left = (-quotient.made(Floor.of)).fused(divisor, size)
        left = left.is_below(0.0).choose(left + divisor, left)
        left = quotient.is_below(1.0).choose(size, left)  # of an infinite b too
        return left.signed_as(a), a.constant(2.0 ** (a.format.fraction + 1)).is_at_most(quotient)

    return a.branch(usual, lambda a: a.lane_by_lane(Rem.of, a.beside(b)))
