"""Groups: made of operations, checked for what they promise, and dissolved."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import BufferType
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered, move_into, replace_outside, used_outside

NEST = "nest"
"""The promise to end as one loop nest."""


def group(ctx: TransformContext, targets: Sequence[Operation], promise: str = "") -> Group:
    """The smallest convex set of operations that holds `targets` becomes the region of a group."""
    rewriter = ctx.rewriter
    ops = gathered(ctx, targets)
    check_values(ctx, ops)
    used = used_outside(ops)
    made = Group.of(used)
    made.location, made.schedule_location = ops[0].location, ctx.location
    if promise:
        made.attributes["promise"] = promise
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
            fix="group before `bufferize`",
        )


def dissolve(rewriter: Rewriter, made: Group) -> None:
    """Put what is in a group in its place. Raises ScheduleError if it is not what it promises to become."""
    _check_promise(made)
    for op in list(made.body.ops[:-1]):
        rewriter.move(op, InsertPoint.before(made))
    end = made.body.terminator
    rewriter.end(made, "a group that was dissolved")
    rewriter.replace_op(made, list(end.operands) if end is not None else [])


def dissolve_all(rewriter: Rewriter, root: Operation) -> None:
    """Dissolve the groups inside an operation, the inner ones first."""
    for op in reversed([op for op in root.walk() if isinstance(op, Group)]):
        dissolve(rewriter, op)


def _check_promise(made: Group) -> None:
    parts = [op for op in made.body.ops[:-1] if not op.is_fixed and not op.leaves_undefined]
    if made.attributes.get("promise") != NEST or (len(parts) == 1 and isinstance(parts[0], Loop)):
        return
    raise ScheduleError(
        Diagnostic(
            f"the group %{made.name} has not become one loop nest, as it promises",
            Kind.SILENCEABLE,
            schedule=made.schedule_location,
            payload=made.location,
            required="one loop, with all that the group computes inside it",
            found=", ".join(f"%{op.name} ({op.opcode})" for op in parts) or "nothing",
            fix="fuse the others into one loop, or make the group without the promise",
        )
    )


def check_not_isolated(ctx: TransformContext, op: Operation, into: Loop) -> None:
    """Nothing from outside is fused into a loop of an isolated group."""
    closed = next((a for a in into.ancestors() if isinstance(a, Group) and a.is_isolated and not op.is_in(a)), None)
    if closed is not None:
        raise ctx.fail(
            f"%{op.name} is outside the isolated group %{closed.name}",
            op=op,
            required=f"an operation of the group, as {into.name} is",
            found=f"%{op.name} ({op.opcode}) outside it",
            fix=f"group it with the others, or `dissolve` %{closed.name} first",
        )
