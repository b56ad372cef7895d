"""print: print a part of the payload."""

from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    enum,
    register,
)
from tcpx.transform.loop_nest import loop_nest


@register
class Print(Transform):
    """Print the loop nest of a function, loop or operation, or its full text, once the step is committed.

    It changes nothing, not even names: the success of a later step does not depend on it.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>, %b: tensor<[M]x32xf32>)
            -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          %r = tcp.max(%mm, %b) : tensor<[M]x32xf32>
          tcp.return(%r)
        }
    statement:
        tile(mm, [m: 6])
        print(root)
    output:
        func @f
          for mm/m1 in 0 to M step 6
            mm = tcp.matmul
          r = tcp.max
    """

    name = "print"
    category = Category.INSPECTION
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="what to print"),
        Parameter("as", enum("nest", "text"), "nest", doc="the loop nest, or the payload text"),
    )
    mutates = False
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        ctx.remark(op.text() if args.string("as") == "text" else loop_nest(op))
        return ()
