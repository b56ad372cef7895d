"""cse: merge operations that compute the same."""

from tcpx.transform.cleanup import merge_equal
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
class Cse(Transform):
    """Merge pure operations with the same operands and attributes. Handles to all of them denote the remaining one.

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.exp(%x) : tensor<4xf32>
          %b = tcp.exp(%x) : tensor<4xf32>
          %c = tcp.add(%a, %b) : tensor<4xf32>
          tcp.return(%c)
        }
    statement:
        cse(root)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.exp(%x) : tensor<4xf32>
          %c = tcp.add(%a, %a) : tensor<4xf32>
          tcp.return(%c)
        }
    """

    name = "cse"
    category = Category.CLEANUP_AND_LOWERING
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        merge_equal(ctx.rewriter, args.op("target"))
        return ()
