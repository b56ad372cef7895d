"""dce: erase what nothing uses."""

from __future__ import annotations

from tcpx.transform.cleanup import erase_unused
from tcpx.transform.declaration import (
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class Dce(Transform):
    """Erase operations whose results nothing uses. A handle to one of them ends.

    before:
        %a = tcp.add(%x, %y) : tensor<4xf32>
        tcp.return(%x)
    statement:
        dce(root)
    after:
        tcp.return(%x)
    """

    name = "dce"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        erase_unused(ctx.rewriter, args.op("target"))
        return ()
