"""canonicalize: fold identities, merge equal operations, erase dead ones."""

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
    """Fold pads and slices that change nothing, branches whose condition is decided, and what algebra makes simpler;
    then cse and dce.

    Identities that hold for every value are always applied: `x + -0.0`, `x * 1`, `x / 1`, `neg(neg(x))`, `min(x, x)`,
    `max(x, -inf)`, a `select` of equal arms, casts to the dtype that is there, casts there and back that lose nothing,
    transposes and broadcasts of each other, and those that change nothing. An elementwise operation on operands that
    are repeated alike is computed before the broadcast. Others change what is rounded, and are asked for:

    * `fma`: a product that is added to something, or from which it is taken, is rounded once, with it;
    * `reciprocals`: a division by what is repeated is a product with its reciprocal;
    * `zeros`: `x + 0.0` is x, also where x is -0.0, and `x * 0.0` and `x - x` are 0, also of NaN and infinities.

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
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="the function, loop or operation to clean"),
        Parameter("fma", BOOL, False, doc="products and sums of floats are rounded once"),
        Parameter("reciprocals", BOOL, False, doc="what is divided by a broadcast is multiplied by reciprocals"),
        Parameter("zeros", BOOL, False, doc="the sign of a zero does not matter, nor do NaN and infinities times 0"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        options = [option for option in INEXACT if args.bool(option)]
        canonicalize(ctx.rewriter, args.op("target"), options, sinks=True)
        return ()
