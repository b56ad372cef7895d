"""Where each buffer of the workspace lies: as little memory as lifetimes allow, with sizes that are expressions.

Within a block a buffer is live from its allocation to its last use; all that is inside a loop or branch is one item,
live where the loop or branch stands. Items are assigned to slots first fit, a slot being free when its last item is
dead (linear scan: Poletto and Sarkar, TOPLAS 1999); a slot is as large as its largest item. Branches lie over each
other. Buffers inside a parallel loop lie in the slot of their thread, which starts anew in every parallel loop.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from tcpx.payload.facts import Facts, facts_at, facts_in
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.ops.memory import Alloc, View
from tcpx.payload.sizes import (
    Dim,
    Symbol,
    align_up,
    is_equal,
    is_less_equal,
    maximum,
    minimum,
    mod,
    product,
    substitute,
    symbols,
    upper_expression,
)
from tcpx.payload.types import BufferType, row_major
from tcpx.transform.bufferization.program_order import ProgramOrder

ALIGNMENT: Final = 64
"""Bytes of a cache line, and of the widest vector."""
PAGE: Final = 4096
"""Loads and stores whose addresses differ by a multiple of this are mistaken for each other."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Offsets in bytes of the buffers of a function, in the shared part or in the slot of a thread, and their sizes."""

    shared: Dim
    thread: Dim
    offsets: Mapping[Operation, Dim]
    per_thread: frozenset[Operation]


@dataclass(slots=True)
class _Item:
    """Buffers that are live from one position of a block to another: where they lie in its `size` bytes."""

    first: int
    last: int
    size: Dim
    offsets: dict[Operation, Dim]


@dataclass(slots=True)
class _Slot:
    """Memory that items use one after the other."""

    size: Dim
    items: list[_Item] = field(default_factory=list[_Item])


def plan(func: FuncOp) -> Workspace:
    """Plan the buffers of a function that are in space `arena`."""
    return _Planner(func).run()


class _Planner:
    def __init__(self, func: FuncOp) -> None:
        self.func, self.order = func, ProgramOrder(func)
        self.symbols = {symbol.name: symbol.size() for symbol in func.symbols}
        self.thread: Dim = 0
        self.in_thread: dict[Operation, Dim] = {}

    def run(self) -> Workspace:
        shared, offsets = self._block(self.func.body, False)
        planned = {op: self._everywhere(offset) for op, offset in {**offsets, **self.in_thread}.items()}
        return Workspace(self._everywhere(shared), self.thread, planned, frozenset(self.in_thread))

    def _everywhere(self, size: Dim) -> Dim:
        """A size that is asked for outside the branches: what holds in one of them is not known there."""
        plain: dict[Symbol, Dim] = {symbol: self.symbols[symbol.name] for symbol in symbols(size)}
        return substitute(size, plain)

    def _outside(self, size: Dim, facts: Facts) -> Dim:
        """A size that is needed in branches, as it is asked for outside of them: no larger than their facts allow.

        Only such sizes can be compared with those of other branches.
        """
        bounded: dict[Symbol, Dim] = {}
        for symbol in symbols(facts.attach(size)):
            held = self.symbols[symbol.name]
            bounded[symbol] = held if symbol.upper is None else minimum(held, symbol.upper)
        return maximum(0, substitute(size, bounded))

    def _block(self, block: Block, in_parallel: bool) -> tuple[Dim, dict[Operation, Dim]]:
        """Bytes that the buffers of a block need, and where each lies in them."""
        items: list[_Item] = []
        for op in block.ops:
            item = self._item(op, in_parallel)
            if item is not None:
                items.append(item)
        total: Dim = 0
        offsets: dict[Operation, Dim] = {}
        for slot in _slots(items):
            for item in slot.items:
                offsets.update({op: total + offset for op, offset in item.offsets.items()})
            total = total + pitch(slot.size)
        return total, offsets

    def _item(self, op: Operation, in_parallel: bool) -> _Item | None:
        here = self.order.index(op)
        match op:
            case Alloc() if isinstance(op.result.type, BufferType) and op.result.type.space == "arena":
                return _Item(here, self._last_use(op.result, here), size_in_bytes(op.result.type), {op: 0})
            case Loop() if op.is_parallel and not in_parallel:
                size, offsets = self._block(op.body, True)
                self.thread = maximum(self.thread, self._outside(pitch(size), facts_at(op)))
                self.in_thread.update(offsets)
                return None
            case Loop() | If():
                planned = [self._block(region, in_parallel) for region in op.regions]
                offsets = {key: offset for _, held in planned for key, offset in held.items()}
                size = maximum(*(self._outside(size, facts_in(op, k)) for k, (size, _) in enumerate(planned)))
                return _Item(here, here, size, offsets) if offsets else None
            case _:
                return _Item(here, here, op.workspace, {op: 0}) if op.workspace != 0 else None

    def _last_use(self, value: Value, here: int) -> int:
        """The position, in the block of the definition, of the last operation that uses a buffer or a view of it."""
        block = value.owner.parent if isinstance(value.owner, Operation) else None
        last = here
        for user in value.users:
            around = self.order.ancestor(user, block) if block is not None else None
            last = max(last, self.order.index(around) if around is not None else here)
            if isinstance(user, View) and user.parent is block:
                last = max(last, self._last_use(user.result, last))
        return last


def _slots(items: list[_Item]) -> list[_Slot]:
    """A slot for every item; an item takes one that is free and large enough, else one that is free, else a new one."""
    slots: list[_Slot] = []
    free: list[int] = []
    taken: list[tuple[int, int]] = []
    """By the position from which it is free again, the first one first: numbers of slots."""
    for item in items:
        while taken and taken[0][0] <= item.first:
            insort(free, heappop(taken)[1])
        fitting = (k for k in free if is_less_equal(item.size, slots[k].size) is True)
        number = next(fitting, free[0] if free else len(slots))
        if number == len(slots):
            slots.append(_Slot(item.size))
        else:
            free.remove(number)
        heappush(taken, (item.last + 1, number))
        slot = slots[number]
        slot.size = maximum(slot.size, item.size)
        slot.items.append(item)
    return slots


def size_in_bytes(type_: BufferType) -> Dim:
    """Bytes from the first to the last element of a buffer, for all iterations of the loops round it."""
    shape = tuple(upper_expression(d) for d in type_.shape)
    strides = tuple(upper_expression(s) for s in type_.strides)
    if all(is_equal(a, b) is True for a, b in zip(strides, row_major(shape), strict=True)):
        return product(shape) * type_.dtype.bytes
    last: Dim = 1
    for extent, stride in zip(shape, strides, strict=True):
        last = last + (extent - 1) * stride
    return maximum(0, last) * type_.dtype.bytes


def pitch(size: Dim) -> Dim:
    """Bytes from the start of a buffer to that of the next: aligned, and no multiple of a page unless nothing."""
    aligned = align_up(size, ALIGNMENT)
    rest = mod(aligned, PAGE)
    if not isinstance(rest, int):
        return align_up(size, PAGE) + ALIGNMENT
    return aligned if rest or aligned == 0 else aligned + ALIGNMENT
