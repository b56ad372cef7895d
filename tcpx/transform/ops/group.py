"""group: operations that belong together, under one handle."""

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
    """Put operations, and all on the paths between them, into a group: one handle for what belongs together.

    A group changes nothing that is computed. Its operations are scheduled as before; `match .. in g` finds those in it,
    and `specialize g when ..` makes versions of all of them. What is outside, and comes later, is not fused into a loop
    inside. When memory is planned it dissolves by itself.

    A promise binds it, and the kernel is not compiled where it cannot be kept (docs/groups.md). `nest`: the group ends
    as one loop nest. `function`: as a C function of its own, for a `target` of its own if it has one, which is then the
    target of all steps in the group. `row`: as a call of the row `by` of the target, of a function in a library, say.

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
        Parameter("promise", enum("none", "nest", "function", "row"), "none", doc="what it ends as"),
        Parameter("target", NAME, None, doc="the target of the function, an installed one that the kernel's includes"),
        Parameter("by", NAME, None, doc="the row"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        named = {key: args.string(key) for key in ("promise", "target", "by") if args.given(key)}
        return (group(ctx, args.ops("ops"), {key: name for key, name in named.items() if name != "none"}),)
