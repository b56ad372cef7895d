"""The greatest elements of windows, with their indices."""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Result
from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.interfaces import Build, Position
from tcpx.payload.ir import Block, Operation, Value, register
from tcpx.payload.ops.bits import Or
from tcpx.payload.ops.elementwise import Add, Max, Min, Mul, cast_to
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Fill
from tcpx.payload.ops.pooling import OneWindowed, Pooling
from tcpx.payload.ops.select import Equal, IsNan, Select
from tcpx.payload.ops.tuple_reduce import first_of
from tcpx.payload.ops.views import Pad
from tcpx.payload.ops.windows import PADDING, Windowed
from tcpx.payload.sizes import Dim, product
from tcpx.payload.types import ScalarType, TensorType, Type, dtype_of, like, shape_of, si32, si64


@register
class PoolingArgmax(OneWindowed):
    """The greatest element of each window of the operand, as `tcp.pooling` gives it, and the index of the first element
    that is as great; a NaN is the greatest.

    Indices count the elements along `dims` in row-major order. A window without any element has the greatest number of
    the dtype as its index.
    """

    __slots__ = ()
    opcode = "tcp.pooling_argmax"
    class_name = "pooling_argmax"
    values, indices = Result(), Result()

    @property
    def expands_first(self) -> bool:
        return True

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return (self.result_map(),) * 2

    def positions(self) -> tuple[Position, ...]:
        index: Dim = 0
        for window in self.windows():
            index = index * shape_of(self.operand.type)[window.place] + window.entry()
        return (Position(index, dtype_of(self.indices.type)),)

    def neutrals(self) -> tuple[float | int, ...]:
        return self.acc_types[0].minimum, self.acc_types[1].maximum

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        return self.joined(build, accumulators, args) if accumulators else tuple(args)

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        return first_of(build, Max, lhs, rhs)

    def usual_types(self) -> list[Type] | None:
        found = super().usual_types()
        return found and [found[0], like(found[0], shape_of(found[0]), si64)]

    def long_form(self, operands: Sequence[Value]) -> Windowed:
        held = {key: attribute for key, attribute in self.attributes.items() if key not in PADDING}
        return Pooling(operands, [self.values.type], held)

    def verify(self) -> None:
        super().verify()
        value, index = self.values.type, self.indices.type
        if dtype_of(value) != dtype_of(self.operand.type) or not dtype_of(index).is_integer or index != like(
            value, shape_of(value), dtype_of(index)
        ):  # fmt: skip
            raise self.error(
                "the results are elements of the operand and their indices, of one shape",
                required=f"{dtype_of(self.operand.type)}, and integers",
                found=f"{value}, {index}",
            )

    def decompose(self, build: Build) -> Sequence[Value]:
        """A pooling, and in each window the least index of what equals the greatest element: in 32 bits if they fit."""
        x, windows, shape = self.operand, self.windows(), self.padded_shape()
        own = [shape_of(x.type)[window.place] for window in windows]
        counts = si32 if self._holds("<=", product(own), int(si32.maximum)) is True else si64
        low = {window.place: window.low for window in windows}
        padded = build(Pad.of(x, shape, dtype_of(x.type).minimum, [low.get(k, 0) for k in range(len(shape))]))
        most = build(self.long_form([padded]))
        none = int(counts.maximum)
        places = build(Pad.of(_row_major(build, own, counts), [shape[k] for k in low], none, [*low.values()]))
        read = [window.entry() + window.low for window in windows]
        entries = dict(zip(low, read, strict=True))
        kept = self.result_map()
        maps = (tuple(entries.get(k, entry) for k, entry in enumerate(kept)), tuple(read), kept, kept)
        held = {"iterators": tuple(it.entry for it in self.iterators()), "maps": maps, "combiner": Min.opcode}
        type_ = like(most.type, shape_of(most.type), counts)
        first = build(Generic([padded, places, most], [type_], held, [_least_index(dtype_of(x.type), counts)]))
        return most, cast_to(build, first, dtype_of(self.indices.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        (x,), shape = args, evaluation.shape(self.values.type)
        value, index = dtype_of(self.values.type), dtype_of(self.indices.type)
        most, first = np.full(shape, value.minimum).astype(value.numpy), np.full(shape, index.maximum, np.int64)
        order = [window.place for window in self.windows()]
        places = np.arange(np.prod([x.shape[k] for k in order])).reshape([x.shape[k] for k in order])
        places = places.transpose(np.argsort(order)).reshape([n if k in order else 1 for k, n in enumerate(x.shape)])
        places = np.broadcast_to(places, x.shape)
        for _, elements, windows in self.taps(evaluation):
            at = tuple(windows.get(f"d{k}", slice(None)) for k in range(x.ndim))
            part = x[elements]
            is_first = np.greater(part, most[at]) | (first[at] == index.maximum)
            is_first |= np.isnan(part) & ~np.isnan(most[at]) if value.is_float else False
            most[at] = np.where(is_first, part, most[at])
            first[at] = np.where(is_first, places[elements], first[at])
        return most, first.astype(index.numpy)


def _row_major(build: Build, extents: Sequence[Dim], dtype: ScalarType) -> Value:
    """The index of each element of a shape, as one dim."""
    type_ = TensorType(tuple(extents), dtype)
    index = build(Iota([], [type_], {"dim": 0}))
    for dim, extent in enumerate(extents[1:], 1):
        above = build(Mul.of(index, build(Fill.of(extent, type_))))
        index = build(Add.of(above, build(Iota([], [type_], {"dim": dim}))))
    return index


def _least_index(dtype: ScalarType, counts: ScalarType) -> Block:
    """The body of the least index of the elements that equal the greatest one; all NaN are equal."""
    block = Block([("e", dtype), ("at", counts), ("most", dtype), ("acc", counts)])

    def build(op: Operation) -> Value:
        op.name = op.results[0].name = f"v{len(block.ops)}"
        return block.append(op).results[0]

    element, index, most, acc = block.args
    equal = build(Equal.of(element, most))
    if dtype.is_float:
        equal = build(Or.of(equal, build(IsNan.of(element))))  # the greatest one is NaN then
    block.append(Yield([build(Select.of(equal, build(Min.of(acc, index)), acc))]))
    return block
