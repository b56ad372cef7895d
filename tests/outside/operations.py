"""Operations that the package does not have, declared as a user would: positions, several results, tuple reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, FlagAttribute, IntAttribute, Operand, OptionalOperand, Result
from tcpx.payload.indexing_maps import IndexingMap, dims, element_of
from tcpx.payload.interfaces import (
    Build,
    Iterator,
    IteratorKind,
    Position,
    Ragged,
    Structured,
    parallel,
    reduction,
    sequential,
    whole,
)
from tcpx.payload.ir import Attribute, Block, Operation, Value, register
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.constant import Const, splat
from tcpx.payload.ops.elementwise import Add, Cast, Div, Max, Min, Mul, Sub
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.types import dtype_of, i1, like, shape_of, si64


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


@register
class Gather(Structured):
    """Of `table`, along `axis`, the elements that `places` says; where that is none, 0, if that may be."""

    __slots__ = ()
    opcode = "outside.gather"
    class_name = "gather"
    has_numbered_dims = True
    table, places, axis, fills = Operand(), Operand(), IntAttribute(), FlagAttribute()

    @property
    def outside(self) -> int | None:
        return 0 if self.fills else None

    def iterators(self) -> tuple[Iterator, ...]:
        return parallel(*(f"d{k}" for k in range(len(shape_of(self.result.type)))))

    def maps(self) -> tuple[IndexingMap, ...]:
        own = self.result_map()
        return (*own[: self.axis], element_of(1), *own[self.axis + 1 :]), (own[self.axis],)

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators()))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0]

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        table, places = args[0], args[1].astype(np.int64)
        if self.fills:
            extent = table.shape[self.axis]
            places = np.where((places < 0) | (places >= extent), extent, places)
            table = np.pad(table, [(0, int(k == self.axis)) for k in range(table.ndim)])
        return (np.take(table, places, self.axis),)


@register
class ScatterAdd(Structured):
    """`init` with the rows of `rows` added, each to the row that `places` says."""

    __slots__ = ()
    opcode = "outside.scatter_add"
    class_name = "scatter_add"
    fixed_dims = ("i", "j")
    rows, places, init = Operand(), Operand(), OptionalOperand()

    def iterators(self) -> tuple[Iterator, ...]:
        return (*reduction("i"), *parallel("j"))

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims("i", "j"), dims("i")

    def result_map(self) -> IndexingMap:
        return (element_of(1), *dims("j"))

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        return 0  # 0 is added to the first row

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0] if acc is None else self.combine(build, acc, args[0])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        made = args[2].copy() if len(args) > 2 else np.zeros(evaluation.shape(self.result.type), args[0].dtype)
        np.add.at(made, args[1].astype(np.int64), args[0])
        return (made,)


@register
class CsrTimesDense(Structured):
    """A sparse matrix times a dense one: row `m` has `values` from `first[m]` to `end[m]`, in `columns`."""

    __slots__ = ()
    opcode = "outside.csr_times_dense"
    class_name = "csr_times_dense"
    fixed_dims = ("m", "k", "d")
    values, columns, first, end, dense = Operand(), Operand(), Operand(), Operand(), Operand()
    init, begins = OptionalOperand(), DimsAttribute("origins")

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("m"), *reduction("k"), *parallel("d"))

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims("k"), dims("k"), dims("m"), dims("m"), (element_of(1), *dims("d"))

    def result_map(self) -> IndexingMap:
        return dims("m", "d")

    def ragged(self) -> Mapping[str, Ragged]:
        return {"k": Ragged(2, 3, *self.begins)}

    def ragged_from(self, origins: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        return {"origins": (origins["k"],)}

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        product = build(Mul.of(args[0], args[4]))
        return product if acc is None else self.combine(build, acc, product)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        values, columns, first, end, dense = args[:5]
        begin = evaluation.size(self.begins[0]) if self.begins else 0
        made = args[5].copy() if len(args) > 5 else np.zeros(evaluation.shape(self.result.type), values.dtype)
        for m, (low, high) in enumerate(zip(first, end, strict=True)):
            for k in range(max(0, int(low) - begin), min(len(values), int(high) - begin)):
                made[m] += values[k] * dense[int(columns[k])]
        return (made,)


@register
class CumSum(Structured):
    """The sums of the elements along `dim` up to each, and of all of them."""

    __slots__ = ()
    opcode = "outside.cumsum"
    class_name = "cumsum"
    has_numbered_dims = True
    operand, dim, init = Operand(), IntAttribute(), OptionalOperand()
    sums, total = Result(), Result()

    def iterators(self) -> tuple[Iterator, ...]:
        rank = len(shape_of(self.operand.type))
        return tuple(sequential(f"d{k}")[0] if k == self.dim else parallel(f"d{k}")[0] for k in range(rank))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return *self.maps(), dims(*(it.name for it in self.iterators() if not it.is_sequential))

    def neutrals(self) -> tuple[float | int, ...]:
        return 0, 0

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        added = build(Add.of(accumulators[1], args[0]))
        return added, added

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        start = args[2] if len(args) > 2 else np.zeros(evaluation.shape(self.total.type), args[0].dtype)
        both = np.concatenate([np.expand_dims(start, self.dim), args[0]], self.dim)
        sums = np.add.accumulate(both, self.dim, dtype=args[0].dtype)
        return np.delete(sums, 0, self.dim), np.take(sums, -1, self.dim)


@register
class RowSort(Composite):
    """The elements of each row in rising order, NaN last; equal ones stay in theirs."""

    __slots__ = ()
    opcode = "outside.row_sort"
    class_name = "row_sort"
    operand = Operand()

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("d0"), *whole("d1"))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims("d0", "d1"),)

    def check_dtypes(self) -> None:
        found, required = (dtype_of(value.type).name for value in (self.operand, self.result))
        if found != required:
            raise self.error("operands and result have one dtype", required=required, found=found)

    def decompose(self, build: Build) -> Value:
        """How many elements go before each, and each where that says."""
        x, type_ = self.operand, self.operand.type
        three: Attribute = (("i", "parallel"), ("j", "parallel"), ("k", "reduction"))
        ij, ik = dims("i", "j"), dims("i", "k")
        counting = {"iterators": three, "maps": (ij, ik, ij), "positions": dims("j", "k"), "combiner": "tcp.add"}
        dtype = dtype_of(type_)
        block = Block([("a", dtype), ("b", dtype), ("j", si64), ("k", si64), ("acc", si64)])
        a, b, j, k, acc = block.args

        def made(op: Operation) -> Value:
            return block.append(op).result

        after, before = (self._less(made, *pair) for pair in ((a, b), (b, a)))
        is_equal = made(Select.of(after, made(Const.literal(0, i1)), made(Less.of(k, j))))
        goes_before = made(Select.of(before, made(Const.literal(1, i1)), is_equal))
        block.append(Yield([made(Add.of(acc, made(Cast.of(goes_before, si64))))]))
        rank = build(Generic([x, x], [like(type_, shape_of(type_), si64)], counting, [block]))
        two: Attribute = (("i", "parallel"), ("j", "reduction"))
        maps = (ij, ij, (dims("i")[0], element_of(1)))
        placing = {"iterators": two, "maps": maps, "combiner": "tcp.max", "out_of_range": "clamp"}
        block = Block([("a", dtype), ("place", si64), ("acc", dtype)])
        block.append(Yield([block.append(Max.of(block.args[2], block.args[0])).result]))
        return build(Generic([x, rank], [type_], placing, [block]))

    def _less(self, build: Build, a: Value, b: Value) -> Value:
        """Whether a goes before b wherever they stand: it is smaller, or b alone is a NaN."""
        if not dtype_of(a.type).is_float:
            return build(Less.of(a, b))
        numbers = [
            build(Select.of(self._is_negative(build, x), self._one(build), self._rest(build, x))) for x in (a, b)
        ]
        alone = build(Less.of(build(Cast.of(numbers[1], si64)), build(Cast.of(numbers[0], si64))))
        return build(Select.of(build(Less.of(a, b)), self._one(build), alone))

    def _is_negative(self, build: Build, x: Value) -> Value:
        return build(Less.of(x, splat(build, 0.0, x.type)))

    def _rest(self, build: Build, x: Value) -> Value:
        return build(Less.of(splat(build, -1.0, x.type), x))

    def _one(self, build: Build) -> Value:
        return build(Const.literal(1, i1))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.sort(args[0], 1, kind="stable"),)


@register
class MaxPool(Structured):
    """The largest element in windows of `size` by `size`, `stride` apart."""

    __slots__ = ()
    opcode = "outside.max_pool"
    class_name = "max_pool"
    fixed_dims = ("i", "j", "a", "b")
    operand, stride, taps, init = Operand(), IntAttribute(), DimsAttribute("size"), OptionalOperand()
    reads_all_of_operands = False

    def iterators(self) -> tuple[Iterator, ...]:
        taps = zip(("a", "b"), self.taps, strict=True)
        return (*parallel("i", "j"), *(Iterator(name, IteratorKind.REDUCTION, size) for name, size in taps))

    def maps(self) -> tuple[IndexingMap, ...]:
        i, j, a, b = dims("i", "j", "a", "b")
        return ((self.stride * i + a, self.stride * j + b),)

    def result_map(self) -> IndexingMap:
        return dims("i", "j")

    def declaring(self, extents: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        return {"size": (extents["a"], extents["b"])}

    def neutral(self) -> float | int | None:
        return self.acc_type.minimum

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Max.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0] if acc is None else self.combine(build, acc, args[0])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        shape, taps = evaluation.shape(self.result.type), [evaluation.size(n) for n in self.taps]
        made = args[1].copy() if len(args) > 1 else np.full(shape, self.neutral()).astype(args[0].dtype)
        for a, b in np.ndindex(*taps):
            ends = [first + (n - 1) * self.stride + 1 for first, n in zip((a, b), shape, strict=True)]
            if all(shape):
                made = np.maximum(made, args[0][a : ends[0] : self.stride, b : ends[1] : self.stride])
        return (made,)


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
