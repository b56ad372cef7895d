"""group: operations that belong together, under one handle."""

from __future__ import annotations

from tcpx.transform.declaration import (
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

    `promise: nest` binds it: the group ends as one loop nest, or the kernel is not compiled.

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
        Parameter("promise", enum("none", "nest"), "none", doc="what it ends as"),
    )
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        promise = args.string("promise")
        return (group(ctx, args.ops("ops"), "" if promise == "none" else promise),)
