"""unswitch: move operations into branches on sizes, as versions."""

from typing import Final

from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import If
from tcpx.transform.convex import connected
from tcpx.transform.declaration import (
    FUNC,
    INT,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.specialize_when import specialize_when

MOST: Final = 8
"""The usual number of versions: those of three conditions."""


@register
class Unswitch(Transform):
    """Move the producers and users of a branch on sizes into the branch: one version for each side, in which the branch
    is gone. Loops are then around operations without branches.

    It does so for every branch on one comparison outside loops, in the function and its callees, in program order, as
    long as the function has fewer than `most` versions; the remaining branches are computed into memory before their
    readers. `tcp.expand` is written for such branches. Earlier handles to copied operations denote every version, as
    with `specialize`; the sides are also `when 0` and `else`. The default schedule begins with this step.

    before:
        func @f(%x: tensor<[B]x4xf32>, %b: tensor<[C]x4xf32>) -> tensor<[B]x4xf32> symbols [B, C] {
          %y = tcp.add(%x, expand(%b, [0, 1])) : tensor<[B]x4xf32>
          tcp.return(%y)
        }
    statement:
        unswitch(root)
    after:
        func @f(%x: tensor<[B]x4xf32>, %b: tensor<[C]x4xf32>) -> tensor<[B]x4xf32> symbols [B, C] {
          tcp.assert {any = [C == B, C == 1], message = "dim 0 of %b is 1, or as long as what it becomes"}
          %y.1 = gml_st.if C == B {
            %b.t~when0 = gml_st.materialize(%b) tile [0, 0] [B, 4] : tensor<[B]x4xf32>
            %y~when0 = tcp.add(%x, %b.t~when0) : tensor<[B]x4xf32>
            tcp.yield(%y~when0)
          } else {
            %b.t1 = gml_st.materialize(%b) tile [0, 0] [1, 4] drop [0] : tensor<4xf32>
            %wide = tcp.broadcast(%b.t1) {dims = [1]} : tensor<[B]x4xf32>
            %y = tcp.add(%x, %wide) : tensor<[B]x4xf32>
            tcp.yield(%y)
          } : tensor<[B]x4xf32>
          tcp.return(%y.1)
        }
    """

    name = "unswitch"
    category = Category.LOOPS
    parameters = (
        Parameter("func", FUNC, doc="the function"),
        Parameter("most", INT, default=MOST, doc="the largest number of versions"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        func, most = args.func("func"), args.int("most")
        if most < 2:
            raise ctx.fail("a branch has two versions", op=func, required="most: 2 or more", found=str(most))
        held = [(inner, branch) for inner in ctx.rewriter.module.reached(func) if (branch := _next(inner)) is not None]
        if not held:
            raise ctx.fail(
                f"nothing in @{func.name} is computed with what a branch on sizes gives",
                op=func,
                required="a branch outside of loops whose results are operands",
                found="no such branch",
            )
        for inner, first in held:
            branch: If | None = first
            for _ in range(most - 1):
                if branch is not None:
                    specialize_when(ctx, connected(branch), [branch.predicate])
                    branch = _next(inner)
        return ()


def _next(func: FuncOp) -> If | None:
    """The first branch of a function, or of a version in it, whose results are computed with."""
    waiting: list[Block] = [func.body]
    while waiting:
        block = waiting.pop()
        branches = [op for op in block.ops if isinstance(op, If)]
        for op in branches:
            users = [user for result in op.results for user in result.users]
            if op.predicate.negate() is not None and any(_computes(user, block) for user in users):
                return op
        waiting += [region for op in reversed(branches) for region in reversed(op.regions)]
    return None


def _computes(user: Operation, block: Block) -> bool:
    return user.parent is not block or not user.is_terminator
