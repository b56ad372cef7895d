"""emit_remark: print a message about an operation."""

from tcpx.transform.declaration import (
    OP_OR_LOOP,
    STRING,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class EmitRemark(Transform):
    """Print a message with the name and the place of each copy of an operation. Changes nothing.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        emit_remark(mm, "is packed")
    output:
        ...: %mm: is packed
    """

    name = "emit_remark"
    category = Category.INSPECTION
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="the operation or loop"),
        Parameter("message", STRING, doc="the text"),
    )
    mutates = False
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        place = f"{op.location}: " if op.location is not None else ""
        ctx.remark(f"{place}%{op.name}: {args.string('message')}")
        return ()
