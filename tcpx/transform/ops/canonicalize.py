"""canonicalize: fold identities, merge equal operations, erase dead ones."""

from tcpx.payload.contraction import may_contract
from tcpx.transform.cleanup import canonicalize
from tcpx.transform.declaration import (
    BOOL,
    OP_OR_LOOP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.identities import INEXACT


@register
class Canonicalize(Transform):
    """Fold pads and slices that change nothing, branches with a decided condition, and algebraic identities; then cse
    and dce.

    Identities that hold for every value are always applied: `x + -0.0`, `x * 1`, `x / 1`, `neg(neg(x))`, `min(x, x)`,
    `max(x, -inf)`, a `select` with equal arms, casts to the same dtype, lossless casts there and back, transposes and
    broadcasts of each other, and those that change nothing. An elementwise operation on operands that are broadcast
    alike is computed before the broadcast. Rewrites that change rounding are options:

    * `fma`: a product that is added or subtracted is rounded once, together with the sum;
    * `reciprocals`: a division by a broadcast value becomes a product with its reciprocal;
    * `zeros`: `x + 0.0` is x, also if x is -0.0; `x * 0.0` and `x - x` are 0, also for NaN and infinities.

    `merge: false` applies only what folds an operation alone: equal operations stay separate, and nothing moves before
    a broadcast.

    before:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %p = tcp.pad(%x) {value = 0.0} : tensor<4xf32>
          %y = tcp.exp(%p) : tensor<4xf32>
          tcp.return(%y)
        }
    statement:
        canonicalize(root)
    after:
        func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
          %y = tcp.exp(%x) : tensor<4xf32>
          tcp.return(%y)
        }
    """

    name = "canonicalize"
    category = Category.CLEANUP_AND_LOWERING
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),
        Parameter("fma", BOOL, False, doc="round products and sums of floats once"),
        Parameter("reciprocals", BOOL, False, doc="replace division by a broadcast with a product of reciprocals"),
        Parameter("zeros", BOOL, False, doc="ignore the sign of zeros, and NaN and infinities times 0"),
        Parameter("merge", BOOL, True, doc="merge equal operations, and move operations before a broadcast"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        options = [option for option in INEXACT if args.bool(option)]
        merges, target = args.bool("merge"), args.op("target")
        if args.bool("fma") and not may_contract(target):
            raise ctx.fail(
                "products and sums are rounded once, which the payload forbids",
                op=target,
                required="a payload without `contraction = false`",
                found="fma: true",
                fix="leave `fma: true` out, or compile with contraction",
            )
        canonicalize(ctx.rewriter, target, options, sinks=merges, merges=merges)
        return ()
