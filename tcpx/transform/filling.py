"""Filling a packed buffer: before it is read, or by the first of the iterations that read it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise

from tcpx.payload.contexts import are_equal_at, context_at, context_of
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Block, CloneMap, Operation, Value, is_in, parent_op
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import For, If, Loop, Materialize, Parallel, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import (
    Dim,
    Size,
    Symbol,
    Var,
    floordiv,
    maximum,
    substitute,
    to_text,
    variables,
)
from tcpx.payload.sizes.bounds import is_equal
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.destinations import first
from tcpx.transform.digits import split_digits


@frozen
class CurrentTile:
    """The tile that an operand reads: a subset of `source`, padded to the shape `padded` by `pad`, with its dims in the
    order `permutation`, of shape `shape`. If `source` is a view of several values, or padded otherwise, `views` are
    these views and the reads of subsets, in their order."""

    source: Value
    subset: Tile
    shape: tuple[Dim, ...]
    pad: Tileable | None
    padded: tuple[Dim, ...]
    permutation: tuple[int, ...]
    views: tuple[Operation, ...] = ()

    @property
    def sources(self) -> list[Value]:
        """The values that the tile is read from."""
        shown = {view.results[0] for view in self.views}
        return [v for view in self.views for v in view.operands if v not in shown] or [self.source]

    @property
    def sizes(self) -> list[Dim]:
        """The sizes in the place and extent of the tile."""
        subsets = [self.subset, *(part for view in self.views for part in _parts(view))]
        return [*(d for tile in subsets for d in (*tile.offsets, *tile.sizes)), *self.padded]


def _parts(view: Operation) -> list[Tile]:
    """The subset that an operation reads, or the place of each operand in the result of a view."""
    if isinstance(view, Materialize):
        return [view.subset]
    whole = Tile.full(shape_of(view.results[0].type))
    pieces = ViewLike(view).pieces(whole) if isinstance(view, Tileable) else None
    return [whole, *(piece.place for piece in pieces or ())]


def with_views(current: CurrentTile, inside: Operation) -> CurrentTile:
    """The tile with the views inside an operation, a loop, that it is read through."""
    found: dict[Operation, None] = {}

    def visit(value: Value) -> None:
        op = value.defining_op
        is_view = isinstance(op, Materialize) or (isinstance(op, Tileable) and new.pieces_of_all(op) is not None)
        if op is not None and is_view and op is not inside and is_in(op, inside):
            for operand in op.operands:
                visit(operand)
            found[op] = None

    visit(current.source)
    return replace(current, views=tuple(found))


def current_tile(value: Value) -> CurrentTile:
    definition = value.defining_op
    shape = shape_of(value.type)
    straight = tuple(range(len(shape)))
    piece = new.whole_piece(definition)
    if isinstance(definition, Tileable) and piece is not None and ViewLike(definition).rest is None:
        inner = current_tile(definition.operands[piece.operand])
        turned = tuple(inner.permutation[k] for k in piece.permutation)
        return CurrentTile(inner.source, inner.subset, shape, inner.pad, inner.padded, turned)
    if isinstance(definition, Tileable) and new.padded_behind(definition) is not None:
        inner = current_tile(definition.operands[0])
        if inner.pad is None and inner.permutation == straight:
            return CurrentTile(inner.source, inner.subset, shape, definition, shape, straight)
    if isinstance(definition, Materialize):
        return CurrentTile(definition.operands[0], definition.subset, shape, None, (), straight)
    return CurrentTile(value, Tile.full(shape), shape, None, (), straight)


def loops_below(op: Operation, at: Loop | None) -> list[Loop]:
    """The loops between `at`, or any place outside all loops, and `op`, innermost first."""
    found: list[Loop] = []
    for ancestor in op.ancestors():
        if ancestor is at:
            break
        if isinstance(ancestor, Loop):
            found.append(ancestor)
    return found


def dependent_loops(current: CurrentTile, op: Operation, at: Loop | None) -> list[Loop]:
    """The loops between `at` and `op` on whose variables the tile, or the range of another such loop, depends,
    outermost first."""
    used = {v for d in current.sizes for v in variables(d)}
    between = loops_below(op, at)
    for loop in between:
        if loop.var in used:
            used |= {v for d in (loop.var.lower, loop.var.upper, loop.var.step) for v in variables(d)}
    return [loop for loop in reversed(between) if loop.var in used]


def slots_of(depends: Sequence[Loop]) -> tuple[Dim, ...]:
    """The slot of an iteration of the loops that a tile depends on."""
    return tuple(floordiv(Size.of(loop.var) - loop.var.lower, loop.var.step) for loop in depends) or (0,)


def slot_tile(slots: Sequence[Dim], digits: Sequence[Dim]) -> Tile:
    rank = len(slots) + len(digits)
    return Tile(
        (*slots, *(0 for _ in digits)),
        (*(1 for _ in slots), *digits),
        (1,) * rank,
        tuple(range(len(slots))),
    )


def _cut_dims(value: Value, views: Collection[Operation]) -> set[int]:
    """The dims of a value along which these views show a part of it, whose end does not depend on the loops around
    them."""
    found: set[int] = set()
    for view, operand in (use for use in value.uses if use[0] in views):
        pieces = [piece for piece in new.pieces_of_all(view) or () if piece.operand == operand and not piece.reshapes]
        for piece in pieces:
            whole = enumerate(zip(piece.place.sizes, shape_of(view.result.type), strict=True))
            cut = {dim for dim, (size, extent) in whole if not are_equal_at(view, size, extent)}
            found |= {piece.permutation[dim] for dim in cut | _cut_dims(view.result, views)}
    return found


def _check_inside(
    ctx: TransformContext, subset: Tile, source: Value, before: Operation, dims: Sequence[int] | None = None
) -> None:
    """The tile must lie inside the source at the place of packing, without the facts of inner loops and branches. If
    its last elements are padding, an empty tile may begin after the end of the source."""
    facts = context_at(before)
    extents = shape_of(source.type)
    parts = zip(subset.offsets, subset.sizes, subset.strides, extents, strict=True)
    for dim, (offset, size, stride, extent) in enumerate(parts):
        if dims is not None and dim not in dims:
            continue
        end = offset + (size - 1) * stride + 1
        left = extent - offset
        pairs = ((end, extent), (size, left), (size, maximum(0, left))) if stride == 1 else ((end, extent),)
        if not any(facts.decide(Predicate.of("<=", a, b)) is True for a, b in pairs):
            raise ctx.fail(
                f"a tile of %{source.name} may end behind it where it is packed: the loop that reads it may be empty",
                op=before,
                required=f"a tile that ends at {to_text(extent)} at the latest",
                found=f"{to_text(size)} from {to_text(offset)}",
                fix=Direction("pack further inside, in the loop that reads the tile"),
            )


def fill_before(
    ctx: TransformContext,
    current: CurrentTile,
    depends: Sequence[Loop],
    maps: tuple[IndexingMap, IndexingMap],
    digits: Sequence[Dim],
    start: Value,
    base: str,
    before: Operation,
    known: KnownSymbols,
    parallel: bool,
) -> tuple[Value, Loop]:
    """The loops that fill the buffer; returns the filled buffer and the outermost loop. `maps` are the operand's
    indexing map before and after packing."""
    rewriter = ctx.rewriter
    renamed: dict[Symbol | Var, Dim] = {}
    fresh: list[Var] = []
    ranges = [(loop.var.lower, loop.var.upper, loop.var.step) for loop in depends] or [(0, 1, 1)]
    for depth, (lower, upper, step) in enumerate(ranges):
        name = rewriter.ordinal_name(before, f"{base}/pack")
        var = Var(name, *(substitute(d, renamed, known) for d in (lower, upper, step)))
        fresh.append(var)
        if depends:
            renamed[depends[depth].var] = Size.of(var)
    slots = tuple(floordiv(Size.of(v) - v.lower, v.step, known) if depends else Size.of(v) for v in fresh)
    loops: list[Loop] = []
    value, point = start, InsertPoint.before(before)
    for depth, var in enumerate(fresh):
        if depth:
            part = slot_tile(slots[depth - 1 : depth], shape_of(value.type)[1:])
            value = rewriter.insert(Materialize.of(value, part), point, f"{base}.slot").result
            point = InsertPoint(point.block, len(point.block.ops))
        kind = Parallel if parallel else For
        loop = kind.over(var, [value], Block([("", value.type)]))
        loop.location = before.location
        loops.append(rewriter.insert(loop, point, base))
        value, point = loop.body.args[0], InsertPoint(loop.body, 0)
    inner = loops[-1]

    subset = current.subset.substitute(renamed, known)
    if not current.views:
        _check_inside(ctx, subset, current.source, before)
    for view in current.views:
        if isinstance(view, Materialize):
            cut = {view.subset.kept[dim] for dim in _cut_dims(view.result, current.views)}
            checked = [dim for dim in range(view.subset.rank) if dim not in cut]
            _check_inside(ctx, view.subset.substitute(renamed, known), view.source, before, checked)
    sizes = [substitute(d, renamed, known) for d in digits]
    tile = _stored_tile(ctx, current, subset, CloneMap(sizes=renamed, known=known), maps, sizes, inner.body, base)
    inner_digits = tuple(shape_of(tile.type))
    stored = StYield.of(tile, inner.destinations[0], slot_tile(slots[-1:], inner_digits))
    rewriter.insert(stored, InsertPoint(inner.body, len(inner.body.ops)))
    for depth, (outer, nested) in enumerate(pairwise(loops)):
        part = slot_tile(slots[depth : depth + 1], shape_of(nested.results[0].type))
        rewriter.insert(
            StYield.of(nested.results[0], outer.destinations[0], part), InsertPoint(outer.body, len(outer.body.ops))
        )
    if any(is_equal(a, b) is not True for a, b in zip(digits, inner_digits, strict=True)) and not depends:
        raise ctx.fail(
            "the packed tile changes its size inside the loop",
            required="a tile of one size in all iterations",
            found=f"{', '.join(map(str, digits))} round it, {', '.join(map(str, inner_digits))} inside",
            op=before,
        )
    return loops[0].results[0], loops[0]


def _stored_tile(
    ctx: TransformContext,
    current: CurrentTile,
    subset: Tile,
    renamed: CloneMap,
    maps: tuple[IndexingMap, IndexingMap],
    sizes: Sequence[Dim],
    block: Block,
    base: str,
) -> Value:
    """The contents of a slot, read at the end of a block: the padded tile, in storage order."""

    def made(op: Operation) -> Value:
        return ctx.rewriter.insert(op, InsertPoint(block, len(block.ops)), f"{base}.t").result

    tile = current.source
    for view in current.views:
        tile = ctx.rewriter.clone(view, InsertPoint(block, len(block.ops)), renamed).results[0]
    if not subset.is_full(shape_of(tile.type), context_of(block).names):
        tile = made(Materialize.of(tile, subset))
    rest = ViewLike(current.pad).rest if current.pad is not None else None
    if current.pad is not None and rest is not None:
        shape = [substitute(d, renamed.sizes, renamed.known) for d in current.padded]
        tile = made(new.pad(tile, shape, rest, free=ViewLike(current.pad).is_free))
    held_by, stored_by = maps
    if set(held_by) != set(stored_by):
        return made(split_digits(tile, held_by, stored_by, sizes))
    if held_by != stored_by:
        return made(new.transpose(tile, [held_by.index(e) for e in stored_by]))
    return tile


def check_filled_by(
    ctx: TransformContext, filled_by: Loop, op: Operation, below: Sequence[Loop], depends: Sequence[Loop]
) -> None:
    """All iterations of `filled_by` read the same tiles, and the first one reads each of them.

    `below`: the loops between the buffer and `op`, innermost first; `depends`: those that its tile depends on.
    """
    if filled_by not in below:
        raise ctx.fail(
            f"{filled_by.name} does not stand between the buffer and %{op.name}",
            op=filled_by,
            required=", ".join(loop.name for loop in reversed(below)) or "a loop in the one given as `at`",
            found=filled_by.name,
        )
    inner = below[: below.index(filled_by)]
    ranged = [loop for loop in inner if filled_by.var in _range_variables(loop)]
    for loop in (*(loop for loop in depends if loop is filled_by), *ranged):
        raise ctx.fail(
            f"the iterations of {filled_by.name} do not all read the same tiles of %{op.name}",
            op=loop,
            required=f"tiles that do not depend on {filled_by.name}",
            found=f"{loop.name}, which they depend on",
            fix=Direction("let a loop that the operand does not depend on fill the buffer"),
        )
    for loop in below:
        if loop.is_parallel:
            raise ctx.fail(
                f"{loop.name} is parallel: its iterations hand no buffer to the next",
                op=loop,
                required=f"sequential loops between the buffer and %{op.name}",
                found=loop.opcode,
                fix=Direction("pack further inside"),
            )
    straight = [op, *below]
    for inside, outside in pairwise(straight):
        if inside.parent is not outside.regions[0]:
            raise ctx.fail(
                f"%{op.name} stands in a branch in {outside.name}",
                op=inside,
                required="an operation that every iteration runs",
                found=outer.opcode if (outer := parent_op(inside)) is not None else "no loop",
            )


def _range_variables(loop: Loop) -> set[Symbol | Var]:
    return {v for d in (loop.var.lower, loop.var.upper, loop.var.step) for v in variables(d)}


def fill_while_read(
    ctx: TransformContext,
    current: CurrentTile,
    below: Sequence[Loop],
    depends: Sequence[Loop],
    maps: tuple[IndexingMap, IndexingMap],
    digits: Sequence[Dim],
    start: Value,
    base: str,
    op: Operation,
    filled_by: Loop,
) -> Value:
    """The tile as the operation reads it: in the first iteration of `filled_by` from the source, storing it in the
    buffer, later from the buffer. The loops in between carry the buffer."""
    rewriter = ctx.rewriter
    whole = Tile.full(shape_of(start.type))
    held = start
    for loop in reversed(below):
        given = held
        if held is not start:
            given = rewriter.insert(Materialize.of(held, whole), InsertPoint.before(loop), f"{base}.t").result
        rewriter.set_operands(loop, [*loop.operands, given])
        inside = rewriter.add_block_arg(loop.body, start.type, base)
        result = rewriter.add_result(loop, start.type, base)
        if held is not start:
            rewriter.insert(StYield.of(result, held, whole), InsertPoint.after(loop))
        held = inside
    then, orelse = Block(), Block()
    guard = If([], [start.type], {"predicate": first((filled_by,))}, [then, orelse])
    guard.schedule_location = ctx.location
    read = rewriter.insert(guard, InsertPoint.before(op), f"{base}.t").results[0]
    tile = _stored_tile(ctx, current, current.subset, CloneMap(), maps, digits, then, base)
    slot = slot_tile(slots_of(depends), shape_of(tile.type))
    kept = rewriter.insert(Materialize.of(held, slot), InsertPoint(orelse, 0), f"{base}.t").result
    rewriter.insert(StYield.of(tile, held, slot), InsertPoint(then, len(then.ops)))
    for block, value in ((then, tile), (orelse, kept)):
        rewriter.insert(Yield([value]), InsertPoint(block, len(block.ops)))
    rewriter.set_type(read, tile.type)
    return read
