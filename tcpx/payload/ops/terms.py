"""Expansions as arithmetic: a value with operators. What each makes is an operation of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.arithmetic import Abs, Neg, Sqrt
from tcpx.payload.ops.bits import And, Bitcast, Or, ShiftLeft, ShiftRight, Xor
from tcpx.payload.ops.branch import IfAny
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Div, Fma, Max, Min, Mul, MultiplyAdd, Round, Sub
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.select import Equal, Less, LessEqual, Select
from tcpx.payload.ops.vector import Extract, FromElements
from tcpx.payload.types import ScalarType, VectorType, dtype_of, f32, f64, ui32, ui64
from tcpx.records import frozen


@frozen
class Format:
    """A floating-point format: its fraction bits, the bias of its exponent, and integers as wide as it is.

    `split` is how many fraction bits of a constant are kept so that an exponent times it is exact. `lift` is a power of
    two that brings every subnormal number well into the normal range.
    """

    fraction: int
    bias: int
    integers: ScalarType
    split: int
    lift: int

    @property
    def magic(self) -> float:
        """Added to a number below 2**(fraction - 1), it leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.fraction

    @property
    def least(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)

    def bits(self, power: int) -> int:
        """The bits of 2**power, in the normal range."""
        return (power + self.bias) << self.fraction


FORMATS: Final = {f32: Format(23, 127, ui32, 15, 64), f64: Format(52, 1023, ui64, 32, 512)}


def lanes_of(value: Value) -> int:
    """How many lanes a vector of one dim has, as those of a target are; of anything else 0."""
    return value.type.shape[0] if isinstance(value.type, VectorType) and len(value.type.shape) == 1 else 0


@frozen
class Term:
    """A value of an expansion, f32 or f64, or an integer or truth value on the way. Numbers are of its dtype."""

    build: Build
    value: Value

    @property
    def dtype(self) -> ScalarType:
        return dtype_of(self.value.type)

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype]

    def constant(self, number: float) -> Term:
        """A number, in all lanes."""
        return Term(self.build, splat(self.build, number, self.value.type))

    def made(self, of: Callable[..., Operation], *others: Term | float) -> Term:
        """An operation on it, made by its class, and others."""
        terms = [other if isinstance(other, Term) else self.constant(other) for other in others]
        return Term(self.build, self.build(of(self.value, *(term.value for term in terms))))

    def __add__(self, other: Term | float) -> Term:
        return self.made(Add.of, other)

    def __sub__(self, other: Term | float) -> Term:
        return self.made(Sub.of, other)

    def __rsub__(self, other: float) -> Term:
        return self.constant(other) - self

    def __radd__(self, other: float) -> Term:
        return self.constant(other) + self

    def __mul__(self, other: Term | float) -> Term:
        return self.made(Mul.of, other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.made(Div.of, other)

    def __rtruediv__(self, other: float) -> Term:
        return self.constant(other) / self

    def __neg__(self) -> Term:
        return self.made(Neg.of)

    def __abs__(self) -> Term:
        return self.made(Abs.of)

    def __and__(self, other: Term | int) -> Term:
        return self.made(And.of, other)

    def __or__(self, other: Term | int) -> Term:
        return self.made(Or.of, other)

    def __xor__(self, other: Term | int) -> Term:
        return self.made(Xor.of, other)

    def __lshift__(self, other: Term | int) -> Term:
        return self.made(ShiftLeft.of, other)

    def __rshift__(self, other: Term | int) -> Term:
        return self.made(ShiftRight.of, other)

    def sqrt(self) -> Term:
        """Its square root."""
        return self.made(Sqrt.of)

    def round(self) -> Term:
        """The nearest integral value."""
        return self.made(Round.of)

    def times_plus(self, factor: Term | float, addend: Term | float) -> Term:
        """A product and a sum, rounded once where the target has an instruction for it."""
        return self.made(MultiplyAdd.of, factor, addend)

    def fused(self, factor: Term | float, addend: Term | float) -> Term:
        """A product and a sum, rounded once on every target: slow on those without an instruction."""
        return self.made(Fma.of, factor, addend)

    def at_least(self, low: float) -> Term:
        """The greater of itself and a number; NaN stays."""
        low_term = self.constant(low)
        return low_term.made(Max.of, self)

    def at_most(self, high: float) -> Term:
        """The lesser of itself and a number; NaN stays."""
        high_term = self.constant(high)
        return high_term.made(Min.of, self)

    def is_below(self, other: Term | float) -> Term:
        return self.made(Less.of, other)

    def is_at_most(self, other: Term | float) -> Term:
        return self.made(LessEqual.of, other)

    def equals(self, other: Term | float) -> Term:
        return self.made(Equal.of, other)

    def choose(self, yes: Term | float, no: Term) -> Term:
        """`yes` where this truth value holds, else `no`."""
        return self.made(Select.of, yes if isinstance(yes, Term) else no.constant(yes), no)

    def branch(self, usual: Callable[[Term], tuple[Term, Term]], rare: Callable[[Term], Term]) -> Term:
        """What `usual` makes of it, with where that is not right; if so in any lane of a vector, for all lanes what
        `rare` makes, in a branch. That is right everywhere, and taken alone for what is no vector."""
        if not lanes_of(self.value):
            return rare(self)
        block = Block()
        made = rare(Term(lambda op: block.append(op).result, self.value))
        block.append(Yield([made.value]))
        value, is_wrong = usual(self)
        return Term(self.build, self.build(IfAny.of(is_wrong.value, value.value, block)))

    def beside(self, other: Term) -> Term:
        """Another value, to be used where this one is."""
        return Term(self.build, other.value)

    def lane_by_lane(self, of: Callable[..., Operation], *others: Term) -> Term:
        """An operation on each lane of a 1-D vector and of others, by itself."""
        values = [self.value, *(other.value for other in others)]
        lanes = [[self.build(Extract.of(value, lane)) for value in values] for lane in range(lanes_of(self.value))]
        return Term(self.build, self.build(FromElements.of([self.build(of(*lane)) for lane in lanes])))

    def bits(self) -> Term:
        """The bits of a float, as an unsigned integer."""
        return Term(self.build, self.build(Bitcast.of(self.value, self.format.integers)))

    def number(self) -> Term:
        """The float that has these bits."""
        return Term(self.build, self.build(Bitcast.of(self.value, f32 if self.dtype == ui32 else f64)))

    def signed_as(self, other: Term) -> Term:
        """A number that is not negative, with the sign of another."""
        sign = other.bits() & (1 << self.dtype.bits - 1)
        return (self.bits() | sign).number()

    def polynomial(self, coefficients: Sequence[float]) -> Term:
        """c0 + c1 x + c2 x**2 + .. by Horner's rule, a multiply-add for each coefficient but the last."""
        total = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = total.times_plus(self, coefficient)
        return total


def split(number: str, dtype: ScalarType) -> tuple[float, float]:
    """A number below 1, given with 40 digits, as a part with few bits and the rest."""
    scale = 2 ** FORMATS[dtype].split
    whole, _, digits = number.partition(".")
    exact, unit = int(whole + digits), 10 ** len(digits)
    high = (2 * exact * scale + unit) // (2 * unit)
    return high / scale, (exact * scale - high * unit) / (unit * scale)
