"""plan_memory: a place in the workspace for every buffer."""

from __future__ import annotations

from tcpx.payload.ir import FuncOp
from tcpx.payload.rewriter import Rewriter
from tcpx.transform.bufferization.workspace import plan
from tcpx.transform.declaration import (
    FUNC,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class PlanMemory(Transform):
    """Give every buffer of the workspace its offset, in bytes, and the function the size of the workspace.

    The workspace is a part all threads share, of `workspace_shared` bytes, and a slot of `workspace_thread` bytes per
    thread, for buffers made inside parallel loops. Buffers that are not live at the same time share memory. Each
    begins at a multiple of 64 bytes, and not a multiple of 4 KiB after the one before.

    Comes after `bufferize`. Compilation applies it where the schedule does not.

    before:
        %h1.buf = buffer.alloc : buffer<[B]x256xf32, strides [256, 1], space arena>
    statement:
        plan_memory(root)
    after:
        %h1.buf = buffer.alloc {offset = 0, per_thread = false} : buffer<[B]x256xf32, strides [256, 1], space arena>
    """

    name = "plan_memory"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC, doc="the function to plan"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        plan_memory(ctx.rewriter, args.func("func"), ctx.threads)
        return ()


def plan_memory(rewriter: Rewriter, func: FuncOp, threads: int = 1) -> None:
    """Plan the workspace of a function on buffers, for `threads` threads."""
    planned = plan(func)
    for op, offset in planned.offsets.items():
        rewriter.set_attribute(op, "offset", offset)
        rewriter.set_attribute(op, "per_thread", op in planned.per_thread)
    rewriter.set_attribute(func, "workspace_shared", planned.shared)
    rewriter.set_attribute(func, "workspace_thread", planned.thread)
    rewriter.set_attribute(func, "threads", threads)
