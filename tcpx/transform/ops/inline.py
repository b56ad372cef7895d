"""inline: replace a call by the body of the function."""

from __future__ import annotations

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import PROMISE
from tcpx.payload.ops.call import Call
from tcpx.transform.declaration import (
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    op_of,
    register,
)
from tcpx.transform.outlining import inline


@register
class Inline(Transform):
    """Replace a call by the operations of its function.

    The handle of the call ends. Handles to operations of the function also denote the copies here. If there is no other
    call, they denote only these, and the function is erased. A function that a group promised cannot be inlined.

    before:
        func @f(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %c = tcp.call @g(%x) : tensor<[M]xf32>
          tcp.return(%c)
        }
        func @g(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %y = tcp.exp(%x) : tensor<[N]xf32>
          tcp.return(%y)
        }
    statement:
        inline(c)
    after:
        func @f(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %y = tcp.exp(%x) : tensor<[M]xf32>
          tcp.return(%y)
        }
    """

    name = "inline"
    category = Category.GROUPS_AND_CALLS
    parameters = (Parameter("call", op_of("call"), doc="the call"),)
    ends = ("call",)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        call = args.op("call")
        if not isinstance(call, Call) or "results" in call.called.attributes:
            raise ctx.fail(
                f"%{call.name} calls a function on buffers",
                op=call,
                required="a call of a function on tensors",
                found=call.opcode,
                fix=Direction("inline before `bufferize`"),
            )
        if PROMISE in call.called.attributes:
            raise ctx.fail(
                f"@{call.called.name} stays a function, as the group promised that it was made of",
                op=call,
                required="a call of a function that is not promised",
                found=f"promise = {call.called.attributes[PROMISE]}",
                fix=Direction("`outline` the operations, or make the group without the promise"),
            )
        inline(ctx.rewriter, call)
        return ()
