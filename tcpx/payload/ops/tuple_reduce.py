"""Reductions to several results over the dims `dims`, whose partial results are tuples."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, ElementsAttribute, Operand, OptionalOperand, Result
from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Build, Iterator, Position, Structured
from tcpx.payload.ir import Attribute, Operation, Value, register
from tcpx.payload.ops.bits import Or
from tcpx.payload.ops.composite import filled
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Arithmetic, Div, Max, Min, Mul, MultiplyAdd, Sub, cast_to, converted
from tcpx.payload.ops.select import IsNan, Less, LessEqual, Select
from tcpx.payload.sizes import Dim, at_least_one, product, to_text
from tcpx.payload.traits.to_write import types_by_maps
from tcpx.payload.types import ScalarType, Type, dtype_of, like, shape_of, si32, si64


class TupleReduce(Structured):
    """A reduction of one operand over `dims` to several results, each without these dims."""

    __slots__ = ()
    class_name = "reduce"
    has_numbered_dims = True
    operand, init = Operand(), OptionalOperand()
    reduced = ElementsAttribute(int, "a list of ints", key="dims", example="[0]")
    """The positions of the reduced dims."""

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        names, kept = (map_dims(op.maps()[0]) if len(op.maps()) == 1 else None), map_dims(op.result_maps()[0])
        if names is None or kept is None:
            return None
        return {"dims": tuple(k for k, name in enumerate(names) if name not in kept)}

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.operand.type)), self.reduced)

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators())),)

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return (dims(*(it.name for it in self.iterators() if not it.is_reduction)),) * (
            self.signature.result_count or len(self.results)
        )

    def verify(self) -> None:
        rank = len(shape_of(self.operand.type))
        if list(self.reduced) != sorted(set(self.reduced)) or any(not 0 <= d < rank for d in self.reduced):
            right = sorted({d + rank if -rank <= d < 0 else d for d in self.reduced})
            raise self.error(
                "`dims` names dims of the operand, in their order",
                required=f"rising dims, 0 or more, and below {rank}",
                found=str(list(self.reduced)),
                fix=f"{{dims = {right}}}" if all(0 <= d < rank for d in right) else None,
            )
        super().verify()


def first_of(build: Build, combiner: type[Arithmetic], lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
    """Of two elements with their indices, the one that goes before the other, or the least index of equal ones."""
    (a, i), (b, j) = lhs, rhs
    before, after = ((a, b), (b, a))[:: 1 if combiner is Min else -1]
    if_not_before = build(Select.of(build(Less.of(*after)), j, build(Min.of(i, j))))
    index = build(Select.of(build(Less.of(*before)), i, if_not_before))
    if dtype_of(a.type).is_float:
        is_nan, other_is = (build(IsNan.of(x)) for x in (a, b))
        nan_first = build(Select.of(other_is, build(Min.of(i, j)), i))
        index = build(Select.of(is_nan, nan_first, build(Select.of(other_is, j, index))))
    return build(combiner.of(a, b)), index


class ArgReduce(TupleReduce):
    """The element that goes before all others over `dims`, and the first index of one. A NaN goes before all numbers.

    Of several dims, the index counts their elements in row-major order. There is at least one element.
    """

    __slots__ = ()
    values, indices = Result(), Result()
    begins, extents_of_all = DimsAttribute("origins"), DimsAttribute("extents")
    combiner: ClassVar[type[Arithmetic]]

    @property
    def _extents(self) -> tuple[Dim, ...]:
        """The extents of the reduced dims; a tile keeps those of the whole."""
        return self.extents_of_all or tuple(shape_of(self.operand.type)[k] for k in self.reduced)

    @property
    def _count(self) -> Dim:
        """How many elements there are to choose from."""
        return product(tuple(shape_of(self.operand.type)[k] for k in self.reduced))

    def positions(self) -> tuple[Position, ...]:
        index: Dim = 0
        for dim, extent in zip(self.reduced, self._extents, strict=True):
            index = index * extent + self.iterators()[dim].dim
        return (Position(index, self.acc_types[1], *self.begins),)

    def on_tiles(self, operands: Sequence[Value], *shapes: Sequence[Dim]) -> Operation:
        made = super().on_tiles(operands, *shapes)
        if len(self.reduced) > 1:
            made.attributes["extents"] = self._extents
        return made

    def verify(self) -> None:
        super().verify()
        value, index = self.acc_types
        if value != dtype_of(self.operand.type) or value.bits == 1:
            wanted = "a number type" if value.bits == 1 else dtype_of(self.operand.type).name
            raise self.error(
                "the values are elements of the operand", wanted, value.name, Direction("insert a tcp.cast")
            )
        if not index.is_integer:
            raise self.error("the second result is an index", required="integers", found=index.name)
        for dim in self.reduced if not self.inits else ():
            extent = shape_of(self.operand.type)[dim]
            if not self._holds("<=", 1, extent):
                raise self.error(
                    f"dim {dim} of %{self.operand.name} may be empty, and nothing has no first element",
                    required="an extent of at least 1",
                    found=to_text(extent),
                    fix=at_least_one(extent),
                    unproven=not isinstance(extent, int),
                )

    def usual_types(self) -> list[Type] | None:
        found = types_by_maps(self)
        return None if found is None else [found[0], like(found[1], shape_of(found[1]), si64)]

    def neutrals(self) -> tuple[float | int, ...] | None:
        number = self.combiner.neutral_of(self.acc_types[0])
        return None if number is None else (number, self.acc_types[1].maximum)

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        """What goes before nothing: where all elements are so, the index of one of them is the smallest. Indices of
        padding count on behind those of elements, as far again at most, and do not wrap around."""
        neutrals = self.neutrals()
        if not reduced or neutrals is None:
            return None if reduced else 0
        return neutrals[0] if self._has_room(self.acc_types[1]) else None

    def _has_room(self, dtype: ScalarType) -> bool:
        """Whether an integer type holds all indices and as many behind them."""
        return dtype.bits == 64 or self._holds("<=", 2 * product(self._extents), int(dtype.maximum)) is True

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        """Indices in 32 bits where these hold them: vectors then have as many of them as elements."""
        value, index = self.acc_types
        is_long = index.bits == 64 and not self.inits and self._has_room(si32)
        return value, si32 if is_long else index

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        return self.joined(build, accumulators, args) if accumulators else tuple(args)

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        return first_of(build, self.combiner, lhs, rhs)

    def joined_later(
        self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]
    ) -> tuple[tuple[Value, ...], tuple[float | int, ...]] | None:
        """What is there stays, unless the other one goes before it. It starts as the element at 0 that goes before no
        other: where all elements are so, 0 is the first index."""
        (a, i), (b, j) = lhs, rhs
        neutrals = self.neutrals()
        if neutrals is None or any(begin != 0 for begin in self.begins) or not self._holds("<=", 1, self._count):
            return None
        stays = build(LessEqual.of(*((a, b) if self.combiner is Min else (b, a))))
        if dtype_of(a.type).is_float:
            stays = build(Or.of(stays, build(IsNan.of(a))))
        return (build(Select.of(stays, a, b)), build(Select.of(stays, i, j))), (neutrals[0], 0)

    def decompose(self, build: Build) -> Sequence[Value]:
        """A tile counts from its first element on, in 32 bits where these hold that, and its result is joined with
        what there is."""
        index = self.acc_types[1]
        if not self.begins or not self._holds("<=", 1, self._count):
            return ()
        counts = si32 if index.bits == 64 and self._has_room(si32) else index
        attributes = {key: value for key, value in self.attributes.items() if key != "origins"}
        types = [self.values.type, like(self.indices.type, shape_of(self.indices.type), counts)]
        local = type(self)([self.operand], types, attributes)
        best = build(local)
        place = cast_to(build, local.indices, index)
        found = best, build(Add.of(place, filled(build, self.begins[0], place.type)))
        return self.joined(build, self.inits, found) if self.inits else found

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        value, index = self.acc_types
        shape = evaluation.shape(self.values.type)
        kept = [k for k in range(args[0].ndim) if k not in self.reduced]
        x = np.transpose(args[0], (*kept, *self.reduced)).reshape(*shape, -1 if args[0].size else 0)
        positions = np.zeros(x.shape[-1:], np.int64)
        if x.size:
            inner = [evaluation.size(d) for d in self._extents]
            places = np.indices([args[0].shape[k] for k in self.reduced]).reshape(len(self.reduced), x.shape[-1])
            for place, extent in zip(places, inner, strict=True):
                positions = positions * extent + place
        if self.begins:
            positions = positions + evaluation.size(self.begins[0])
        elements = np.concatenate([np.expand_dims(args[1], -1), x], -1) if len(args) > 1 else x
        given = np.broadcast_to(positions, x.shape)
        if len(args) > 1:
            given = np.concatenate([np.expand_dims(args[2].astype(np.int64), -1), given], -1)
        if not elements.shape[-1]:
            number, last = self.neutrals() or (0, 0)
            return np.full(shape, number).astype(value.numpy), np.full(shape, last).astype(index.numpy)
        best = self.combiner.ufunc.reduce(elements, axis=-1)
        same = (elements == best[..., None]) | (np.isnan(elements) & np.isnan(best)[..., None])
        first = np.min(np.where(same, given, index.maximum), axis=-1)
        return np.asarray(best).astype(value.numpy), np.asarray(first).astype(index.numpy)


@register
class ReduceArgmax(ArgReduce):
    """The largest element over `dims` and its first index; a NaN counts as the largest. No dim of `dims` is empty.

    For several dims, the index counts their elements in row-major order.
    """

    __slots__ = ()
    opcode = "tcp.reduce_argmax"
    class_name = "reduce_argmax"
    combiner = Max


@register
class ReduceArgmin(ArgReduce):
    """The smallest element over `dims` and its first index; a NaN counts as the smallest. No dim of `dims` is empty.

    For several dims, the index counts their elements in row-major order.
    """

    __slots__ = ()
    opcode = "tcp.reduce_argmin"
    class_name = "reduce_argmin"
    combiner = Min


@register
class ReduceMoments(TupleReduce):
    """Count, mean and sum of squared differences from the mean over `dims`, in one pass, combined as by Chan, Golub and
    LeVeque (1979); all are 0 without elements. With infinities, mean and squares are NaN, in any order, and
    with elements whose squares are beyond the dtype, the squares are. Counts are exact up to 2**24 in f32."""

    __slots__ = ()
    opcode = "tcp.reduce_moments"
    class_name = "reduce_moments"
    count, mean, squares = Result(), Result(), Result()

    def verify(self) -> None:
        super().verify()
        dtypes = set(self.acc_types)
        if len(dtypes) > 1 or not (self.acc_types[0].is_float and self.acc_types[0].bits >= 32):
            found = ", ".join(t.name for t in self.acc_types)
            raise self.error("the results have one float type that counts", required="f32 or f64", found=found)

    def neutrals(self) -> tuple[float | int, ...] | None:
        return 0.0, 0.0, 0.0

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        x = cast_to(build, args[0], self.acc_types[0])
        zero = splat(build, 0.0, x.type)
        mean = build(MultiplyAdd.of(x, zero, x))  # NaN of an infinity, from which others would have NaN or not
        lifted = splat(build, 1.0, x.type), mean, zero
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
        given = converted(args[0], dtype_of(self.operand.type), self.acc_types[0])
        x, shape = given.astype(np.float64), evaluation.shape(self.count.type)
        x = np.where(np.isfinite(x), x, np.nan)
        count = np.full(shape, float(np.prod([x.shape[k] for k in self.reduced])))
        mean = np.sum(x, self.reduced) / np.maximum(count, 1)
        squares = np.sum((x - np.expand_dims(mean, self.reduced)) ** 2, self.reduced)
        squares = np.where(np.any(np.isinf(np.square(given)), self.reduced), np.nan, squares)
        if len(args) > 1:
            n, before, more = (a.astype(np.float64) for a in args[1:])
            delta, total = mean - before, np.maximum(n + count, 1)
            squares = squares + more + delta**2 * n * count / total
            count, mean = n + count, before + delta * count / total
        return tuple(np.asarray(a).astype(self.acc_types[0].numpy) for a in (count, mean, squares))
