"""Reductions of one operand over the dims `dims`; the other dims are kept in order."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Structured
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.elementwise import Add, Binary, Max, cast_to, converted
from tcpx.payload.types import dtype_of, shape_of


class Reduce(Structured):
    """result = combine(init, reduction of the operand); an empty reduction is the neutral element."""

    __slots__ = ()
    class_name = "reduce"
    has_numbered_dims = True
    operand, init = Operand(), OptionalOperand()
    reduced = ElementsAttribute(int, "a list of ints", key="dims")
    """The positions of the reduced dims."""
    combiner: ClassVar[type[Binary]]

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        names, kept = (map_dims(op.maps()[0]) if len(op.maps()) == 1 else None), map_dims(op.result_map())
        if names is None or kept is None:
            return None
        return {"dims": tuple(k for k, name in enumerate(names) if name not in kept)}

    def usual_attribute(self, key: str) -> str:
        return f"[{max(0, len(shape_of(self.operand.type)) - 1)}]"

    def iterators(self) -> tuple[Iterator, ...]:
        rank = len(shape_of(self.operand.type))
        return tuple(
            Iterator(f"d{k}", IteratorKind.REDUCTION if k in self.reduced else IteratorKind.PARALLEL)
            for k in range(rank)
        )

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

    def _converted(self, array: Array) -> Array:
        return converted(array, dtype_of(self.operand.type), self.acc_type)

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

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype = self.acc_type.numpy
        wide = np.dtype(np.float32) if self.acc_type.is_float and self.acc_type.bits < 32 else dtype
        terms = self._converted(args[0]).astype(wide) if wide == dtype else args[0].astype(wide)
        total = np.asarray(np.sum(terms, axis=self.reduced, dtype=wide)) if self.reduced else terms
        if len(args) > 1:
            total = np.add(total, args[1].astype(wide))
        return (np.asarray(total).astype(dtype),)


@register
class ReduceMax(Reduce):
    """The maximum over `dims`; NaN if there is a NaN; the smallest value of the dtype if there is nothing."""

    __slots__ = ()
    opcode = "tcp.reduce_max"
    class_name = "reduce_max"
    combiner = Max

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype = self.acc_type.numpy
        source = self._converted(args[0])
        total: Array = np.asarray(np.max(source, axis=self.reduced, initial=self.acc_type.minimum))
        if len(args) > 1:
            total = np.maximum(total, args[1])
        return (np.asarray(total).astype(dtype),)
