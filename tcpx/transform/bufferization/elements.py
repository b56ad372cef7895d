"""Operations on tensors as loop nests that read, compute and write one element at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Iterator, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Symbol, floordiv, is_equal, maximum, mod, product, substitute
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType, row_major, shape_of
from tcpx.transform import new
from tcpx.transform.bufferization.buffers import Buffers
from tcpx.transform.bufferization.effects import Effects
from tcpx.transform.bufferization.loop_nests import Nest, element
from tcpx.transform.bufferization.storage import Place


class ElementLoops:
    """Makes loop nests; `effects` and `buffers` say where values are."""

    def __init__(self, rewriter: Rewriter, effects: Effects, buffers: Buffers) -> None:
        self.rewriter, self.effects, self.buffers = rewriter, effects, buffers

    def _nest(self, op: Operation, suffix: str = "") -> Nest:
        name = op.name or op.opcode.rpartition(".")[2]
        return Nest(self.rewriter, op, f"{name}{suffix}")

    def read(self, nest: Nest, place: Place, index: Sequence[Dim]) -> Value:
        """Read one element of the value at a place."""
        subset = self.buffers.subset(place, element(index))
        return nest.build(Read.of(self.buffers.of(place), subset, place.memory.type.dtype))

    def write(self, nest: Nest, value: Value, place: Place, index: Sequence[Dim]) -> Write:
        """Write one element of the value at a place."""
        made = Write([value, self.buffers.of(place)], [], {"subset": self.buffers.subset(place, element(index))})
        return nest.insert(made)

    # -- computation ---------------------------------------------------------------------------------------------

    def compute(self, op: Structured) -> dict[Value, Value]:
        """Compute a structured operation: loops over its parallel dims round loops over its reductions.

        `op` continues as the operation that does its arithmetic. Returns what its scalar results are.
        """
        nest = self._nest(op)
        iterators = op.iterators()
        extents = dict(zip((it.name for it in iterators), op.counted(), strict=True))
        index: dict[Symbol, Dim] = {}
        for it in _result_order(op, iterators):
            index[it.dim] = nest.enter(it.name, extents[it.name])
        reductions = [it for it in iterators if it.is_reduction]
        places = [tuple(substitute(e, index) for e in result_map) for result_map in op.result_maps()]
        accumulators = self._start(op, nest, places, bool(reductions))
        for it in reductions:
            if not accumulators:
                raise op.error("a reduction starts from a neutral element", required="a combiner that has one")
            index[it.dim], accumulators = nest.enter_carrying(it.name, extents[it.name], accumulators)
        known: dict[tuple[Value, tuple[Dim, ...]], Value] = {}
        args: list[Value] = []
        for value, indexing_map in zip(op.inputs, op.maps(), strict=True):
            at = tuple(substitute(e, index) for e in indexing_map)
            if (value, at) not in known:
                known[value, at] = self._operand(nest, value, at)
            args.append(known[value, at])
        args += [nest.build(new.index_value(position.at(index), position.dtype)) for position in op.positions()]
        before = len(nest.made)
        made = op.elements(nest.build, args, accumulators)
        arithmetic = [o for o in nest.made[before:] if made[0] in o.results and o.operands]
        anchor: Operation | None = arithmetic[0] if arithmetic else None
        scalars: dict[Value, Value] = {}
        for result, value, place in zip(op.results, nest.leave_carrying(made), places, strict=True):
            if isinstance(result.type, TensorType):
                stored = self.write(nest, value, self.effects.place(result), place)
                anchor = anchor or stored
            else:
                scalars[result] = value
        self._continue(op, anchor)
        return scalars

    def _start(self, op: Structured, nest: Nest, places: Sequence[Sequence[Dim]], reduces: bool) -> Sequence[Value]:
        if op.inits:
            return [self._operand(nest, value, place) for value, place in zip(op.inits, places, strict=True)]
        numbers = (op.neutrals() or ()) if reduces else ()
        return [nest.build(new.literal(n, dtype)) for n, dtype in zip(numbers, op.acc_types, strict=False)]

    def _operand(self, nest: Nest, value: Value, index: Sequence[Dim]) -> Value:
        through = self.effects.seen_through(value)
        if through is not None:
            dims = zip((map_dim(e) for e in through.result_map()), index, strict=True)
            at = {Symbol(name): position for name, position in dims if name is not None}
            args = [
                self._operand(nest, v, [substitute(e, at) for e in indexing_map])
                for v, indexing_map in zip(through.inputs, through.maps(), strict=True)
            ]
            return through.scalar_body(nest.build, args, None)
        if self.effects.of(value) is None:
            return value
        return self.read(nest, self.effects.place(value), index)

    def _continue(self, op: Operation, anchor: Operation | None) -> None:
        """Let `anchor`, which was made here, be `op` from now on, under its name."""
        if anchor is None:
            self.rewriter.end(op, "bufferize found nothing to compute")
            return
        if len(anchor.results) == len(op.results):
            for old, new in zip(op.results, anchor.results, strict=True):
                new.name = old.name
        self.rewriter.rename(anchor, op.name)
        self.rewriter.continue_as(op, anchor)

    # -- data movement -------------------------------------------------------------------------------------------

    def fill(self, op: Operation, number: float, place: Place, shape: Sequence[Dim], suffix: str = "") -> Write:
        """Write a literal to every element of the value at a place."""
        nest = self._nest(op, suffix)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(shape)]
        return self.write(nest, nest.build(new.literal(number, place.memory.type.dtype)), place, index)

    def fill_padding(self, op: Operation, place: Place, inside: Tile, spacing: Sequence[int], rest: float) -> None:
        """Write `rest` where a padding does not show its operand, which is `inside`: for each dim the strips beside and
        between its elements along it, where it is along the dims before."""
        outer = shape_of(op.result.type)
        whole = Tile.full(outer)
        for dim, (size, extent) in enumerate(zip(inside.sizes, outer, strict=True)):
            if is_equal(size, extent) is True:
                continue
            for offset, count, stride in _strips(inside.offsets[dim], size, spacing[dim], extent):
                offsets = (*inside.offsets[:dim], offset, *whole.offsets[dim + 1 :])
                sizes = (*inside.sizes[:dim], count, *outer[dim + 1 :])
                strides = (*inside.strides[:dim], stride, *whole.strides[dim + 1 :])
                self.fill(op, rest, place.part(Tile(offsets, sizes, strides)), sizes, "/pad")

    def copy(self, op: Operation, name: str, source: Place, target: Place, shape: Sequence[Dim]) -> Write:
        """Copy a value of this shape from one place to another, before `op`."""
        nest = Nest(self.rewriter, op, name)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(shape)]
        return self.write(nest, self.read(nest, source, index), target, index)

    def copy_reshaped(self, op: Operation, name: str, value: Value, target: Place) -> Write:
        """Copy a value to a place of another shape, element by element in row-major order."""
        source, before, after = self.effects.place(value), shape_of(value.type), target.tile.shape
        nest = Nest(self.rewriter, op, name)
        index = [nest.enter(f"d{k}", extent) for k, extent in enumerate(after)]
        linear: Dim = 0
        for position, stride in zip(index, row_major(after), strict=True):
            linear = linear + position * stride
        return self.write(nest, self.read(nest, source, _unravel(linear, before)), target, index)

    def continue_as_write(self, op: Operation, write: Write) -> None:
        """Let a write be what an operation that moves data continues as."""
        self._continue(op, write)


def _strips(first: Dim, size: Dim, spacing: int, extent: Dim) -> Iterable[tuple[Dim, Dim, Dim]]:
    """The ranges of a dim, each by offset, size and stride, where `size` elements from `first` on, `spacing` apart, are
    not."""
    if first != 0:
        yield 0, first, 1
    for gap in range(1, spacing):
        yield first + gap, maximum(0, size - 1), spacing
    end = first + (size if spacing == 1 else maximum(0, size * spacing - (spacing - 1)))
    if is_equal(end, extent) is not True:
        yield end, extent - end, 1


def _result_order(op: Structured, iterators: Sequence[Iterator]) -> list[Iterator]:
    """The parallel iterators in the order of the dims of the result."""
    order = [map_dim(e) for e in op.result_maps()[0]]
    return sorted((it for it in iterators if not it.is_reduction), key=lambda it: order.index(it.name))


def _unravel(linear: Dim, shape: Sequence[Dim]) -> list[Dim]:
    """The index, in an array of this shape, of the element at a row-major position."""
    index: list[Dim] = []
    for dim, extent in enumerate(shape):
        quotient = floordiv(linear, _at_least_one(product(shape[dim + 1 :])))
        index.append(quotient if dim == 0 else mod(quotient, _at_least_one(extent)))
    return index


def _at_least_one(size: Dim) -> Dim:
    """A divisor: where it is 0 there is no element, and nothing is evaluated."""
    return 1 if size == 0 else size
