"""dissolve: end a group."""

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

BINDING = Parameter("binding", BOOL, True, doc="whether its promise must be fulfilled")


@register
class Dissolve(Transform):
    """End a group and fulfil its promise. The handle of the group ends; those of its operations remain.

    Without a promise, and with `promise: nest`, the operations take the place of the group. With `promise: function`,
    they move into a function, which is called there. With `promise: row`, a row of the target replaces (`lower_to`) the
    one operation of the group that computes. A promise that cannot be fulfilled is refused; `binding: false` drops it.

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
