"""fold_unit_dims: drop dims of extent 1."""

from tcpx.transform.declaration import (
    DIMS,
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.unit_dims import fold_dims


@register
class FoldUnitDims(Transform):
    """Drop dims of extent 1 from an operation: a batch of one product becomes a product, a product with one column a
    matrix times a vector.

    Only dims that indexing maps use alone are dropped, of those that are reduced all but one. Reshapes, which move no
    data, drop them from operands and results; between two folded operations there is no reshape, and a broadcast along
    such a dim becomes one without it. The operation keeps its class, or becomes the class without them: `batch_matmul`
    a `matmul`, `matmul` a `matvec` or a `vecmat`, each a `contract`.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x1xf32>) -> tensor<[M]x1xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x1xf32>
          tcp.return(%mm)
        }
    statement:
        fold_unit_dims(mm)
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x1xf32>) -> tensor<[M]x1xf32> symbols [M] {
          %w.t = tcp.reshape(%w) : tensor<64xf32>
          %mm.1 = tcp.matvec(%x, %w.t) : tensor<[M]xf32> name "mm"
          %mm.t = tcp.reshape(%mm.1) : tensor<[M]x1xf32>
          tcp.return(%mm.t)
        }
    """

    name = "fold_unit_dims"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a structured operation on tensors"),
        Parameter("dims", DIMS, None, doc="the dims to drop; all of extent 1 if not given"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fold_dims(ctx, args.op("target"), args.dims("dims") if args.given("dims") else ()),)
