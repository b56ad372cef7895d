"""Groups: made of operations, checked for what they promise, and dissolved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, ScheduleError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import PROMISE, FuncOp, Operation, is_in
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType
from tcpx.target import target_at
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered, move_into, replace_outside, used_outside
from tcpx.transform.ops.lower_to import lower_to
from tcpx.transform.outlining import outline


def group(ctx: TransformContext, targets: Sequence[Operation], attributes: Mapping[str, str]) -> Group:
    """The smallest convex set of operations that holds `targets` becomes the region of a group with a promise."""
    rewriter = ctx.rewriter
    ops = gathered(ctx, targets)
    check_values(ctx, ops)
    used = used_outside(ops)
    made = Group.of(used)
    made.location, made.schedule_location = ops[0].location, ctx.location
    made.attributes.update(attributes)
    made.verify_promise()
    target_at(made, ctx.target)
    rewriter.insert(made, InsertPoint.before(ops[0]), f"{ops[-1].name}.group")
    replace_outside(rewriter, ops, used, made.results)
    move_into(rewriter, ops, used, made.body)
    return made


def check_values(ctx: TransformContext, ops: Sequence[Operation]) -> None:
    """Raise ScheduleError behind `bufferize`: what belongs together there is also a matter of what memory holds."""
    func = ops[0].func
    inner = func.walk() if func is not None else iter(ops)
    buffer = next((v for op in inner for v in (*op.operands, *op.results) if isinstance(v.type, BufferType)), None)
    if buffer is not None:
        raise ctx.fail(
            f"%{ops[-1].name or ops[-1].opcode} is in a function on buffers: it cannot be grouped",
            op=ops[-1],
            required="operations on tensors",
            found=f"%{buffer.name}: {buffer.type}",
            fix=Direction("group before `bufferize`"),
        )


def dissolve(ctx: TransformContext, made: Group, binding: bool = True) -> None:
    """Put what a group promises to become in its place. Raises ScheduleError if it does not become that. Without
    `binding`, that is its operations."""
    rewriter, promise = ctx.rewriter, str(made.attributes.get(PROMISE)) if binding else ""
    if promise == "row":
        _call_row(ctx, made, str(made.attributes["by"]))
    elif promise == "function":
        try:
            call = outline(rewriter, made.body.ops[:-1], promise=promise, name=made.name.removesuffix(".group"))
        except ScheduleError as error:
            known, message = error.diagnostic, f"{_named(made)} has not become a function, as it promises"
            raise ctx.fail(f"{message}: {known.message}", made, known.required, known.found) from error
        call.schedule_location = made.schedule_location
    elif promise == "nest":
        _check_nest(made)
    for op in list(made.body.ops[:-1]):
        rewriter.move(op, InsertPoint.before(made))
    end = made.body.terminator
    rewriter.end(made, "a group that was dissolved")
    rewriter.replace_op(made, list(end.operands) if end is not None else [])


def dissolve_all(ctx: TransformContext, func: FuncOp) -> None:
    """Dissolve the groups in a function, and in those it calls, the inner ones first."""
    for held in ctx.rewriter.module.reached(func):
        for op in reversed([op for op in held.walk() if isinstance(op, Group)]):
            own = replace(ctx, target=target_at(op, ctx.target), location=op.schedule_location or ctx.location)
            dissolve(own, op)


def _check_nest(made: Group) -> None:
    parts = _parts(made)
    if len(parts) != 1 or not isinstance(parts[0], Loop):
        required = "one loop, with all that the group computes inside it"
        raise _broken(made, "one loop nest", required, parts, "fuse the others into one loop")


def _call_row(ctx: TransformContext, made: Group, row: str) -> None:
    """Let a row do what a group does, where no step has done so."""
    parts = [op for op in _parts(made) if not (isinstance(op, Structured) and op.is_movement)]
    if len(parts) != 1:
        required = "one operation of the group that does more than move data"
        raise _broken(made, f"a call of the row {row}", required, parts, "leave the others out of it")
    if not (isinstance(parts[0], Call) and parts[0].called.row == row):
        lower_to(ctx, parts[0], row)


def _named(made: Group) -> str:
    return f"the group %{made.name}" if made.name else "the group"


def _parts(made: Group) -> list[Operation]:
    return [op for op in made.body.ops[:-1] if Constant.of(op) is None and not Memory(op).leaves_undefined]


def _broken(made: Group, promised: str, required: str, found: Sequence[Operation], fix: str) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            f"{_named(made)} has not become {promised}, as it promises",
            Kind.SILENCEABLE,
            schedule=made.schedule_location,
            payload=made.location,
            required=required,
            found=", ".join(f"%{op.name} ({op.opcode})" for op in found) or "nothing",
            fix=Direction(f"{fix}, or make the group without the promise"),
        )
    )


def check_not_isolated(ctx: TransformContext, op: Operation, into: Loop) -> None:
    """Nothing from outside is fused into a loop of an isolated group."""
    closed = next((a for a in into.ancestors() if isinstance(a, Group) and a.is_isolated and not is_in(op, a)), None)
    if closed is not None:
        raise ctx.fail(
            f"%{op.name} is outside the isolated group %{closed.name}",
            op=op,
            required=f"an operation of the group, as {into.name} is",
            found=f"%{op.name} ({op.opcode}) outside it",
            fix=Direction(f"group it with the others, or `dissolve` %{closed.name} first"),
        )
