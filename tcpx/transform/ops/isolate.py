"""isolate: prevent fusion into a group."""

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


@register
class Isolate(Transform):
    """Close a group: nothing outside is fused into it, and `cse` does not merge across its border.

    before:
        func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
          %g = tcp.group ({
            %y = tcp.exp(%x) : tensor<8xf32>
            tcp.yield(%y)
          }) : tensor<8xf32>
          tcp.return(%g)
        }
    statement:
        isolate(g)
    after:
        func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
          %g = tcp.group {isolated = 1} ({
          ...
    """

    name = "isolate"
    category = Category.GROUPS_AND_CALLS
    parameters = (Parameter("group", op_of("group"), doc="the group"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        made = args.op("group")
        if isinstance(made, Group) and made.is_isolated:
            raise ctx.fail(f"%{made.name} is isolated already", op=made, required="an open group", found="a closed one")
        ctx.rewriter.set_attribute(made, "isolated", 1)
        return ()
