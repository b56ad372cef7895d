"""cancel_transposes: compute what stands between transposes in the order in which it is stored."""

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
from tcpx.transform.editing import with_called
from tcpx.transform.transposes import cancel_transposes


@register
class CancelTransposes(Transform):
    """Compute elementwise operations, reductions and normalizations on the operands of transposes, where less is
    transposed then: transposes around an operation cancel each other, and a reduction needs none.

    Operations keep their classes, and reduce along the same dims at their new positions. Operands that are broadcast,
    filled or constant are given in the other order. Nothing changes if a result that is as large would be transposed
    instead.

    before:
        func @f(%x: tensor<[N]x64xf32>) -> tensor<[N]x64xf32> symbols [N] {
          %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<64x[N]xf32>
          %s = tcp.softmax(%t) {dim = 1} : tensor<64x[N]xf32>
          %r = tcp.transpose(%s) {permutation = [1, 0]} : tensor<[N]x64xf32>
          tcp.return(%r)
        }
    statement:
        cancel_transposes(root)
    after:
        func @f(%x: tensor<[N]x64xf32>) -> tensor<[N]x64xf32> symbols [N] {
          %s.1 = tcp.softmax(%x) {dim = 0} : tensor<[N]x64xf32> name "s"
          tcp.return(%s.1)
        }
    """

    name = "cancel_transposes"
    category = Category.OPERATION_TREE
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="a loop or operation, or a function and those that it calls"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        for root in with_called(ctx.rewriter, args.op("target")):
            cancel_transposes(ctx.rewriter, root)
        return ()
