"""clone: give a call its own copy of the function."""

from __future__ import annotations

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
from tcpx.transform.outlining import own_copy


@register
class Clone(Transform):
    """Give a call its own copy of its function, to be scheduled separately from the other calls.

    Handles to operations of the function denote both copies; `x in c` denotes those that the call `c` runs. What
    `share` moved there is denoted by its handle as this call computes it. Sizes that
    are numbers at the call are numbers in the copy: there `specialize` takes the version for them without a test. The
    callees of the function are not copied: clone again, inside, as in `clone(d in c)`.

    before:
        func @f(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %c = tcp.call @g(%x) : tensor<[M]xf32>
          %d = tcp.call @g(%c) : tensor<[M]xf32>
          tcp.return(%d)
        }
        func @g(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %y = tcp.exp(%x) : tensor<[N]xf32>
          tcp.return(%y)
        }
    statement:
        clone(c)
    after:
        func @f(%x: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %c = tcp.call @g.1(%x) : tensor<[M]xf32>
          %d = tcp.call @g(%c) : tensor<[M]xf32>
          tcp.return(%d)
        }

        func @g(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %y = tcp.exp(%x) : tensor<[N]xf32>
          tcp.return(%y)
        }

        func @g.1(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %y = tcp.exp(%x) : tensor<[N]xf32>
          tcp.return(%y)
        }
    """

    name = "clone"
    category = Category.GROUPS_AND_CALLS
    parameters = (Parameter("call", op_of("call"), doc="the call"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        call = args.op("call")
        if not isinstance(call, Call) or len(call.called.callers()) < 2:
            raise ctx.fail(
                f"%{call.name} runs no function on tensors that other calls run",
                op=call,
                required="a function with two calls or more",
                found=call.opcode if not isinstance(call, Call) else f"no other call of @{call.called.name}",
            )
        own_copy(ctx.rewriter, call)
        return ()
