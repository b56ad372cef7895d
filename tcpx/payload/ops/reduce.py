"""Reductions of one operand over the dims `dims`; the other dims are kept in order."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Build, Iterator, Structured
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.elementwise import Add, Arithmetic, Max, Min, Mul, cast_to, converted
from tcpx.payload.types import ScalarType, accumulator_of, dtype_of, i1, like, shape_of


class Reduce(Structured):
    """result = combine(init, reduction of the operand); an empty reduction is the neutral element."""

    __slots__ = ()
    class_name = "reduce"
    has_numbered_dims = True
    operand, init = Operand(), OptionalOperand()
    reduced = ElementsAttribute(int, "a list of ints", key="dims")
    """The positions of the reduced dims."""
    combiner: ClassVar[type[Arithmetic]]

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        names, kept = (map_dims(op.maps()[0]) if len(op.maps()) == 1 else None), map_dims(op.result_map())
        if names is None or kept is None:
            return None
        return {"dims": tuple(k for k, name in enumerate(names) if name not in kept)}

    def usual_attribute(self, key: str) -> str:
        return f"[{max(0, len(shape_of(self.operand.type)) - 1)}]"

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        """Sums and products of 16 bits are made in f32; the greatest and the least are what they are."""
        return (accumulator_of(self.acc_type) if self.combiner in (Add, Mul) else self.acc_type,)

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.operand.type)), self.reduced)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators() if not it.is_reduction))

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(self.combiner.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        element = cast_to(build, args[0], self.acc_type)
        return element if acc is None else self.combine(build, acc, element)

    def neutral(self) -> float | int | None:
        return self.combiner.neutral_of(self.acc_type)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        """f16 and bf16 are combined in f32, and rounded once."""
        dtype, source, ufunc = self.acc_type, dtype_of(self.operand.type), self.combiner.ufunc
        wide = accumulator_of(dtype)
        made = converted(args[0], source, dtype).astype(wide.numpy)
        if self.reduced:
            made = np.asarray(ufunc.reduce(made, axis=self.reduced, dtype=wide.numpy, initial=self.neutral()))
        if len(args) > 1:
            made = ufunc(made, args[1].astype(wide.numpy))
        return (np.asarray(made).astype(dtype.numpy),)

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        """The neutral element of the result, where the operand's dtype has it; it may be narrower."""
        neutral, held = self.neutral(), dtype_of(self.operands[index].type)
        if neutral is not None and (held.is_float or held.minimum <= neutral <= held.maximum):
            return neutral
        return None if reduced else 0

    def verify(self) -> None:
        rank = len(shape_of(self.operand.type))
        if any(not 0 <= d < rank for d in self.reduced) or len(set(self.reduced)) != len(self.reduced):
            counted = [d + rank if -rank <= d < 0 else d for d in self.reduced]
            raise self.error(
                "`dims` names dims of the operand",
                required=f"different dims, 0 or more, and below {rank}",
                found=str(list(self.reduced)),
                fix=f"{{dims = {counted}}}" if any(d < 0 for d in self.reduced) else None,
            )
        for value in self.operands[1:]:
            if dtype_of(value.type) != self.acc_type:
                raise self.error(
                    "`init` has the dtype of the result", required=self.acc_type.name, found=str(value.type)
                )
        super().verify()


@register
class ReduceSum(Reduce):
    """The sum over `dims`; the order of additions is not specified."""

    __slots__ = ()
    opcode = "tcp.reduce_sum"
    class_name = "reduce_sum"
    combiner = Add


@register
class ReduceProd(Reduce):
    """The product over `dims`, 1 without elements; the order of multiplications is not specified."""

    __slots__ = ()
    opcode = "tcp.reduce_prod"
    class_name = "reduce_prod"
    combiner = Mul


@register
class ReduceMax(Reduce):
    """The maximum over `dims`; NaN if there is a NaN; the smallest value of the dtype without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_max"
    class_name = "reduce_max"
    combiner = Max


@register
class ReduceMin(Reduce):
    """The minimum over `dims`; NaN if there is a NaN; the largest value of the dtype without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_min"
    class_name = "reduce_min"
    combiner = Min


class ReduceTruth(Reduce):
    """A reduction to i1 of numbers, each of which counts as whether it is not 0; NaN is not."""

    __slots__ = ()

    def verify(self) -> None:
        if self.acc_type != i1:
            wanted = like(self.result.type, shape_of(self.result.type), i1)
            raise self.error("the result is a truth value", "i1", str(self.result.type), f"write `: {wanted}`")
        super().verify()


@register
class ReduceAny(ReduceTruth):
    """Whether any element over `dims` is not 0, as i1; false without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_any"
    class_name = "reduce_any"
    combiner = Max


@register
class ReduceAll(ReduceTruth):
    """Whether all elements over `dims` are not 0, as i1; true without elements."""

    __slots__ = ()
    opcode = "tcp.reduce_all"
    class_name = "reduce_all"
    combiner = Min
