"""outline: move operations into a function."""

from tcpx.transform.convex import gathered
from tcpx.transform.declaration import (
    OPS,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.grouping import check_values
from tcpx.transform.outlining import outline


@register
class Outline(Transform):
    """Move operations, and all on the paths between them, into a function, and call it in their place.

    Their handles denote them in the function; the step returns the call. If a function exists that computes the same,
    for all sizes that this call may have, it is called instead, and handles to the operations of both denote those of
    this one. Stored constants become arguments, so that functions that differ only in constants are equal. State that
    they change, such as a cache, is state of the new function, if nothing else reads it. The function declares its
    symbols with the ranges that they have here, in a branch say, and asserts what else is known here of the sizes that
    it has (`tcp.assert`). Each function becomes a C function, compiled once for all its calls. `inline` is the inverse.

    before:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %s = tcp.add(%x, %y) : tensor<[M]x64xf32>
          %r = tcp.mul(%s, %s) : tensor<[M]x64xf32>
          tcp.return(%r)
        }
    statement:
        let c = outline([s, r])
    after:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %r.1 = tcp.call @f.r(%x, %y) : tensor<[M]x64xf32>
          tcp.return(%r.1)
        }

        func @f.r(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %s = tcp.add(%x, %y) : tensor<[M]x64xf32>
          %r = tcp.mul(%s, %s) : tensor<[M]x64xf32>
          tcp.return(%r)
        }
    """

    name = "outline"
    category = Category.GROUPS_AND_CALLS
    parameters = (Parameter("ops", OPS, doc="the operations"),)
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        ops = gathered(ctx, args.ops("ops"))
        check_values(ctx, ops)
        made = outline(ctx.rewriter, ops)
        made.schedule_location = ctx.location
        return (made,)
