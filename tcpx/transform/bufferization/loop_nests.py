"""Loop nests that compute an operation element by element, made at a place in a function."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.ir import Block, Operation, OpT, Range, Value
from tcpx.payload.ops.gml_st import For, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Var
from tcpx.payload.subsets import Tile


def element(index: Sequence[Dim]) -> Tile:
    """One element as a scalar."""
    return Tile(tuple(index), (1,) * len(index), (1,) * len(index), tuple(range(len(index))))


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

    def enter(self, dim: str, extent: Dim) -> Dim:
        """Open a loop over 0..extent; returns its variable. A single iteration needs no loop."""
        if extent == 1:
            return 0
        return self._open(dim, 0, extent, ())[0]

    def enter_range(self, dim: str, lower: Dim, upper: Dim) -> Dim:
        """Open a loop over lower..upper; returns its variable."""
        return self._open(dim, lower, upper, ())[0]

    def bind(self, dim: str, value: Value, within: Range) -> Dim:
        """A variable of sizes that is a value."""
        var = Var(self.rewriter.fresh_name(self.op, f"{self.name}/{dim}"), *within)
        self.insert(Bind.of(value, var))
        return var.size()

    def enter_carrying(self, dim: str, extent: Dim, values: Sequence[Value]) -> tuple[Dim, Sequence[Value]]:
        """Open a loop that carries values; returns its variable and the values inside."""
        if extent == 1:
            return 0, values
        index, loop = self._open(dim, 0, extent, values)
        return index, loop.destinations

    def _open(self, dim: str, lower: Dim, upper: Dim, inits: Sequence[Value]) -> tuple[Dim, For]:
        var = Var(self.rewriter.fresh_name(self.op, f"{self.name}/{dim}"), lower, upper, 1)
        loop = For.over(var, inits, Block([("", v.type) for v in inits]))
        outer = self.block
        self.insert(loop)
        self.block = loop.body
        if inits:
            self.carried.append((loop, outer))
        return var.size(), loop

    def leave_carrying(self, values: Sequence[Value]) -> Sequence[Value]:
        """Close the loops that carry values, handing them from each to the one around it; returns what is left."""
        while self.carried:
            loop, outer = self.carried.pop()
            for value, dest in zip(values, loop.destinations, strict=True):
                self.insert(StYield.of(value, dest, Tile((), ())))
            self.block, values = outer, loop.results
        return values
