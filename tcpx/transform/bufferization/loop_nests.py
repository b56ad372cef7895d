"""Loop nests that compute an operation element by element, made at a place in a function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import Block, Operation, OpT, Range, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import For, If, StYield, runs_at_most_once
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import Copy, memory_of
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import (
    Dim,
    Size,
    Symbol,
    Var,
    is_less_equal,
    lower_bound,
    substitute,
    upper_bound,
    variables,
)
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, ScalarType, VectorType, shape_of
from tcpx.transform import new
from tcpx.transform.bufferization.strips import Strip
from tcpx.transform.vectors.lane_dims import depends, lane_step

T = TypeVar("T")


class Nest:
    """A loop nest that grows from the outside in; `block` is the innermost body, or the block the nest stands in.

    Everything in it is made before, and on behalf of, one operation: it has its name and its place in the schedule.
    """

    def __init__(self, rewriter: Rewriter, op: Operation, name: str) -> None:
        if op.parent is None:
            raise op.error("the operation stands in no block", required="an operation of a function")
        self.rewriter, self.op, self.name = rewriter, op, name
        self.block: Block = op.parent
        self.carried: list[tuple[For, Block]] = []
        self.made: list[Operation] = []
        self.lanes: tuple[str, Strip] | None = None
        """The dim whose iterations the innermost body computes at once, and those that it does."""

    def insert(self, op: OpT) -> OpT:
        """Insert a detached operation in the innermost body."""
        outermost = self.block is self.op.parent
        point = InsertPoint.before(self.op) if outermost else InsertPoint(self.block, len(self.block.ops))
        inserted = self.rewriter.insert(op, point, self.name)
        self.rewriter.set_schedule_location(inserted, self.op)
        self.rewriter.set_origins(inserted, inserted.origins, self.op.copy_path)
        self.made.append(inserted)
        return inserted

    def build(self, op: Operation) -> Value:
        """Insert a detached operation with one result; a `Build` function."""
        return self.insert(op).result

    def at(self, expression: Dim, index: Mapping[Symbol, Dim]) -> Dim | Strip:
        """The place of an indexing expression in an iteration, or in those of its lanes."""
        at = substitute(expression, index)
        if self.lanes is None or not depends(expression, self.lanes[0]):
            return at
        dim, strip = self.lanes
        return replace(strip, first=at, step=lane_step(expression, dim) or 1)

    def on_lanes(self, value: Value) -> Value:
        """A value for each lane, where there are any."""
        if self.lanes is None or not isinstance(value.type, ScalarType):
            return value
        return self.build(new.broadcast(value, (), VectorType((self.lanes[1].width,), value.type)))

    def enter(self, dim: str, extent: Dim, step: int = 1) -> Dim:
        """Open a loop over 0..extent in steps; returns its variable. A single iteration needs no loop."""
        known = context_at(self.op).names
        is_one = is_less_equal(1, extent, known) is True and is_less_equal(extent, step, known) is True
        if extent == 1 or (step > 1 and is_one):
            return 0
        return self._open(dim, (0, extent), (), step)[0]

    def enter_range(self, dim: str, bounds: Range, step: int = 1) -> Dim:
        """Open a loop over the numbers of a range; returns its variable."""
        return self._open(dim, bounds, (), step)[0]

    def bind(self, dim: str, value: Value, within: Range) -> Dim:
        """A variable of sizes that is a value."""
        var = Var(self.rewriter.fresh_name(self.op, f"{self.name}/{dim}"), *within)
        self.insert(Bind.of(value, var))
        return var.size()

    def only_if(self, condition: Predicate | None, made: Callable[[], T], rest: Value | None = None) -> T | Value:
        """What `made` inserts, where a condition on sizes holds if there is one; a value is `rest` elsewhere."""
        if condition is None:
            return made()
        types = [rest.type] if rest is not None else []
        guard = self.insert(If([], types, {"predicate": condition}, [Block(), Block()]))
        outer, self.block = self.block, guard.then
        found = made()
        self.insert(Yield([found] if isinstance(found, Value) else []))
        self.block = guard.orelse
        self.insert(Yield([rest] if rest is not None else []))
        self.block = outer
        return found if rest is None else guard.result

    def enter_carrying(
        self, dim: str, bounds: Range, values: Sequence[Value], step: int = 1
    ) -> tuple[Dim, Sequence[Value]]:
        """Open a loop over a range that carries values; returns its variable and the values inside."""
        if bounds == (0, 1) and step == 1:
            return 0, values
        index, loop = self._open(dim, bounds, values, step)
        return index, loop.destinations

    def _open(self, dim: str, bounds: Range, inits: Sequence[Value], step: int = 1) -> tuple[Dim, For]:
        var = Var(self.rewriter.fresh_name(self.op, f"{self.name}/{dim}"), *bounds, step)
        loop = For.over(var, inits, Block([("", v.type) for v in inits]))
        outer = self.block
        self.insert(loop)
        self.block = loop.body
        if inits:
            self.carried.append((loop, outer))
        return var.size(), loop

    def leave_carrying(self, values: Sequence[Value], loops: int | None = None) -> Sequence[Value]:
        """Close the loops that carry values, or so many, handing them from each to the one around it; returns what is
        left."""
        for _ in range(len(self.carried) if loops is None else loops):
            loop, outer = self.carried.pop()
            for value, dest in zip(values, loop.destinations, strict=True):
                self.insert(StYield.of(value, dest, Tile.full(shape_of(dest.type))))
            self.block, values = outer, loop.results
        return values

    def moved(self, anchor: T) -> T | Copy:
        """Let the innermost loop, if all it does is to move elements that lie side by side, be one copy of them: that,
        else `anchor`.

        Of short rows whose length only the kernel knows, a loop is left: gcc would make `rep movs` of `memcpy`, which
        takes longer to start than such a row.
        """
        loop, ops = self.block.parent, self.block.ops
        if self.block is self.op.parent or not isinstance(loop, For) or loop.parent is None or len(ops) != 2:
            return anchor
        (read, write), length = ops, loop.var.upper - loop.var.lower
        is_short = isinstance(length, Size) and upper_bound(length, context_at(self.op).names) is not None
        if not isinstance(read, Read) or not isinstance(write, Write) or is_short or runs_at_most_once(loop):
            return anchor
        part, subset = _along(read, loop.var), _along(write, loop.var)
        is_other = memory_of(read.source) is not memory_of(write.destination)
        if part is None or subset is None or write.value is not read.result or not is_other:
            return anchor
        made = Copy.of(read.source, part, write.destination, subset)
        made.name, self.block = loop.name, loop.parent
        self.insert(made)
        self.rewriter.erase(loop)
        return made


def _along(access: Read | Write, var: Var) -> Tile | None:
    """The elements that iterations access one by one, each behind the one of the last; None if they do not."""
    tile, type_ = access.subset, access.subset_of.type
    dims = [dim for dim, offset in enumerate(tile.offsets) if var in variables(offset)]
    known = context_at(access).names
    lows = [lower_bound(size, known) for size in tile.sizes]
    if len(dims) != 1 or tile.kept or any(low is None or low < 1 for low in lows):
        return None
    dim, rank = dims[0], range(tile.rank)
    first = tile.offsets[dim] - var.size()
    if var in variables(first) or not isinstance(type_, BufferType) or type_.strides[dim] != 1:
        return None
    return Tile(
        tuple(first + var.lower if d == dim else tile.offsets[d] for d in rank),
        tuple(var.upper - var.lower if d == dim else 1 for d in rank),
        dropped=tuple(d for d in rank if d != dim),
    )
