"""canonicalize: fold identities, merge equal operations, erase dead ones."""

from tcpx.transform.cleanup import canonicalize
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class Canonicalize(Transform):
    """Fold pads and slices that change nothing and branches whose condition is decided; then cse and dce.

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %p = tcp.pad(%x) {value = 0.0} : tensor<4xf32>
          %y = tcp.exp(%p) : tensor<4xf32>
          tcp.return(%y)
        }
    statement:
        canonicalize(root)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = tcp.exp(%x) : tensor<4xf32>
          tcp.return(%y)
        }
    """

    name = "canonicalize"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        canonicalize(ctx.rewriter, args.op("target"))
        return ()
