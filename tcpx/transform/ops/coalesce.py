"""coalesce: merge adjacent dims of an operation, or a loop with the one directly inside."""

from tcpx.payload.ops.gml_st import Loop
from tcpx.transform.coalescing import coalesce_chains, coalesce_dims
from tcpx.transform.declaration import (
    BOOL,
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
    """Merge dims of an operation that are adjacent in memory into one: a long dim to tile and vectorize, instead of a
    short one in loops over the others.

    Every operand and result must have all of these dims, adjacent and in this order, or none of them. Reshapes around
    the operation, which move no data, give its operands and results this form; between two coalesced operations there
    is no reshape. An elementwise operation keeps its class, and so does another one that has a form with these dims,
    such as a reduction of all elements; others become a generic. The dim has the name of the first. `strided` operands
    are refused, and views and subsets with gaps such as slices, unless `copies` lets them become arrays; a result that
    is yielded to rows with gaps, too.

    With `repeats`, an operand may have only the first of these dims, where the extents of the others are numbers: each
    element counts as many times as these have elements, one after the other, and it is read by the quotient, `j/K` for
    K of them. Tiles of the dim are then multiples of K. Vectors are permuted to hold each element several times.

    A body that reads positions reads these dims, if at all, as one row-major position, `j*K + k` with K indices of `k`,
    as `tcp.reduce_argmax` over several dims does. That is the position in the one dim.

    For a loop, it merges the loop with the single loop directly inside, over the product of their iterations, in the
    same order: so that threads can share more iterations, or to tile them further. The handle of the outer loop denotes
    the new loop, that of the inner loop ends; the new loop is parallel if both are. The range of the inner loop must
    not depend on the outer iteration, and the inner loop must continue from the destination, or overwrite it.
    `coalesce(i)` again merges the next inner loop.

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
        Parameter("target", OP_OR_LOOP, doc="a structured operation on tensors, or a loop around another one"),
        Parameter(
            "dims", DIMS, None, doc="the dims, outermost first; all of the operation if not given; not for a loop"
        ),
        Parameter("chains", BOOL, False, doc="also coalesce these dims of its prologues and its epilogue"),
        Parameter("copies", BOOL, False, doc="let operands be views, such as a transpose: they become arrays"),
        Parameter("repeats", BOOL, False, doc="let operands lack the last of these dims: they are read by a quotient"),
    )
    results = (Result.TARGET,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        target, dims = args.op("target"), args.dims("dims") if args.given("dims") else None
        if isinstance(target, Loop):
            if dims is not None:
                raise ctx.fail(
                    "loops are coalesced as a whole",
                    op=target,
                    required="no dims, or an operation that has them",
                    found=", ".join(dims) or "an empty list",
                )
            for option in ("chains", "copies", "repeats"):
                if args.bool(option):
                    raise ctx.fail(
                        f"`{option}` is said of an operation's operands",
                        op=target,
                        required="an operation, or a loop alone",
                        found=f"a loop, and {option}: true",
                        fix=f"leave out `{option}`",
                    )
            return (coalesce_loops(ctx, target),)
        coalesced = coalesce_chains if args.bool("chains") else coalesce_dims
        return (coalesced(ctx, target, dims, args.bool("copies"), args.bool("repeats")),)
