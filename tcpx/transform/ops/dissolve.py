"""dissolve: a group gives its operations back."""

from __future__ import annotations

from tcpx.payload.ops.group import Group
from tcpx.transform.declaration import (
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    op_of,
    register,
)
from tcpx.transform.grouping import dissolve


@register
class Dissolve(Transform):
    """Put the operations of a group where the group stands. The handle of the group ends; theirs go on.

    A group that has not become what it promises is refused.

    before:
        func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
          %g = tcp.group ({
            %y = tcp.exp(%x) : tensor<8xf32>
            tcp.yield(%y)
          }) : tensor<8xf32>
          tcp.return(%g)
        }
    statement:
        dissolve(g)
    after:
        func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
          %y = tcp.exp(%x) : tensor<8xf32>
          tcp.return(%y)
        }
    """

    name = "dissolve"
    category = Category.GROUPS_AND_CALLS
    parameters = (Parameter("group", op_of("group"), doc="the group"),)
    ends = ("group",)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        made = args.op("group")
        if isinstance(made, Group):
            dissolve(ctx.rewriter, made)
        return ()
