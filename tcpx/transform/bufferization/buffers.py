"""Makes the buffers that storages without a link need, before the operations are rewritten."""

import re
from collections.abc import Collection, Sequence
from math import prod
from typing import Final

from tcpx.payload.contexts import context_at, context_of
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.memory import Alloc, At, View
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Symbol, is_equal, is_less_equal, product, upper_expression
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.types import BufferType, TensorType, dtype_of, row_major, shape_of, ui8
from tcpx.transform.bufferization.placement import Placement
from tcpx.transform.bufferization.storage import Place, Storage, StorageKind

STACK_LIMIT: Final = 16 * 1024
"""Bytes up to which a buffer of static size is put on the stack."""


def buffer_type(type_: TensorType, space: str, known: KnownSymbols = NOTHING_KNOWN) -> BufferType:
    """The type of a contiguous buffer for a tensor, with bounds for dims that depend on loop variables."""
    shape = tuple(upper_expression(d, known=known) for d in type_.shape)
    return BufferType(shape, type_.dtype, row_major(shape), space)


def stride_symbols(name: str, count: int, taken: Collection[str]) -> list[Symbol]:
    """`x_stride0`, `x_stride1`, ..: one for each outer dim of a buffer; called otherwise where that is taken."""
    base = re.sub(r"\W", "_", name)
    while any(f"{base}_stride{k}" in taken for k in range(count)):
        base += "_"
    return [Symbol(f"{base}_stride{k}") for k in range(count)]


def local_buffer_type(type_: TensorType, known: KnownSymbols) -> BufferType:
    """The type of a buffer a kernel makes for itself: small static ones are on the stack, others in the workspace."""
    planned = buffer_type(type_, "arena", known)
    static = [d for d in planned.shape if isinstance(d, int)]
    is_small = len(static) == len(planned.shape) and prod(static) * type_.dtype.bytes <= STACK_LIMIT
    return BufferType(planned.shape, planned.dtype, planned.strides, "stack") if is_small else planned


class Buffers:
    """The buffer of every memory of a function; other shapes of one are made when they are asked for."""

    def __init__(self, rewriter: Rewriter, func: FuncOp, placement: Placement) -> None:
        self.rewriter, self.func, self.placement = rewriter, func, placement
        self.places = placement.places
        self._buffers: dict[Storage, Value] = {}
        self._allocations: list[Operation] = []
        memories = [s for s in self.places.storages if s.link is None]
        points = {s: self._earliest(s) for s in memories if s.kind not in _GIVEN}
        for storage in memories:
            self._buffers[storage] = self._make(storage, points.get(storage))

    def _earliest(self, memory: Storage) -> Operation | None:
        """The operation before which a memory has to be there: it stands in the innermost block round all its users."""
        order = self.placement.order
        ops = [s.op for s in self.places.members(memory) if s.op is not None]
        if not ops:
            return None
        block = ops[0].parent
        while block is not None and any(order.ancestor(op, block) is None for op in ops):
            block = block.parent.parent if block.parent is not None else None
        if block is None:
            return None
        around = [order.ancestor(op, block) for op in ops]
        return min((op for op in around if op is not None), key=order.index)

    def _make(self, storage: Storage, before: Operation | None) -> Value:
        rewriter = self.rewriter
        match storage.kind:
            case StorageKind.ARGUMENT | StorageKind.STATE | StorageKind.CONSTANT if storage.value is not None:
                space = "constant" if storage.kind is StorageKind.CONSTANT else "argument"
                rewriter.set_type(storage.value, buffer_type(storage.type, space))
                self._make_strided(storage, storage.value)
                return storage.value
            case StorageKind.RESULT:
                type_ = buffer_type(storage.type, "result")
                made = rewriter.add_block_arg(self.func.body, type_, storage.called)
                rewriter.take_name(self.func, made, storage.called)
                self._make_strided(storage, made)
                return made
            case _:
                point = InsertPoint.before(before) if before is not None else InsertPoint.start(self.func.body)
                known = context_of(point.block).names
                made = Alloc.of(local_buffer_type(storage.type, known))
                inserted = rewriter.insert(made, point, f"{storage.name}.buf")
                if storage.op is not None:
                    rewriter.set_schedule_location(inserted, storage.op)
                self._allocations.append(inserted)
                return inserted.result

    def _make_strided(self, storage: Storage, buffer: Value) -> None:
        """Let the distances of the rows of a strided storage be symbols of the function."""
        if storage.strided and isinstance(buffer.type, BufferType):
            taken = {symbol.name for symbol in self.func.symbols}
            made = stride_symbols(buffer.name, len(buffer.type.shape) - 1, taken)
            self.rewriter.add_symbols(self.func, made)
            strides = (*(symbol.size() for symbol in made), 1)
            type_ = buffer.type
            self.rewriter.set_type(buffer, BufferType(type_.shape, type_.dtype, strides, type_.space))

    def of(self, place: Place) -> Value:
        """The buffer a place is part of."""
        known = self._buffers.get(place.view)
        if known is None:
            base = self._buffers[place.memory]
            block = base.owner if isinstance(base.owner, Block) else None
            point = InsertPoint.start(block) if block is not None else InsertPoint.after(_owner(base))
            whole, seen = (product(t.shape) for t in (place.memory.type, place.view.type))
            if place.view.op is not None and is_equal(whole, seen) is not True:  # a branch says that they are
                point = InsertPoint.before(place.view.op)
            view = self.rewriter.insert(View.of(base, place.view.type.shape), point, f"{place.view.name}.buf")
            known = self._buffers[place.view] = view.result
        return known

    def is_packed(self, place: Place, shape: Sequence[Dim]) -> bool:
        """Whether a value of this shape begins where its buffer does, and lies there without gaps."""
        view, tile = place.view, place.tile
        known = context_at(view.op).names if view.op is not None else NOTHING_KNOWN
        held = buffer_type(view.type, "arena", known).strides
        return (
            not place.memory.strided
            and not tile.dropped
            and tile.has_unit_strides
            and all(is_equal(offset, 0, known) is True for offset in tile.offsets)
            and all(is_equal(a, b, known) is True for a, b in zip(held, row_major(tuple(shape)), strict=True))
        )

    def is_dense(self, place: Place, shape: Sequence[Dim]) -> bool:
        """Whether a value of this shape lies without gaps, wherever in its buffer it begins."""
        view, tile = place.view, place.tile
        known = context_at(view.op).names if view.op is not None else NOTHING_KNOWN
        held = buffer_type(view.type, "arena", known).strides
        rows = zip((held[dim] for dim in tile.kept), row_major(tuple(shape)), shape, strict=True)
        return (
            not place.memory.strided
            and tile.has_unit_strides
            and all(n == 1 or is_equal(a, b, known) is True for a, b, n in rows)
        )

    def passed(self, place: Place, shape: Sequence[Dim], before: Operation) -> Value:
        """The buffer of a value that a call takes: that in which it is, or what begins where the value does."""
        buffer, known = self.of(place), context_at(before).names
        sizes = zip(shape, place.view.type.shape, strict=False)
        if self.is_packed(place, shape) and all(is_less_equal(a, b, known) is True for a, b in sizes):
            return buffer
        part = self.rewriter.insert(
            At.at(buffer, place.tile, {}), InsertPoint.before(before), f"{buffer.name}.at"
        ).result
        sizes = shape_of(part.type)
        if isinstance(part.type, BufferType) and part.type.strides == row_major(sizes):
            return part
        return self.rewriter.insert(View.of(part, sizes), InsertPoint.before(before), f"{buffer.name}.at.dense").result

    def packed(self, value: Value, before: Operation) -> Place:
        """Memory for a value of its own, without gaps."""
        type_ = TensorType(shape_of(value.type), dtype_of(value.type))
        return self._own(f"{value.name}/packed", type_, before)

    def scratch(self, size: int, before: Operation) -> Place:
        """Bytes of memory for an operation to work in."""
        return self._own(f"{before.name}/scratch", TensorType((size,), ui8), before)

    def strip(self, name: str, type_: TensorType, before: Operation) -> Place:
        """Memory for what lanes compute before an operation."""
        return self._own(name, type_, before)

    def _own(self, name: str, type_: TensorType, before: Operation) -> Place:
        storage = Storage(name, type_, StorageKind.VALUE)
        known = context_at(before).names
        planned, strides = local_buffer_type(type_, known), row_major(type_.shape)
        if any(is_equal(a, b, known) is not True for a, b in zip(planned.strides, strides, strict=True)):
            planned = BufferType(planned.shape, planned.dtype, strides, "arena")
        made = self.rewriter.insert(Alloc.of(planned), InsertPoint.before(before), storage.name)
        self._allocations.append(made)
        self._buffers[storage] = made.result
        return Place(storage, storage, storage.full(), storage.full())

    def subset(self, place: Place, tile: Tile) -> Tile:
        """A subset of the value at a place, as a subset of its buffer."""
        return compose(place.tile, tile)

    def erase_unused(self) -> None:
        """Erase buffers that nothing reads or writes."""
        for op in self._allocations:
            if not op.results[0].uses:
                self.rewriter.erase(op)


_GIVEN = (StorageKind.ARGUMENT, StorageKind.STATE, StorageKind.CONSTANT, StorageKind.RESULT)


def _owner(value: Value) -> Operation:
    if isinstance(value.owner, Block):
        raise TypeError(f"%{value.name} is an argument of a block")
    return value.owner
