"""constant_fold: evaluate an operation on constants."""

from tcpx.transform.constant_folding import fold
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class ConstantFold(Transform):
    """Evaluate an operation, or a loop, that reads only constants. Its result becomes a constant of the module, and its
    unused producers are erased. The handle then denotes the constant. In a function that is called, an argument that is
    constant in every call counts as a constant; if the calls pass different ones, each call passes its own result. If
    some calls pass constants and others do not, those with constants get a copy of the function, as by `clone`, and the
    others compute the operation as before. A weight that is packed outside all loops is thus packed at compile time,
    once for all versions with the same packing:

        let bp = pack(mm.rhs, [k, n])
        constant_fold(bp)

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %a = tcp.const {value = 2.0} : tensor<4xf32>
          %e = tcp.exp(%a) : tensor<4xf32>
          %y = tcp.mul(%x, %e) : tensor<4xf32>
          tcp.return(%y)
        }
    statement:
        constant_fold(e)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %e.1 = tcp.const {constant = "e"} : tensor<4xf32> name "e"
          %y = tcp.mul(%x, %e.1) : tensor<4xf32>
          tcp.return(%y)
        }
    """

    name = "constant_fold"
    category = Category.LAYOUT_AND_MEMORY
    needs_count = False
    parameters = (Parameter("target", OP_OR_LOOP, doc="an operation or loop with one result of static shape"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fold(ctx, args.op("target")),)
