"""snapshot: store the current payload."""

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
class Snapshot(Transform):
    """Store the payload text of a function, loop or operation under a name. Changes and prints nothing.

    `tcpx explain` shows it at the step. `tcpx.apply_schedule(..).trace.snapshots` has names and texts, in order. The
    text of a function without named constants can be parsed by `tcpx.parse`.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        snapshot(root, "before tiling")
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    """

    name = "snapshot"
    category = Category.INSPECTION
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="what to store"),
        Parameter("name", STRING, doc="the name of the snapshot; it may be used again"),
    )
    mutates = False
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        ctx.keep(args.string("name"), args.op("target").text())
        return ()
