"""dce: erase unused operations."""

from tcpx.transform.cleanup import erase_unused
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
class Dce(Transform):
    """Erase operations whose results have no uses. Handles to them end.

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.exp(%x) : tensor<4xf32>
          %b = tcp.mul(%x, %x) : tensor<4xf32>
          tcp.return(%b)
        }
    statement:
        dce(root)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %b = tcp.mul(%x, %x) : tensor<4xf32>
          tcp.return(%b)
        }
    """

    name = "dce"
    category = Category.CLEANUP_AND_LOWERING
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        erase_unused(ctx.rewriter, args.op("target"))
        return ()
