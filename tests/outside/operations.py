"""Operations that the package does not have, declared as a user would: positions, several results, tuple reductions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, IntAttribute, Operand, OptionalOperand, Result
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, Position, Structured, parallel, reduction
from tcpx.payload.ir import Value, register
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Div, Exp, Max, Min, Mul, Sub
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.sizes import Symbol
from tcpx.payload.types import shape_of, si64


@register
class Iota(Structured):
    """The index along `dim`, as an integer."""

    __slots__ = ()
    opcode = "outside.iota"
    class_name = "iota"
    has_numbered_dims = True
    dim, begins = IntAttribute(), DimsAttribute("origins")

    def iterators(self) -> tuple[Iterator, ...]:
        return parallel(*(f"d{k}" for k in range(len(shape_of(self.result.type)))))

    def maps(self) -> tuple[IndexingMap, ...]:
        return ()

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators()))

    def positions(self) -> tuple[Position, ...]:
        return (Position(Symbol(f"d{self.dim}").size(), self.acc_type, *self.begins),)

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        shape = evaluation.shape(self.result.type)
        begin = evaluation.size(self.begins[0]) if self.begins else 0
        return ((np.indices(shape)[self.dim] + begin).astype(self.acc_type.numpy),)


@register
class Ordered(Structured):
    """The smaller and the larger of two values, element by element."""

    __slots__ = ()
    opcode = "outside.ordered"
    class_name = "ordered"
    has_numbered_dims = True
    a, b = Operand(), Operand()
    low, high = Result(), Result()

    def iterators(self) -> tuple[Iterator, ...]:
        return parallel(*(f"d{k}" for k in range(len(shape_of(self.low.type)))))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),) * 2

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return self.maps()

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        return build(Min.of(*args)), build(Max.of(*args))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return np.minimum(*args), np.maximum(*args)


class AlongDim(Structured):
    """A reduction of one operand over the dim `dim` to several results."""

    __slots__ = ()
    has_numbered_dims = True
    operand, dim = Operand(), IntAttribute()

    def iterators(self) -> tuple[Iterator, ...]:
        rank = len(shape_of(self.operand.type))
        return tuple(reduction(f"d{k}")[0] if k == self.dim else parallel(f"d{k}")[0] for k in range(rank))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators() if not it.is_reduction)),) * len(self.results)


@register
class ArgMax(AlongDim):
    """The largest element along `dim` and its first index; a NaN counts as the largest."""

    __slots__ = ()
    opcode = "outside.argmax"
    class_name = "argmax"
    init = OptionalOperand()
    values, indices = Result(), Result()
    begins = DimsAttribute("origins")

    def positions(self) -> tuple[Position, ...]:
        return (Position(Symbol(f"d{self.dim}").size(), si64, *self.begins),)

    def neutrals(self) -> tuple[float | int, ...]:
        return float("-inf"), si64.maximum

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        return self.joined(build, accumulators, args) if accumulators else tuple(args)

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        (a, i), (b, j) = lhs, rhs
        first = build(Select.of(build(Less.of(b, a)), i, build(Min.of(i, j))))
        larger = build(Select.of(build(Less.of(a, b)), j, first))
        is_number = self._is_number(build, b)
        beside_nan = build(Select.of(is_number, i, first))
        beside_number = build(Select.of(is_number, larger, j))
        return build(Max.of(a, b)), build(Select.of(self._is_number(build, a), beside_number, beside_nan))

    def _is_number(self, build: Build, x: Value) -> Value:
        """Whether x is no NaN, of which no minimum is below 0."""
        least = build(Min.of(x, splat(build, float("-inf"), x.type)))
        return build(Less.of(least, splat(build, 0.0, x.type)))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        begin = evaluation.size(self.begins[0]) if self.begins else 0
        x = args[0].astype(np.float64)
        values = np.full(evaluation.shape(self.values.type), -np.inf)
        indices = np.full(values.shape, si64.maximum)
        if x.shape[self.dim]:
            values, indices = np.max(x, self.dim), np.argmax(x, self.dim) + begin
        if len(args) > 1:
            before, index = args[1].astype(np.float64), args[2].astype(np.int64)
            with np.errstate(invalid="ignore"):
                above = (before > values) | (np.isnan(before) & ~np.isnan(values))
                below = (before < values) | (np.isnan(values) & ~np.isnan(before))
            stays = above | (~below & (index < indices))
            values, indices = np.maximum(before, values), np.where(stays, index, indices)
        return values.astype(args[0].dtype), indices.astype(np.int64)


@register
class LogSumExp(AlongDim):
    """The largest element m along `dim`, and the sum of exp(x - m); what is empty has m = -inf and no sum."""

    __slots__ = ()
    opcode = "outside.logsumexp"
    class_name = "logsumexp"
    init = OptionalOperand()
    largest, total = Result(), Result()

    def neutrals(self) -> tuple[float | int, ...]:
        return float("-inf"), 0.0

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        lifted = args[0], splat(build, 1.0, args[0].type)
        return self.joined(build, accumulators, lifted) if accumulators else lifted

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        largest = build(Max.of(lhs[0], rhs[0]))
        parts = [build(Mul.of(total, self._scale(build, m, largest))) for m, total in (lhs, rhs)]
        return largest, build(Add.of(*parts))

    def _scale(self, build: Build, m: Value, largest: Value) -> Value:
        """exp(m - largest), and 1 where both are -inf."""
        is_finite = build(Less.of(splat(build, float("-inf"), m.type), largest))
        distance = build(Select.of(is_finite, build(Sub.of(m, largest)), splat(build, 0.0, m.type)))
        return build(Exp.of(distance))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        m, total = np.max(x, self.dim, initial=-np.inf), None
        if len(args) > 1:
            m = np.maximum(m, args[1])
        at = np.where(np.isinf(m), 0, m)
        total = np.sum(np.exp(x - np.expand_dims(at, self.dim)), self.dim)
        if len(args) > 1:
            total = total + args[2] * np.exp(args[1].astype(np.float64) - at)
        return m.astype(args[0].dtype), total.astype(args[0].dtype)


@register
class Moments(AlongDim):
    """Count, mean and sum of squared differences along `dim`, combined as Chan, Golub and LeVeque (1979) do."""

    __slots__ = ()
    opcode = "outside.moments"
    class_name = "moments"
    init = OptionalOperand()
    count, mean, squares = Result(), Result(), Result()

    def neutrals(self) -> tuple[float | int, ...]:
        return 0.0, 0.0, 0.0

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        lifted = splat(build, 1.0, args[0].type), args[0], splat(build, 0.0, args[0].type)
        return self.joined(build, accumulators, lifted) if accumulators else lifted

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        (n, mean, squares), (m, other, more) = lhs, rhs
        count = build(Add.of(n, m))
        divisor = build(Max.of(count, splat(build, 1.0, count.type)))  # of nothing and nothing, nothing
        share = build(Div.of(m, divisor))
        delta = build(Sub.of(other, mean))
        moved = build(Mul.of(build(Mul.of(delta, delta)), build(Mul.of(n, share))))
        shifted = build(Add.of(mean, build(Mul.of(delta, share))))
        return count, shifted, build(Add.of(build(Add.of(squares, more)), moved))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        x = args[0].astype(np.float64)
        count = np.full(evaluation.shape(self.count.type), float(x.shape[self.dim]))
        mean = np.sum(x, self.dim) / np.maximum(count, 1)
        squares = np.sum((x - np.expand_dims(mean, self.dim)) ** 2, self.dim)
        if len(args) > 1:
            n, before, more = (a.astype(np.float64) for a in args[1:])
            total = np.maximum(n + count, 1)
            delta = mean - before
            squares = squares + more + delta**2 * n * count / total
            count, mean = n + count, before + delta * count / total
        return tuple(a.astype(args[0].dtype) for a in (count, mean, squares))
