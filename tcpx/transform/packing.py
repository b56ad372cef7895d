"""Packing: copy a tile of an operand into a buffer, in the layout in which the computation reads it."""

from collections.abc import Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import from_first, grows, map_digit, map_dim, map_symbols
from tcpx.payload.interfaces import Box, Structured
from tcpx.payload.ir import Operation, is_in
from tcpx.payload.ops.gml_st import Loop, Materialize
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import (
    align_up,
    to_text,
    upper_expression,
    variables,
)
from tcpx.payload.traits.rebuilding import Rebuilding
from tcpx.payload.types import TensorType, dtype_of
from tcpx.transform import new
from tcpx.transform.arguments import Digit, OperandRef, TransformContext
from tcpx.transform.digits import digit_extents, layout_map, padded_to_digits, reread
from tcpx.transform.editing import erase_dead, read_subset, source_name
from tcpx.transform.filling import (
    CurrentTile,
    check_filled_by,
    current_tile,
    dependent_loops,
    fill_before,
    fill_while_read,
    loops_below,
    slot_tile,
    slots_of,
    with_views,
)
from tcpx.transform.fusion import ancestor_in
from tcpx.transform.tiling import check_on_tensors


def pack(
    ctx: TransformContext,
    operand: OperandRef,
    layout: Sequence[Digit],
    at: Loop | None,
    parallel: bool,
    filled_by: Loop | None = None,
) -> Loop:
    """Copy the operand's current tile into a buffer that is filled in the body of `at`, or outside all loops, for every
    iteration of the loops in between that the tile depends on; the op then reads the buffer. Returns the loop that
    fills it: a new one, or `filled_by`, in whose first iteration the op reads the operand itself."""
    op = operand.op
    rewriter = ctx.rewriter
    if not isinstance(op, Structured) or (at is not None and not is_in(op, at)):
        raise ctx.fail(
            f"%{op.name} is not in the loop {at.name}" if at is not None else f"%{op.name} cannot be packed for",
            op=op,
            required="a structured operation inside the loop given as `at`",
            found=f"{op.opcode} outside it",
        )
    check_on_tensors(ctx, op)
    _check_each_dim_once(ctx, op, operand)
    layout = _whole_layout(op, operand.index, layout)
    stored_by = layout_map(ctx, op, operand.index, layout)
    op = _reading_from_first(rewriter, padded_to_digits(ctx, op, stored_by), operand.index)
    operand = OperandRef(op, operand.index)
    held_by, stored_by = op.maps()[operand.index], from_first(stored_by)
    current = current_tile(operand.value)
    outermost = ancestor_in(op, at.body) if at is not None else _outermost_loop(op)
    if outermost is None or outermost is op:
        outermost = op
    here = context_at(outermost)
    current = with_views(current, outermost)
    depends = dependent_loops(current, op, at)
    _check_source(ctx, current, outermost, op)
    if filled_by is not None:
        check_filled_by(ctx, filled_by, op, loops_below(op, at), depends)
    for position, size in enumerate(current.shape):
        if here.upper_bound(size) is None:
            raise ctx.fail(
                f"the tile of %{operand.value.name} has no bound in dim {position}",
                op=op,
                required="a tile whose every size is bounded",
                found=f"{current.shape[position]}",
                fix=Direction("tile that dim before packing"),
            )
    inside = {loop.name for loop in loops_below(op, at)}
    digits = digit_extents(op, operand.index, stored_by)
    pitches = tuple(
        align_up(size, digit.pad, here.names) if digit.pad is not None else size
        for digit, size in zip(layout, digits, strict=True)
    )
    # A loop that runs at most once has one slot, also where nothing says that it runs.
    trips = tuple(
        1 if slot == 0 else here.ceildiv(loop.var.upper - loop.var.lower, loop.var.step)
        for loop, slot in zip(depends, slots_of(depends), strict=False)
    )
    dtype = dtype_of(operand.value.type)
    base = f"{source_name(op)}.{op.operand_roles[operand.index] if operand.index < len(op.operand_roles) else 'packed'}"
    shape = tuple(
        here.not_negative(upper_expression(size, lambda v: v.name not in inside, here.names))
        for size in (*(trips or (1,)), *pitches)
    )
    for size in shape:
        unknown = [v.name for v in variables(size) if v.name in inside]
        if unknown:
            raise ctx.fail(
                f"the size of the packed tile of %{operand.value.name} differs between iterations of {unknown[0]}",
                op=op,
                required="sizes that are known, or bounded, where the buffer is filled",
                found=to_text(size),
                fix=Direction("pack further inside"),
            )
    point = InsertPoint.before(outermost)
    start = rewriter.insert(new.empty(TensorType(shape, dtype)), point, f"{base}.buffer")

    in_source = tuple(held_by[current.permutation.index(k)] for k in range(len(held_by)))
    maps = (in_source, stored_by)
    if filled_by is None:
        filled, outer = fill_before(
            ctx, current, depends, maps, digits, start.result, base, outermost, here.names, parallel
        )
        read = slot_tile(slots_of(depends), digits)
        value = rewriter.insert(Materialize.of(filled, read), InsertPoint.before(op), f"{base}.t").result
    else:
        outer = filled_by
        between = loops_below(op, at)
        value = fill_while_read(ctx, current, between, depends, maps, digits, start.result, base, op, filled_by)
    old = operand.value
    if set(stored_by) == set(held_by) and Rebuilding(op).reading_by(operand.index, stored_by) is None:
        if stored_by != held_by:
            inverse = [stored_by.index(e) for e in held_by]
            value = rewriter.insert(new.transpose(value, inverse), InsertPoint.before(op), f"{base}.t").result
        rewriter.set_operand(op, operand.index, value)
    else:
        reread(rewriter, op, operand.index, value, stored_by)
    erase_dead(rewriter, [old])
    return outer


def _reading_from_first(rewriter: Rewriter, op: Structured, index: int) -> Structured:
    """The operation with input `index` cut to the part that it reads, starting at its first element."""
    value, read = op.inputs[index], op.maps()[index]
    part = op.operand_tile(index, Box.at_origin(op.extents()))
    rewriter.set_operand(op, index, read_subset(rewriter, value, part, op))
    local = from_first(read)
    return op if local == read else reread(rewriter, op, index, op.inputs[index], local)


def _whole_layout(op: Structured, index: int, layout: Sequence[Digit]) -> tuple[Digit, ...]:
    """The full layout: the operand's dims that `layout` does not name are outermost, in the operand's order; so are
    windows if it names none of their dims."""
    given = {digit.dim for digit in layout}
    held = [(e, map_dim(e), map_digit(e)) for e in op.maps()[index] if given.isdisjoint(map_symbols(e))]
    rest = [
        Digit(name) if name is not None else Digit(to_text(entry), window=entry)
        for entry, name, part in held
        if name is not None or (part is None and grows(entry))
    ]
    for _, _, part in held:
        if part is not None:
            rest.append(Digit(part.dim, mod=part.radix) if part.is_remainder else Digit(part.dim, part.radix))
    return (*rest, *layout)


def _check_each_dim_once(ctx: TransformContext, op: Structured, operand: OperandRef) -> None:
    """A layout names each dim once, so it cannot place a diagonal."""
    held = op.maps()[operand.index]
    names = [map_dim(expression) for expression in held]
    if any(name is not None and names.count(name) > 1 for name in names):
        raise ctx.fail(
            f"%{operand.value.name} is read along a diagonal and cannot be packed",
            op=op,
            required="an operand that holds each of its dims once",
            found=f"[{', '.join(map(to_text, held))}]",
        )


def _check_source(ctx: TransformContext, current: CurrentTile, filled_before: Operation, op: Operation) -> None:
    enclosing = [a.parent for a in (filled_before, *filled_before.ancestors()) if a.parent is not None]
    for source in current.sources:
        block = source.owner.parent if isinstance(source.owner, Operation) else source.owner
        if not any(block is b for b in enclosing):
            where = enclosing[0].parent
            raise ctx.fail(
                f"%{source.name} is computed inside the loop {where.name if where is not None else ''}, too late "
                "to pack it there",
                op=op,
                required=f"an operand that exists where the body of {where.name if where is not None else ''} begins",
                found=f"%{source.name} made further inside",
            )


def _outermost_loop(op: Operation) -> Operation | None:
    """The outermost loop around an operation; None if there is none."""
    return next((a for a in reversed([*op.ancestors()]) if isinstance(a, Loop)), None)
