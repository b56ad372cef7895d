"""A scale of what an operation reads, as one of what it computes."""

from __future__ import annotations

from tcpx.payload.interfaces import Elementwise, Group
from tcpx.payload.ir import DIM_NAMES, Operation, Value
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import erase_dead, source_name
from tcpx.transform.elementwise import repeats
from tcpx.transform.separation import Change, Separation, Trace


def sink(ctx: TransformContext, scale: Operation, reader: Operation) -> Operation:
    """Let `reader` read what `scale` scales, and `scale` scale what it computes. Raises ScheduleError where `reader` is
    not linear in it."""
    rewriter, value = ctx.rewriter, scale.results[0]
    others = [user for user in value.users if user is not reader]
    if others or scale.parent is not reader.parent or not value.users:
        raise ctx.fail(
            f"%{scale.name} cannot move behind %{reader.name}",
            op=scale,
            required=f"a result that %{reader.name} alone reads, beside it",
            found=_shown(others[0]) if others else f"%{reader.name} in another block",
        )
    index, factor, own = _parts(ctx, scale)
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
    wide = TensorType(shape, dtype_of(factor.type))
    number = number_of(factor)
    by = add(new.broadcast(along, sorted(places), wide) if number is None else new.fill(number, wide), name)
    if dtype_of(by.type) != dtype:
        by = add(new.cast(by, dtype), name)
    rewriter.replace_uses(value, scale.operands[index], lambda user: user is reader)
    readers = list(reader.result.uses)
    operands = [reader.result if k == index else by for k in range(len(scale.operands))]
    kept = {key: held for key, held in scale.attributes.items() if key != DIM_NAMES}
    made = add(type(scale)(operands, [reader.result.type], kept), source_name(scale))
    for user, k in readers:
        rewriter.set_operand(user, k, made)
    rewriter.rename(after, scale.name)
    rewriter.continue_as(scale, after)
    erase_dead(rewriter, [value, factor])
    return after


def _parts(ctx: TransformContext, scale: Operation) -> tuple[int, Value, tuple[int, ...]]:
    """The position of the operand that an operation scales, what it scales it by, and the dims along which that
    lies."""
    for index in scale.linear if isinstance(scale, Elementwise) and len(scale.operands) == 2 else ():
        value = scale.operands[1 - index]
        made = value.defining_op
        if (number := number_of(value)) is not None:
            scalar = new.fill(number, TensorType((), dtype_of(value.type)))
            scalar.stand_for(scale)
            return index, ctx.rewriter.insert(scalar, InsertPoint.before(scale), f"{source_name(scale)}.by").result, ()
        if repeats(made):
            own = made.result_maps()[0]
            return index, made.inputs[0], tuple(own.index(entry) for entry in made.maps()[0])
    raise ctx.fail(
        f"%{scale.name} is no scale",
        op=scale,
        required="a product or quotient with a number, or with what is repeated along some dims",
        found=f"{scale.opcode}({', '.join(f'%{v.name}' for v in scale.operands)})",
        fix="`tcp.broadcast` of what has less dims",
    )


def _shown(reader: Operation) -> str:
    return f"{f'%{reader.name}' if reader.name else f'`{reader.opcode}`'}, which reads it"
