"""Two loops side by side, of which neither needs what the other computes, as one."""

from __future__ import annotations

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Size, to_text
from tcpx.transform.arguments import TransformContext
from tcpx.transform.cleanup import merge_equal
from tcpx.transform.convex import gathered, sources
from tcpx.transform.editing import is_pure
from tcpx.transform.loop_order import check_counted


def fuse_siblings(ctx: TransformContext, loop: Loop, into: Loop) -> Loop:
    """Let `into` do what `loop` does, too, and read once what both read. Raises ScheduleError where it cannot."""
    check_alike(ctx, loop, into)
    path = gathered(ctx, (into, loop))
    if path[0] in sources(path[-1]) or len(path) > 2:
        raise ctx.fail(
            f"{path[-1].name} needs what {path[0].name} computes",
            op=path[-1],
            required="loops that do not depend on each other",
            found=f"the path {' -> '.join(f'%{op.name}' for op in path)}",
        )
    return merged(ctx, loop, into)


def merged(ctx: TransformContext, loop: Loop, into: Loop) -> Loop:
    """`into`, which does behind its own what `loop` does, on further destinations, and reads once what both read. They
    stand side by side, and have the same iterations."""
    rewriter = ctx.rewriter
    rewriter.set_operands(into, [*into.operands, *loop.operands])
    for dest in loop.destinations:
        rewriter.replace_uses(dest, rewriter.add_block_arg(into.body, dest.type, dest.name))
    moved = list(loop.body.ops)
    for op in moved:
        rewriter.move(op, InsertPoint.end(into.body))
    rewriter.substitute(moved, {loop.var: Size.of(into.var)})
    results = [rewriter.add_result(into, result.type, result.name) for result in loop.results]
    rewriter.join(loop, into)
    rewriter.replace_op(loop, results)
    merge_equal(rewriter, into)
    return into


def check_alike(ctx: TransformContext, loop: Loop, into: Loop) -> None:
    """Raise ScheduleError unless both are loops on values, of one kind, over one range, side by side."""
    check_counted(ctx, loop, into)
    if loop is into or loop.parent is not into.parent:
        raise ctx.fail(
            f"{loop.name} and {into.name} do not stand side by side",
            op=loop,
            required="two loops in one block",
            found="one loop" if loop is into else "loops in different blocks",
            fix=None if loop is into else Direction("`fuse_siblings` of the loops round them first"),
        )
    on_memory = next((each for each in (loop, into) if not is_pure(each)), None)
    if on_memory is not None:
        raise ctx.fail(
            f"{on_memory.name} writes to memory",
            op=on_memory,
            required="loops whose results are all that they do",
            found="a loop on buffers",
            fix=Direction("`fuse_siblings` before `bufferize`"),
        )
    if loop.opcode != into.opcode or loop.unrolled != into.unrolled:
        raise ctx.fail(
            f"{loop.name} and {into.name} are loops of different kinds",
            op=loop,
            required=_kind(into),
            found=_kind(loop),
        )
    if not all(are_equal_at(loop, a, b) for a, b in zip(_range(loop), _range(into), strict=True)):
        raise ctx.fail(
            f"nothing proves that {loop.name} and {into.name} have the same iterations",
            op=loop,
            required="{} to {} step {}".format(*map(to_text, _range(into))),
            found="{} to {} step {}".format(*map(to_text, _range(loop))),
        )


def _range(loop: Loop) -> tuple[Dim, Dim, Dim]:
    return loop.var.lower, loop.var.upper, loop.var.step


def _kind(loop: Loop) -> str:
    return loop.opcode if loop.unrolled == 1 else f"{loop.opcode}, {loop.unrolled} iterations at a time"
