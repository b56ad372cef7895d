"""Packing: copy an operand's tile into a buffer laid out as the computation reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tcpx.payload.bounds import is_equal, is_less_equal, upper_bound
from tcpx.payload.facts import facts_at
from tcpx.payload.indexing_maps import IndexingMap, map_digit, map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import For, Loop, Materialize, Parallel, StYield, trip_count
from tcpx.payload.ops.memory import Empty, Pad
from tcpx.payload.ops.movement import Transpose
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import (
    Dim,
    Size,
    Symbol,
    Var,
    align_up,
    floordiv,
    substitute,
    to_text,
    upper_expression,
    variables,
)
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType, dtype_of, shape_of, substitute_type
from tcpx.transform.arguments import Digit, OperandRef, TransformContext
from tcpx.transform.digits import digit_extents, layout_map, padded_to_digits, reread, split_digits
from tcpx.transform.editing import erase_dead, source_name
from tcpx.transform.fusion import ancestor_in
from tcpx.transform.tiling import check_on_tensors


@dataclass(frozen=True, slots=True)
class _CurrentTile:
    """What an operand reads now: a subset of `source`, padded, its dims in the order `permutation`, of this shape."""

    source: Value
    subset: Tile
    shape: tuple[Dim, ...]
    pad: Pad | None
    permutation: tuple[int, ...]


def pack(ctx: TransformContext, operand: OperandRef, layout: Sequence[Digit], at: Loop | None, parallel: bool) -> Loop:
    """Copy the operand's current tile, for every iteration of the loops between `at` and the op that it depends
    on, into a buffer filled in the body of `at`, or outside all loops; the op reads the buffer. Returns the loop that
    fills it."""
    op = operand.op
    rewriter = ctx.rewriter
    if not isinstance(op, Structured) or (at is not None and not op.is_in(at)):
        raise ctx.fail(
            f"%{op.name} is not in the loop {at.name}" if at is not None else f"%{op.name} cannot be packed for",
            op=op,
            required="a structured operation inside the loop given as `at`",
            found=f"{op.opcode} outside it",
        )
    check_on_tensors(ctx, op)
    layout = _whole_layout(op, operand.index, layout)
    stored_by = layout_map(ctx, op, operand.index, layout)
    op = padded_to_digits(ctx, op, stored_by)
    operand = OperandRef(op, operand.index)
    held_by = op.maps()[operand.index]
    current = _current_tile(operand.value)
    outermost = ancestor_in(op, at.body) if at is not None else _outermost_loop(op)
    if outermost is None or outermost is op:
        outermost = op
    _check_source(ctx, current, outermost, op)
    depends = _dependent_loops(current, op, at)
    for position, size in enumerate(current.shape):
        if upper_bound(size) is None:
            raise ctx.fail(
                f"the tile of %{operand.value.name} has no bound in dim {position}",
                op=op,
                required="a tile whose every size is bounded",
                found=f"{current.shape[position]}",
                fix="tile that dim before packing",
            )
    inside = {loop.name for loop in _loops_below(op, at)}
    digits = digit_extents(op, stored_by)
    pitches = tuple(
        align_up(size, digit.pad) if digit.pad is not None else size for digit, size in zip(layout, digits, strict=True)
    )
    trips = tuple(trip_count(loop) for loop in depends)
    dtype = dtype_of(operand.value.type)
    base = f"{source_name(op)}.{op.operand_roles[operand.index] if operand.index < len(op.operand_roles) else 'packed'}"
    shape = tuple(upper_expression(size, lambda v: v.name not in inside) for size in (*(trips or (1,)), *pitches))
    for size in shape:
        unknown = [v.name for v in variables(size) if v.name in inside]
        if unknown:
            raise ctx.fail(
                f"the size of the packed tile of %{operand.value.name} differs between iterations of {unknown[0]}",
                op=op,
                required="sizes that are known, or bounded, where the buffer is filled",
                found=to_text(size),
                fix="pack further inside",
            )
    point = InsertPoint.before(outermost)
    start = rewriter.insert(Empty.of(TensorType(shape, dtype)), point, f"{base}.buffer")

    in_source = tuple(held_by[current.permutation.index(k)] for k in range(len(held_by)))
    maps = (in_source, stored_by)
    filled, outer = _fill(ctx, current, depends, maps, digits, start.result, base, outermost, parallel)
    slots = tuple(floordiv(Size.of(loop.var) - loop.var.lower, loop.var.step) for loop in depends) or (0,)
    read = _slot_tile(slots, digits)
    value = rewriter.insert(Materialize.of(filled, read), InsertPoint.before(op), f"{base}.t").result
    old = operand.value
    if set(stored_by) == set(held_by) and op.reading_by(operand.index, stored_by) is None:
        if stored_by != held_by:
            inverse = [stored_by.index(e) for e in held_by]
            value = rewriter.insert(Transpose.of(value, inverse), InsertPoint.before(op), f"{base}.t").result
        rewriter.set_operand(op, operand.index, value)
    else:
        reread(rewriter, op, operand.index, value, stored_by)
    erase_dead(rewriter, [old])
    return outer


def _current_tile(value: Value) -> _CurrentTile:
    definition = value.defining_op
    shape = shape_of(value.type)
    straight = tuple(range(len(shape)))
    if isinstance(definition, Transpose):
        inner = _current_tile(definition.operands[0])
        turned = tuple(inner.permutation[k] for k in definition.permutation)
        return _CurrentTile(inner.source, inner.subset, shape, inner.pad, turned)
    if isinstance(definition, Pad):
        inner = _current_tile(definition.operands[0])
        if inner.pad is None and inner.permutation == straight:
            return _CurrentTile(inner.source, inner.subset, shape, definition, straight)
    if isinstance(definition, Materialize):
        return _CurrentTile(definition.operands[0], definition.subset, shape, None, straight)
    return _CurrentTile(value, Tile.full(shape), shape, None, straight)


def _whole_layout(op: Structured, index: int, layout: Sequence[Digit]) -> tuple[Digit, ...]:
    """The layout with the operand's dims that it does not name outermost, in the operand's order."""
    given = {digit.dim for digit in layout}
    held = [(map_dim(e), map_digit(e)) for e in op.maps()[index]]
    rest = [Digit(name) for name, _ in held if name is not None and name not in given]
    for _, part in held:
        if part is not None and part.dim not in given:
            rest.append(Digit(part.dim, mod=part.radix) if part.is_remainder else Digit(part.dim, part.radix))
    return (*rest, *layout)


def _check_source(ctx: TransformContext, current: _CurrentTile, filled_before: Operation, op: Operation) -> None:
    owner = current.source.owner
    block = owner.parent if isinstance(owner, Operation) else owner
    enclosing = [a.parent for a in (filled_before, *filled_before.ancestors()) if a.parent is not None]
    if not any(block is b for b in enclosing):
        where = enclosing[0].parent
        raise ctx.fail(
            f"%{current.source.name} is computed inside the loop {where.name if where is not None else ''}, too late "
            "to pack it there",
            op=op,
            required=f"an operand that exists where the body of {where.name if where is not None else ''} begins",
            found=f"%{current.source.name} made further inside",
        )


def _outermost_loop(op: Operation) -> Operation | None:
    """The outermost of the loops round an operation; None if there is none."""
    return next((a for a in reversed([*op.ancestors()]) if isinstance(a, Loop)), None)


def _loops_below(op: Operation, at: Loop | None) -> list[Loop]:
    """The loops between `at`, or any place outside all loops, and `op`, innermost first."""
    found: list[Loop] = []
    for ancestor in op.ancestors():
        if ancestor is at:
            break
        if isinstance(ancestor, Loop):
            found.append(ancestor)
    return found


def _check_inside(ctx: TransformContext, subset: Tile, source: Value, before: Operation) -> None:
    """What is packed is read where no loop or branch further inside has said that it is there: it always must be."""
    facts = facts_at(before)
    extents = shape_of(source.type)
    for offset, size, stride, extent in zip(subset.offsets, subset.sizes, subset.strides, extents, strict=True):
        end = offset + (size - 1) * stride + 1
        if is_less_equal(facts.attach(end), facts.attach(extent)) is not True:
            raise ctx.fail(
                f"a tile of %{source.name} may end behind it where it is packed: the loop that reads it may be empty",
                op=before,
                required=f"a tile that ends at {to_text(extent)} at the latest",
                found=f"{to_text(size)} from {to_text(offset)}",
                fix="pack further inside, in the loop that reads the tile",
            )


def _dependent_loops(current: _CurrentTile, op: Operation, at: Loop | None) -> list[Loop]:
    """The loops between `at` and `op` whose variables the tile, or the range of such a loop, depends on, outermost
    first."""
    padded = shape_of(current.pad.result.type) if current.pad is not None else ()
    used = {v for d in (*current.subset.offsets, *current.subset.sizes, *padded) for v in variables(d)}
    between = _loops_below(op, at)
    for loop in between:
        if loop.var in used:
            used |= {v for d in (loop.var.lower, loop.var.upper, loop.var.step) for v in variables(d)}
    return [loop for loop in reversed(between) if loop.var in used]


def _slot_tile(slots: Sequence[Dim], digits: Sequence[Dim]) -> Tile:
    rank = len(slots) + len(digits)
    return Tile(
        (*slots, *(0 for _ in digits)),
        (*(1 for _ in slots), *digits),
        (1,) * rank,
        tuple(range(len(slots))),
    )


def _fill(
    ctx: TransformContext,
    current: _CurrentTile,
    depends: Sequence[Loop],
    maps: tuple[IndexingMap, IndexingMap],
    digits: Sequence[Dim],
    start: Value,
    base: str,
    before: Operation,
    parallel: bool,
) -> tuple[Value, Loop]:
    """The loops that fill the buffer; returns the filled buffer and the outermost loop. `maps`: by which the operation
    reads what is packed, and by which it reads the buffer."""
    rewriter = ctx.rewriter
    renamed: dict[Symbol | Var, Dim] = {}
    fresh: list[Var] = []
    ranges = [(loop.var.lower, loop.var.upper, loop.var.step) for loop in depends] or [(0, 1, 1)]
    for depth, (lower, upper, step) in enumerate(ranges):
        name = rewriter.ordinal_name(before, f"{base}/pack")
        var = Var(name, *(substitute(d, renamed) for d in (lower, upper, step)))
        fresh.append(var)
        if depends:
            renamed[depends[depth].var] = Size.of(var)
    slots = tuple(floordiv(Size.of(v) - v.lower, v.step) if depends else Size.of(v) for v in fresh)
    loops: list[Loop] = []
    value, point = start, InsertPoint.before(before)
    for depth, var in enumerate(fresh):
        if depth:
            part = _slot_tile(slots[depth - 1 : depth], shape_of(value.type)[1:])
            value = rewriter.insert(Materialize.of(value, part), point, f"{base}.slot").result
            point = InsertPoint(point.block, len(point.block.ops))
        kind = Parallel if parallel and depth == 0 else For
        loop = kind.over(var, [value], Block([("", value.type)]))
        loop.location = before.location
        loops.append(rewriter.insert(loop, point, base))
        value, point = loop.body.args[0], InsertPoint(loop.body, 0)
    inner = loops[-1]

    def build(op: Operation) -> Value:
        return rewriter.insert(op, InsertPoint(inner.body, len(inner.body.ops)), f"{base}.t").result

    subset = current.subset.substitute(renamed)
    tile = current.source
    _check_inside(ctx, subset, tile, before)
    if subset.is_full(shape_of(tile.type)) is not True:
        tile = build(Materialize.of(tile, subset))
    if current.pad is not None:
        padded = substitute_type(current.pad.result.type, renamed)
        made = Pad.of(tile, shape_of(padded), current.pad.value)
        made.attributes.update(current.pad.attributes)
        tile = build(made)
    held_by, stored_by = maps
    if set(held_by) != set(stored_by):
        tile = build(split_digits(tile, held_by, stored_by))
    elif held_by != stored_by:
        tile = build(Transpose.of(tile, [held_by.index(e) for e in stored_by]))
    inner_digits = tuple(shape_of(tile.type))
    stored = StYield.of(tile, inner.destinations[0], _slot_tile(slots[-1:], inner_digits))
    rewriter.insert(stored, InsertPoint(inner.body, len(inner.body.ops)))
    for depth, (outer, nested) in enumerate(pairwise(loops)):
        part = _slot_tile(slots[depth : depth + 1], shape_of(nested.results[0].type))
        rewriter.insert(
            StYield.of(nested.results[0], outer.destinations[0], part), InsertPoint(outer.body, len(outer.body.ops))
        )
    if any(is_equal(a, b) is not True for a, b in zip(digits, inner_digits, strict=True)) and not depends:
        raise ctx.fail(
            "the packed tile changes its size inside the loop",
            required="a tile of one size in all iterations",
            op=before,
        )
    return loops[0].results[0], loops[0]
