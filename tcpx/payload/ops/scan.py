"""Cumulative operations along a dim: iterations that go on from one another, in their order."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import FlagAttribute, IntAttribute, Operand, OptionalOperand, Result
from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Structured, check_dim
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.elementwise import Add, Arithmetic, Max, Min, Mul, cast_to, converted
from tcpx.payload.types import ScalarType, accumulator_of, dtype_of, shape_of


class Scan(Structured):
    """The elements along `dim` combined up to each of them, and all of them. `exclusive`: up to each, without it."""

    __slots__ = ()
    class_name = "scan"
    has_numbered_dims = True
    operand, init = Operand(), OptionalOperand()
    dim = IntAttribute(example="0")
    exclusive = FlagAttribute()
    prefixes, total = Result(), Result()
    combiner: ClassVar[type[Arithmetic]]

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        """The dim whose iterations go on from one another; what is yielded before it is combined is exclusive."""
        names = map_dims(op.maps()[0]) if len(op.maps()) == 1 else None
        running = [it.name for it in op.iterators() if it.is_sequential]
        if names is None or len(running) != 1 or running[0] not in names:
            return {}
        body = op.regions[0] if op.regions else None
        is_exclusive = body is not None and body.ops[-1].operands[0] in body.args
        return {"dim": names.index(running[0]), **({"exclusive": True} if is_exclusive else {})}

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.operand.type)), (self.dim,), IteratorKind.SEQUENTIAL)

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        return tuple(accumulator_of(t) if self.combiner in (Add, Mul) else t for t in self.acc_types)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return *self.maps(), dims(*(it.name for it in self.iterators() if not it.is_sequential))

    def neutrals(self) -> tuple[float | int, ...] | None:
        number = self.combiner.neutral_of(self.acc_types[1])
        return None if number is None else (number, number)

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        before = accumulators[1]
        after = build(self.combiner.of(before, cast_to(build, args[0], self.acc_types[1])))
        return before if self.exclusive else after, after

    @property
    def is_associative(self) -> bool:
        return True

    @property
    def is_exact(self) -> bool:
        return not self.acc_types[1].is_float or self.combiner in (Max, Min)

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        after = build(self.combiner.of(lhs[1], rhs[1]))
        return after, after

    def verify(self) -> None:
        check_dim(self, self.dim, len(shape_of(self.operand.type)))
        if self.acc_types[0] != self.acc_types[1]:
            raise self.error("the results have one dtype", self.acc_types[1].name, self.acc_types[0].name)
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype, number = self.accumulators[1], (self.neutrals() or (0, 0))[1]
        shape = evaluation.shape(self.total.type)
        start = (args[-1] if len(args) > 1 else np.full(shape, number)).astype(dtype.numpy)
        terms = converted(args[0], dtype_of(self.operand.type), self.acc_types[1])
        both = np.concatenate([np.expand_dims(start, self.dim), terms], self.dim)
        made = self.combiner.ufunc.accumulate(both, self.dim, dtype=dtype.numpy)
        made = made.astype(self.acc_types[1].numpy)
        return np.delete(made, -1 if self.exclusive else 0, self.dim), np.take(made, -1, self.dim)


@register
class CumSum(Scan):
    """The running sum along `dim`, in order; and the total."""

    __slots__ = ()
    opcode = "tcp.cumsum"
    class_name = "cumsum"
    combiner = Add


@register
class CumProd(Scan):
    """The running product along `dim`, in order; and the total."""

    __slots__ = ()
    opcode = "tcp.cumprod"
    class_name = "cumprod"
    combiner = Mul


@register
class CumMax(Scan):
    """The running maximum along `dim`, NaN from the first NaN on; and the total."""

    __slots__ = ()
    opcode = "tcp.cummax"
    class_name = "cummax"
    combiner = Max


@register
class CumMin(Scan):
    """The running minimum along `dim`, NaN from the first NaN on; and the total."""

    __slots__ = ()
    opcode = "tcp.cummin"
    class_name = "cummin"
    combiner = Min
