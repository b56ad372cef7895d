"""coalesce: adjacent dims of an operation as one."""

from tcpx.transform.coalescing import coalesce_dims
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


@register
class Coalesce(Transform):
    """Let one dim of an operation stand for several that lie next to each other in memory: a long dim to tile and to
    vectorize in place of a short one in loops over the others.

    Every operand and result has all of these dims side by side and in this order, or none of them. Reshapes round the
    operation, which move nothing, show its operands and results so; between two operations that are both coalesced
    there is none. An elementwise operation keeps its class, others become a generic. The dim has the name of the first.
    What is `strided`, or shown by a view such as a slice, has gaps, and is refused.

    before:
        func @f(%x: tensor<[M]x7x3xf32>) -> tensor<[M]x7x3xf32> symbols [M] {
          %s = tcp.exp(%x) : tensor<[M]x7x3xf32>
          %r = tcp.sub(%s, %x) : tensor<[M]x7x3xf32>
          tcp.return(%r)
        }
    statement:
        coalesce(s)
        coalesce(r)
    after:
        func @f(%x: tensor<[M]x7x3xf32>) -> tensor<[M]x7x3xf32> symbols [M] {
          %x.t = tcp.reshape(%x) : tensor<[21*M]xf32>
          %s.1 = tcp.exp(%x.t) : tensor<[21*M]xf32> name "s"
          %r.1 = tcp.sub(%s.1, %x.t) : tensor<[21*M]xf32> name "r"
          %r.t = tcp.reshape(%r.1) : tensor<[M]x7x3xf32>
          tcp.return(%r.t)
        }
    """

    name = "coalesce"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a structured operation on tensors"),
        Parameter("dims", DIMS, None, doc="the dims, outermost first; all of the operation if not given"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        return (coalesce_dims(ctx, args.op("target"), args.dims("dims") if args.given("dims") else ()),)
