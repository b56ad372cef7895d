"""Comparing two values and choosing between them, element by element."""

from collections.abc import Callable, Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.interfaces import Build, Elementwise
from tcpx.payload.ir import Operation, Range, Value, register
from tcpx.payload.types import dtype_of, i1, like, shape_of
from tcpx.payload.value_ranges import union


@register
class Less(Elementwise):
    """Whether a < b, as i1; false if either is NaN."""

    __slots__ = ()
    opcode = "tcp.less"
    attribute_names = ()
    a, b = Operand(), Operand()
    semantics = "a < b"

    @classmethod
    def of(cls, a: Value, b: Value) -> Operation:
        """A detached comparison; a and b have one type."""
        return cls([a, b], [like(a.type, shape_of(a.type), i1)])

    def verify(self) -> None:
        if dtype_of(self.result.type) != i1:
            raise self.error(
                "the result is a truth value",
                required="i1",
                found=dtype_of(self.result.type).name,
                fix=f"write `: {like(self.result.type, shape_of(self.result.type), i1)}`",
            )
        a, b = self.operands
        if dtype_of(a.type) == i1:
            raise self.error("truth values have no order", required="a number type", found="i1")
        if dtype_of(a.type) != dtype_of(b.type):
            raise self.error(
                "operands have one dtype",
                required=dtype_of(a.type).name,
                found=f"%{b.name}: {b.type}",
                fix="insert a tcp.cast",
            )
        for value in (a, b):
            self.check_kind(value)
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore"):
            return (np.less(args[0], args[1]),)


@register
class Select(Elementwise):
    """b where a holds, else c; a is i1."""

    __slots__ = ()
    opcode = "tcp.select"
    attribute_names = ()
    a, b, c = Operand(), Operand(), Operand()
    semantics = "select(a, b, c)"

    @classmethod
    def of(cls, a: Value, b: Value, c: Value) -> Operation:
        """A detached select; b and c have one type."""
        return cls([a, b, c], [b.type])

    @classmethod
    def accumulating_operands(cls, combiner: type[Operation]) -> tuple[tuple[int, ...], ...]:
        del combiner
        return ((1, 2),)

    def verify(self) -> None:
        if len(self.operands) != 3:
            raise self.error("a select has three operands", required="a, b, c", found=f"{len(self.operands)} operands")
        wanted = (i1, dtype_of(self.result.type), dtype_of(self.result.type))
        for role, dtype, value in zip(self.operand_names, wanted, self.operands, strict=True):
            if dtype_of(value.type) != dtype:
                raise self.error(
                    f"operand `{role}` has the wrong dtype",
                    required=dtype.name,
                    found=f"%{value.name}: {value.type}",
                    fix=self._condition_first(),
                )
            self.check_kind(value)
        super().verify()

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        return union((of(self.b), of(self.c)))

    def _condition_first(self) -> str | None:
        """The operands in their order, where another one is the condition."""
        conditions = [value for value in self.operands if dtype_of(value.type) == i1]
        if len(conditions) != 1:
            return None
        ordered = [*conditions, *(value for value in self.operands if value not in conditions)]
        return f"the condition goes first: tcp.select({', '.join(f'%{value.name}' for value in ordered)})"

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        del acc
        return build(Select.of(*args))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.where(args[0], args[1], args[2]),)
