"""All iterations of a loop over state for one block of elements, then for the next: where an element depends on those
at its own place alone."""

from collections.abc import Sequence
from typing import TypeGuard

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Box, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel, StYield, full_like
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Var, minimum, product
from tcpx.payload.strided import strided_positions
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.coalescing import reshapes
from tcpx.transform.editing import is_pure
from tcpx.transform.elementwise import is_pointwise
from tcpx.transform.loop_order import check_counted


def block_steps(ctx: TransformContext, loop: Loop, size: int, parallel: bool) -> Loop:
    """Wrap a loop in one over blocks of the elements of what it carries. Returns that loop. Raises ScheduleError where
    an iteration may read what another place holds."""
    check_counted(ctx, loop)
    return _Blocks(ctx, loop, size, parallel).run()


def _is_of_elements(op: Operation) -> TypeGuard[Structured]:
    """Whether an operation computes each element of one dim from elements at the same place, and from numbers."""
    if not is_pointwise(op) or len(op.iterators()) != 1 or is_irregular(op):
        return False
    names = {op.iterators()[0].name, None}
    return all(
        len(m) < 2 and {map_dim(entry) for entry in m} <= names - {None} for m in (*op.maps(), *op.result_maps())
    )


class _Blocks:
    """The loop over blocks, and in it the loop, whose operations are built again on blocks one by one."""

    def __init__(self, ctx: TransformContext, loop: Loop, size: int, parallel: bool) -> None:
        self.ctx, self.rewriter, self.loop = ctx, ctx.rewriter, loop
        computing = next((op for op in loop.body.ops if _is_of_elements(op)), None)
        if computing is None:
            raise self._fail(next(iter(loop.body.ops), loop))
        if not any(not isinstance(user, StYield) for dest in loop.destinations for user in dest.users):
            raise ctx.fail(
                f"{loop.name} reads nothing of what it carries: its elements need not stay in the caches",
                op=loop,
                required="a loop in which an iteration reads what others yielded",
                found=f"{len(loop.destinations)} destination(s), none of them read",
            )
        self.extent = computing.extents()[0]
        self.values: dict[Value, Value] = {}
        self.inside: dict[Value, Value] = {}
        self.base = loop.results[0].name.split(".")[0] if loop.results else loop.name
        self.apart = self._apart()
        self.outer = {dest: self._leading(dest) for dest in loop.destinations}
        inits = [self._in_one_dim(v, self.outer[d]) for v, d in zip(loop.operands, loop.destinations, strict=True)]
        var = Var(ctx.rewriter.fresh_name(loop, f"{self.base}/block"), 0, self.extent, size)
        self.part = (var.size(), minimum(size, self.extent - var.size()))
        self.blocks = (Parallel if parallel else For).over(var, inits, Block([("", v.type) for v in inits]))

    def run(self) -> Loop:
        """Returns the loop over blocks."""
        rewriter, loop, blocks = self.rewriter, self.loop, self.blocks
        blocks.location = loop.location
        rewriter.insert(blocks, InsertPoint.before(loop), self.base)
        tiles = [self._tile((0,) * self.outer[d], self.outer[d], d) for d in loop.destinations]
        starts = [self._put(Materialize.of(d, t), blocks.body) for d, t in zip(blocks.destinations, tiles, strict=True)]
        inner = type(loop).over(loop.var, starts, Block([("", v.type) for v in starts]))
        rewriter.insert(inner, InsertPoint.end(blocks.body), self.base)
        self.body = inner.body
        self.inside = dict(zip(loop.destinations, inner.destinations, strict=True))
        for op in list(loop.body.ops):
            self._build(op)
        for result, dest, tile in zip(inner.results, blocks.destinations, tiles, strict=True):
            rewriter.insert(StYield.of(result, dest, tile), InsertPoint.end(blocks.body))
        shapes = [shape_of(result.type) for result in loop.results]
        ends = [self._reshaped(v, shape, loop) for v, shape in zip(blocks.results, shapes, strict=True)]
        rewriter.continue_as(loop, inner)
        rewriter.replace_op(loop, ends)
        return blocks

    def _build(self, op: Operation) -> None:
        """Build an operation of the body again, at the end of the new one."""
        if op.results and is_pure(op) and not any(result.uses for result in op.results):
            return
        if isinstance(op, StYield):
            subset, dest = op.subset, op.destination
            leading = self._leading_of(op, subset, shape_of(dest.type))
            if leading != self.outer[dest]:
                raise self._fail(op)
            tile = self._tile(subset.offsets[:leading], leading, dest, (1,) * leading, tuple(range(leading)))
            self.rewriter.insert(StYield.of(self._block_of(op.value, op), self.inside[dest], tile), self._end)
        elif isinstance(op, Materialize) and not shape_of(op.result.type) and op.source not in self.inside:
            if op.source in self.values and shape_of(op.source.type):
                raise self._fail(op)  # of this, a block is all that there is
            made = Materialize.of(self.values.get(op.source, op.source), op.subset)
            self.values[op.result] = self._put(made, self.body, op)
        elif isinstance(op, Materialize):
            self.values[op.result] = self._read(op, op.source, op.subset)
        elif reshapes(op):
            self.values[op.result] = self._block_of(op.operands[0], op)
        elif _is_of_elements(op) and are_equal_at(op, op.extents()[0], self.extent):
            operands = [self._block_of(v, op) if shape_of(v.type) else self.values.get(v, v) for v in op.operands]
            made = op.on_box(operands, Box((self.part[0],), (self.part[1],)))
            self.rewriter.insert(made, self._end, op.name)
            self.rewriter.rename(made, op.name)
            self.rewriter.continue_as(op, made)
            self.values.update(zip(op.results, made.results, strict=True))
        else:
            raise self._fail(op)

    @property
    def _end(self) -> InsertPoint:
        return InsertPoint(self.body, len(self.body.ops))

    def _put(self, op: Operation, body: Block, source: Operation | None = None) -> Value:
        self.rewriter.insert(op, InsertPoint(body, len(body.ops)), source.name if source is not None else self.base)
        return op.results[0]

    def _block_of(self, value: Value, reader: Operation) -> Value:
        """The elements of a block of a value of the body, or of one that is read here as a whole."""
        if value not in self.values and value.owner is self.loop.body and value not in self.inside:
            raise self._fail(reader)
        return self.values[value] if value in self.values else self._read(reader, value, full_like(value))

    def _read(self, op: Operation, source: Value, subset: Tile) -> Value:
        """Read a block of a part of a destination, or of what is outside of the loop."""
        if source in self.values or not isinstance(source.type, TensorType):
            raise self._fail(op)
        leading = self._leading_of(op, subset, shape_of(source.type))
        if source in self.inside:
            if leading != self.outer[source]:
                raise self._fail(op)
            whole, first = self.inside[source], 0
        else:
            whole, first = self._in_one_dim(source, leading), self.part[0]
        tile = Tile((*subset.offsets[:leading], first), (*(1,) * leading, self.part[1]), dropped=tuple(range(leading)))
        return self._put(Materialize.of(whole, tile), self.body, op)

    def _leading_of(self, op: Operation, subset: Tile, shape: Sequence[Dim]) -> int:
        """How many dims of a tensor are before those that all elements of a block lie in. Of these dims a part has one
        index each."""
        for leading in range(len(shape)):
            later = range(leading, len(shape))
            rest = Tile(subset.offsets[leading:], subset.sizes[leading:], subset.strides[leading:])
            if not set(later) & set(subset.dropped) and rest.is_full(shape[leading:]):
                if are_equal_at(op, product(rest.sizes), self.extent) and set(subset.sizes[:leading]) <= {1}:
                    return leading
                break
        raise self._fail(op)

    def _leading(self, dest: Value) -> int:
        store = next((user for user in dest.users if isinstance(user, StYield) and user.destination is dest), None)
        if store is None or not isinstance(dest.type, TensorType):
            raise self._fail(self.loop)
        return self._leading_of(store, store.subset, shape_of(dest.type))

    def _tile(
        self,
        offsets: Sequence[Dim],
        leading: int,
        dest: Value,
        sizes: Sequence[Dim] | None = None,
        dropped: tuple[int, ...] = (),
    ) -> Tile:
        """A block of a destination: of all that it has, or of one index of the leading dims inside the loop."""
        before = shape_of(dest.type)[:leading] if sizes is None else sizes
        first = self.part[0] if sizes is None else 0
        return Tile((*offsets, first), (*before, self.part[1]), dropped=dropped)

    def _apart(self) -> set[Value]:
        """Arguments whose rows may lie apart in memory, and what is returned in such an array."""
        func = self.rewriter.func_of(self.loop)
        values = [*func.args, *func.returned]
        return {values[k] for k in strided_positions(func)}

    def _in_one_dim(self, value: Value, leading: int) -> Value:
        """A value outside of the loop whose dims after the leading ones are one."""
        shape = shape_of(value.type)
        before = self.blocks if self.values or self.inside else self.loop
        return self._reshaped(value, (*shape[:leading], self.extent), before) if len(shape) > leading + 1 else value

    def _reshaped(self, value: Value, shape: Sequence[Dim], before: Operation) -> Value:
        if have_equal_extents(shape_of(value.type), shape):
            return value
        made = value.defining_op
        is_shown = made is not None and new.pieces_of_all(made) is not None and not reshapes(made)
        if is_shown or value in self.apart or set(self.loop.results) & self.apart:
            raise self._fail(self.loop)
        reshape = new.reshape(value, shape)
        return self.rewriter.insert(reshape, InsertPoint.before(before), f"{value.name.split('.')[0]}.t").result

    def _fail(self, op: Operation) -> ScheduleError:
        return self.ctx.fail(
            f"elements of {self.loop.name} do not depend on those at their own place alone",
            op=op,
            required="elementwise operations of one dim, on all of it, and yields of all elements of that dim",
            found=f"%{op.name} = {op.opcode}" if op.results else op.opcode,
            fix=Direction("`coalesce` the operations first, if that is all that is missing"),
        )
