"""dissolve: a group gives its operations back."""

from tcpx.payload.ops.group import Group
from tcpx.transform.declaration import (
    BOOL,
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

BINDING = Parameter("binding", BOOL, True, doc="whether its promise has to be kept")


@register
class Dissolve(Transform):
    """End a group as it promises. The handle of the group ends; those of its operations go on.

    Without a promise, and with `promise: nest`, its operations stand where it stood. With `promise: function` they are
    in a function that is called there. With `promise: row` a row of the target is called (`lower_to`), for the one
    operation of the group that does more than move data. A promise that cannot be kept is refused; `binding: false`
    drops it.

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
    parameters = (Parameter("group", op_of("group"), doc="the group"), BINDING)
    ends = ("group",)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        made = args.op("group")
        if isinstance(made, Group):
            dissolve(ctx, made, args.bool("binding"))
        return ()
