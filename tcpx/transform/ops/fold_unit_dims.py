"""fold_unit_dims: an operation without its dims of one index."""

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
    """Leave out dims of an operation that have one index: a batch of one product is a product, a product with one
    column a matrix times a vector.

    Parallel dims of size 1 that maps use alone are left out, and reshapes, which move nothing, show operands and
    results without them; between two operations whose dims were folded there is none. The operation keeps its class, or
    becomes what it is without them: `batch_matmul` a `matmul`, `matmul` a `matvec` or a `vecmat`, each a `contract`.

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
        Parameter("dims", DIMS, None, doc="the dims to leave out; all that have one index if not given"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (fold_dims(ctx, args.op("target"), args.dims("dims") if args.given("dims") else ()),)
