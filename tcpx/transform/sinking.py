"""A scale of what an operation reads, as one of what it computes."""

from __future__ import annotations

from collections.abc import Iterator

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import index_operands
from tcpx.payload.interfaces import Elementwise, Structured, Tileable, padded
from tcpx.payload.ir import DIM_NAMES, Operation, Value
from tcpx.payload.ops.composite import rounded
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import to_text
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import TensorType, dtype_of, i1, shape_of
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import applied
from tcpx.transform.editing import erase_dead, source_name
from tcpx.transform.elementwise import repeats
from tcpx.transform.separation import Change, Separation, Trace


def sink(ctx: TransformContext, scale: Operation, reader: Operation) -> Operation:
    """Let `reader` read what `scale` scales, and `scale` scale what it computes. Raises ScheduleError where `reader` is
    not linear in it, and where it may compute something of no element."""
    rewriter, value = ctx.rewriter, scale.results[0]
    others = [user for user in value.users if user is not reader]
    if others or scale.parent is not reader.parent or not value.users:
        raise ctx.fail(
            f"%{scale.name} cannot move behind %{reader.name}",
            op=scale,
            required=f"a result that %{reader.name} alone reads, beside it",
            found=_shown(others[0]) if others else f"%{reader.name} in another block",
        )
    index, factor, own = _choice(scale) or _parts(ctx, scale)
    change = Change(Group.PRODUCT, factor)
    required = f"an operation that is linear in %{scale.name}"
    separation = Separation(ctx, {value: Trace(own, change)}, f"%{scale.name} is scaled", required)
    separation.follow(reader)
    trace = separation.traces.get(reader.results[0]) if reader.results else None
    if trace is None or trace.change is not change or len(reader.results) != 1 or reader.inits:
        raise separation.fail(reader, f"`{reader.opcode}`")
    dtype, shape = dtype_of(reader.result.type), shape_of(reader.result.type)
    if dtype != dtype_of(value.type) and dtype.bytes <= dtype_of(value.type).bytes:
        raise separation.fail(reader, f"`{reader.opcode}` to {dtype}, which may hold no more than the scaled numbers")
    _check_replaced(ctx, scale, index, number_of(factor), reader)
    after = reader

    def add(op: Operation, name: str) -> Value:
        nonlocal after
        op.stand_for(scale)
        after = rewriter.insert(op, InsertPoint.after(after), name)
        return after.result

    name, places = f"{source_name(scale)}.by", [k for k in trace.dims if isinstance(k, int)]
    if len({*places}) < len(places):
        raise separation.fail(reader, f"`{reader.opcode}`, which reads a diagonal")
    along = factor
    if places != sorted(places):
        along = add(new.transpose(factor, sorted(range(len(places)), key=places.__getitem__)), name)
    number, is_choice = number_of(factor), dtype_of(factor.type) == i1
    if number is not None and not is_choice:
        (exact,) = rounded(number, dtype_of(factor.type))
        by = add(new.fill(float(exact), TensorType(shape, dtype)), name)
    else:
        by = add(new.broadcast(along, sorted(places), TensorType(shape, dtype_of(factor.type))), name)
    if dtype_of(by.type) != dtype and not is_choice:
        by = add(new.cast(by, dtype), name)
    operands = [by] * len(scale.operands)
    if is_choice:
        operands[3 - index] = add(new.fill(0, TensorType(shape, dtype)), name)
    operands[index] = reader.result
    rewriter.replace_uses(value, scale.operands[index], lambda user: user is reader)
    readers = [use for use in reader.result.uses if use[0] is not after]
    kept = {key: held for key, held in scale.attributes.items() if key != DIM_NAMES}
    made = add(type(scale)(operands, [reader.result.type], kept), source_name(scale))
    for user, k in readers:
        rewriter.set_operand(user, k, made)
    rewriter.rename(after, scale.name)
    rewriter.continue_as(scale, after)
    erase_dead(rewriter, [value, factor])
    return after


def _choice(scale: Operation) -> tuple[int, Value, tuple[int, ...]] | None:
    """The same of a choice between numbers and 0, by a condition that is repeated along some dims."""
    if not isinstance(scale, Elementwise) or not algebra(scale).chooses:
        return None
    index = next((3 - k for k in (1, 2) if number_of(scale.operands[k]) == 0), None)
    held = _repeated(scale.operands[0])
    return None if index is None or held is None else (index, *held)


def _repeated(value: Value) -> tuple[Value, tuple[int, ...]] | None:
    """What a value repeats along some dims, and the dims along which that lies; None for another value."""
    made = value.defining_op
    if not repeats(made):
        return None
    own = made.result_maps()[0]
    return made.inputs[0], tuple(own.index(entry) for entry in made.maps()[0])


def _parts(ctx: TransformContext, scale: Operation) -> tuple[int, Value, tuple[int, ...]]:
    """The position of the operand that an operation scales, what it scales it by, and the dims along which that
    lies."""
    for index in algebra(scale).linear if isinstance(scale, Elementwise) and len(scale.operands) == 2 else ():
        value = scale.operands[1 - index]
        if (number := number_of(value)) is not None:
            scalar = new.fill(number, TensorType((), dtype_of(value.type)))
            scalar.stand_for(scale)
            return index, ctx.rewriter.insert(scalar, InsertPoint.before(scale), f"{source_name(scale)}.by").result, ()
        if (held := _repeated(value)) is not None:
            return index, *held
    raise ctx.fail(
        f"%{scale.name} is no scale",
        op=scale,
        required="a product or quotient with a number, or with what is repeated along some dims, or a choice between "
        "numbers and 0 by a condition that is",
        found=f"{scale.opcode}({', '.join(f'%{v.name}' for v in scale.operands)})",
        fix=Direction("`tcp.broadcast` of what has less dims"),
    )


def _check_replaced(ctx: TransformContext, scale: Operation, index: int, by: float | None, reader: Operation) -> None:
    """Raise ScheduleError where `reader` may give a number for no element of what is scaled, such as the sum of none,
    and the scale is not known to leave that as it is. Operand `index` is what `by` scales, if that is a number."""
    for place, given, fix in _given(ctx, reader):
        if not _leaves(scale, index, by, given):
            raise ctx.fail(
                f"%{reader.name} may be {given} where %{scale.name} has no element",
                op=reader,
                required=f"an element for each, or a scale by a number that leaves {given} as it is",
                found=place,
                fix=fix,
            )


def _leaves(scale: Operation, index: int, by: float | None, given: float) -> bool:
    """Whether a scale is known to leave a number as it is."""
    if len(scale.operands) > 2:  # a choice
        return given == 0
    return by is not None and applied(scale, [given, by] if index == 0 else [by, given]) == given


def _given(ctx: TransformContext, reader: Operation) -> Iterator[tuple[str, float, str | None]]:
    """The numbers that an operation gives where it reads no element, where that may be, and what rules it out."""
    if (
        isinstance(reader, Tileable)
        and padded(reader) is not None
        and (rest := ViewLike(reader).rest) is not None
        and not ViewLike(reader).is_free
    ):
        yield f"padding with {rest}", float(rest), None
    if not isinstance(reader, Structured):
        return
    outside = Indices(reader).outside
    if outside is not None and index_operands(reader.maps()):
        yield f"{outside} for an index that is outside", float(outside), None
    facts, ragged, (neutral, *_) = context_at(reader), ragged_dims(reader), Reduction(reader).neutrals() or (0,)
    for name in [it.name for it in reader.iterators() if it.is_reduction]:
        extent = Masked(reader).valid.get(name, reader.size_of(name))
        if name in ragged:
            yield f"`{name}`, whose extents are read from elements", float(neutral), None
        elif facts.decide(Predicate.of("<=", 1, extent)) is not True:
            shown = ctx.name_of(reader)
            fix = Direction(f"`specialize {shown} when size({shown}.{name}) >= 1 {{ .. }}` round what follows")
            yield f"`{name}` of {to_text(extent)}", float(neutral), fix


def _shown(reader: Operation) -> str:
    return f"{f'%{reader.name}' if reader.name else f'`{reader.opcode}`'}, which reads it"
