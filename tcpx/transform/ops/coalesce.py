"""coalesce: adjacent dims of an operation as one, or a loop and the one in it."""

from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.coalescing import coalesce_dims
from tcpx.transform.declaration import (
    DIMS,
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
from tcpx.transform.loop_coalescing import coalesce_loops


@register
class Coalesce(Transform):
    """Let one dim of an operation stand for several that lie next to each other in memory: a long dim to tile and to
    vectorize in place of a short one in loops over the others.

    Every operand and result has all of these dims side by side and in this order, or none of them. Reshapes round the
    operation, which move nothing, show its operands and results so; between two operations that are both coalesced
    there is none. An elementwise operation keeps its class, others become a generic. The dim has the name of the first.
    What is `strided`, or shown by a view such as a slice, has gaps, and is refused.

    Of a loop, it makes one loop of it and of the loop that is all there is in it, over the product of their iterations,
    in the same order: for threads to share more of them, or to tile them further. The handle of the outer loop denotes
    it, the one of the inner loop ends; it is parallel if both are. The range of the inner loop depends on no iteration
    of the outer one, and it goes on from the destination, or writes it from nothing. `coalesce(i)` again takes the
    next loop in it.

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
        Parameter("target", OP_OR_LOOP, doc="a structured operation on tensors, or a loop round another one"),
        Parameter(
            "dims", DIMS, None, doc="the dims, outermost first; all of the operation if not given; none of a loop"
        ),
    )
    results = (Result.TARGET,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        target, dims = args.op("target"), args.dims("dims") if args.given("dims") else ()
        if isinstance(target, Loop):
            if dims:
                raise ctx.fail(
                    "loops are coalesced as a whole",
                    op=target,
                    required="no dims, or an operation that has them",
                    found=", ".join(dims),
                )
            return (coalesce_loops(ctx, target),)
        return (coalesce_dims(ctx, target, dims),)
