"""Comparing two values and choosing between them, element by element."""

from collections.abc import Callable, Sequence
from math import inf
from typing import ClassVar

import numpy as np

from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.interfaces import Build, Elementwise
from tcpx.payload.ir import Operation, Range, Value, register
from tcpx.payload.ops.bits import Not, Or, Xor
from tcpx.payload.ops.constant import splat
from tcpx.payload.types import ScalarType, dtype_of, i1, like, shape_of
from tcpx.payload.value_ranges import union


class Comparison(Elementwise):
    """Whether a relation holds, as i1. A NaN is less than, equal to and greater than nothing."""

    __slots__ = ()
    attribute_names = ()
    a, b = Operand(), Operand()
    ufunc: ClassVar[np.ufunc]
    takes_truth: ClassVar[bool] = False
    """Whether i1 is among the dtypes of its operands."""

    @classmethod
    def of(cls, a: Value, b: Value) -> Operation:
        """A detached comparison; a and b have one type."""
        return cls([a, b], [like(a.type, shape_of(a.type), i1)])

    def verify(self) -> None:
        check_truth(self)
        a, b = self.operands
        if dtype_of(a.type) == i1 and not self.takes_truth:
            raise self.error("truth values have no order", required="a number type", found="i1")
        if dtype_of(a.type) != dtype_of(b.type):
            raise self.error(
                "operands have one dtype",
                required=dtype_of(a.type).name,
                found=f"%{b.name}: {b.type}",
                fix=Direction("insert a tcp.cast"),
            )
        for value in (a, b):
            self._check_kind(value)
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore"):
            return (np.asarray(self.ufunc(args[0], args[1])),)


def check_truth(op: Elementwise) -> None:
    """Raise VerifyError where the result of an operation is not i1."""
    if dtype_of(op.result.type) != i1:
        raise op.error(
            "the result is a truth value",
            required="i1",
            found=dtype_of(op.result.type).name,
            fix=f"write `: {like(op.result.type, shape_of(op.result.type), i1)}`",
        )


@register
class Less(Comparison):
    """Whether a < b, as i1; false if either is NaN."""

    __slots__ = ()
    opcode = "tcp.less"
    semantics = "a < b"
    ufunc = np.less
    holds_for = (-1,)


@register
class Equal(Comparison):
    """Whether a == b, as i1; false if either is NaN; true for 0.0 and -0.0."""

    __slots__ = ()
    opcode = "tcp.equal"
    semantics = "a == b"
    commutes = (0, 1)
    ufunc = np.equal
    holds_for = (0,)
    takes_truth = True

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(Not.of(build(Xor.of(*args)))) if dtype_of(args[0].type) == i1 else None


@register
class NotEqual(Comparison):
    """Whether a != b, as i1; true if either is NaN."""

    __slots__ = ()
    opcode = "tcp.not_equal"
    semantics = "a != b"
    commutes = (0, 1)
    ufunc = np.not_equal
    holds_for = (-1, 1)
    takes_truth = True

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(Not.of(build(Equal.of(*args))))


@register
class LessEqual(Comparison):
    """Whether a <= b, as i1; false if either is NaN."""

    __slots__ = ()
    opcode = "tcp.less_equal"
    semantics = "a <= b"
    ufunc = np.less_equal
    holds_for = (-1, 0)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        a, b = args
        if not dtype_of(a.type).is_float:
            return build(Not.of(build(Less.of(b, a))))
        return build(Or.of(build(Less.of(a, b)), build(Equal.of(a, b))))


@register
class Greater(Comparison):
    """Whether a > b, as i1; false if either is NaN."""

    __slots__ = ()
    opcode = "tcp.greater"
    semantics = "a > b"
    ufunc = np.greater
    holds_for = (1,)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(Less.of(args[1], args[0]))


@register
class GreaterEqual(Comparison):
    """Whether a >= b, as i1; false if either is NaN."""

    __slots__ = ()
    opcode = "tcp.greater_equal"
    semantics = "a >= b"
    ufunc = np.greater_equal
    holds_for = (0, 1)

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(LessEqual.of(args[1], args[0]))


class FloatTest(Elementwise):
    """Whether a float is of some kind, as i1."""

    __slots__ = ()
    attribute_names = ()
    operand = Operand()
    ufunc: ClassVar[np.ufunc]

    @classmethod
    def of(cls, operand: Value) -> Operation:
        """A detached test of a value."""
        return cls([operand], [like(operand.type, shape_of(operand.type), i1)])

    def verify(self) -> None:
        check_truth(self)
        dtype = dtype_of(self.operand.type)
        if not dtype.is_float:
            raise self.error("the operation is defined on floats", required="f64, f32, f16 or bf16", found=dtype.name)
        self._check_kind(self.operand)
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.asarray(self.ufunc(args[0])),)


@register
class IsNan(FloatTest):
    """Whether a is NaN, as i1."""

    __slots__ = ()
    opcode = "tcp.isnan"
    semantics = "isnan(a)"
    ufunc = np.isnan

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        return build(NotEqual.of(args[0], args[0]))


@register
class IsInf(FloatTest):
    """Whether a is an infinity of either sign, as i1."""

    __slots__ = ()
    opcode = "tcp.isinf"
    semantics = "isinf(a)"
    ufunc = np.isinf

    def expansion(self, build: Build, args: Sequence[Value]) -> Value | None:
        (a,) = args
        ends = (build(Equal.of(a, splat(build, end, a.type))) for end in (inf, -inf))
        return build(Or.of(*ends))


@register
class Select(Elementwise):
    """b where a holds, else c; a is i1."""

    __slots__ = ()
    opcode = "tcp.select"
    attribute_names = ()
    a, b, c = Operand(), Operand(), Operand()
    semantics = "select(a, b, c)"
    hands_on = (1, 2)

    @classmethod
    def of(cls, a: Value, b: Value, c: Value) -> Operation:
        """A detached select; b and c have one type."""
        return cls([a, b, c], [b.type])

    @classmethod
    def dtype_of_number(cls, index: int, dtypes: Sequence[ScalarType | None], result: ScalarType) -> ScalarType | None:
        return result if index else i1

    def verify(self) -> None:
        wanted = (i1, dtype_of(self.result.type), dtype_of(self.result.type))
        for role, dtype, value in zip(self.signature.operand_names, wanted, self.operands, strict=True):
            if dtype_of(value.type) != dtype:
                raise self.error(
                    f"operand `{role}` has the wrong dtype",
                    required=dtype.name,
                    found=f"%{value.name}: {value.type}",
                    fix=self._condition_first(),
                )
            self._check_kind(value)
        super().verify()

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return union((of(self.b), of(self.c)))

    def _condition_first(self) -> str | None:
        """The operands in their order, where another one is the condition."""
        conditions = [value for value in self.operands if dtype_of(value.type) == i1]
        if len(conditions) != 1:
            return None
        ordered = [*conditions, *(value for value in self.operands if value not in conditions)]
        return f"write (the condition goes first): tcp.select({', '.join(f'%{value.name}' for value in ordered)})"

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        del acc
        return build(Select.of(*args))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.where(args[0], args[1], args[2]),)
