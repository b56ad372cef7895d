"""inline: a call gives way to what the function does."""

from __future__ import annotations

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
    """Put the operations of the function that a call runs in the place of the call.

    The handle of the call ends. Those to operations of the function denote the copies here as well, or alone where
    nothing else calls it: then the function goes away. What a group promised to be a function stays one.

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
                fix="inline before `bufferize`",
            )
        if PROMISE in call.called.attributes:
            raise ctx.fail(
                f"@{call.called.name} stays a function, as the group promised that it was made of",
                op=call,
                required="a call of a function that is not promised",
                found=f"promise = {call.called.attributes[PROMISE]}",
                fix="`outline` the operations, or make the group without the promise",
            )
        inline(ctx.rewriter, call)
        return ()
