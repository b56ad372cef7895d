"""group: put operations under one handle."""

from tcpx.transform.declaration import (
    NAME,
    OPS,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    enum,
    register,
)
from tcpx.transform.grouping import group


@register
class MakeGroup(Transform):
    """Put operations, and all on the paths between them, into a group with one handle.

    A group does not change the computation. Its operations are scheduled as before; `match .. in g` searches the group,
    and `specialize g when ..` makes versions of all of it. Later consumers outside are not fused into loops of the
    group. Memory planning dissolves it.

    A promise is binding: if it cannot be fulfilled, the kernel is not compiled (docs/groups.md). With `nest`, the group
    becomes one loop nest. With `function`, it becomes a C function, for its own `target` if it names one, which is then
    the target of all steps in the group. With `row`, it becomes a call of the target's row `by`, for example of a
    library function.

    before:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %s = tcp.add(%x, %y) : tensor<[M]x64xf32>
          %r = tcp.mul(%s, %s) : tensor<[M]x64xf32>
          tcp.return(%r)
        }
    statement:
        let g = group([s, r], promise: nest)
    after:
        func @f(%x: tensor<[M]x64xf32>, %y: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
          %r.group = tcp.group {promise = "nest"} ({
            %s = tcp.add(%x, %y) : tensor<[M]x64xf32>
            %r = tcp.mul(%s, %s) : tensor<[M]x64xf32>
            tcp.yield(%r)
          }) : tensor<[M]x64xf32>
          tcp.return(%r.group)
        }
    """

    name = "group"
    category = Category.GROUPS_AND_CALLS
    parameters = (
        Parameter("ops", OPS, doc="the operations"),
        Parameter("promise", enum("none", "nest", "function", "row"), "none", doc="what the group becomes"),
        Parameter("target", NAME, None, doc="an installed target for the function, included in the kernel's target"),
        Parameter("by", NAME, None, doc="the row"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        named = {key: args.string(key) for key in ("promise", "target", "by") if args.given(key)}
        return (group(ctx, args.ops("ops"), {key: name for key, name in named.items() if name != "none"}),)
