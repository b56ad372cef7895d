"""outline_repeats: turn equal consecutive parts into calls of one function."""

from __future__ import annotations

from tcpx.limits import LONGEST_PART
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
from tcpx.transform.repeats import outline_repeats


@register
class OutlineRepeats(Transform):
    """Move repeated operations, such as the layers of a model, into one function, and call it for each repetition.

    Each of the equal consecutive parts is outlined as by `outline`. Parts may differ in stored constants and names; the
    first may also differ in the origin of its operands. A part has at least 4 operations. Steps on operations of the
    function run once, for all calls. The default schedule begins with this step.

    before:
        func @f(%x: tensor<[M]xf32>, %z: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %a1 = tcp.add(%x, %z) : tensor<[M]xf32>
          %b1 = tcp.exp(%a1) : tensor<[M]xf32>
          %c1 = tcp.mul(%a1, %b1) : tensor<[M]xf32>
          %d1 = tcp.exp(%c1) : tensor<[M]xf32>
          %a2 = tcp.add(%d1, %z) : tensor<[M]xf32>
          %b2 = tcp.exp(%a2) : tensor<[M]xf32>
          %c2 = tcp.mul(%a2, %b2) : tensor<[M]xf32>
          %d2 = tcp.exp(%c2) : tensor<[M]xf32>
          tcp.return(%d2)
        }
    statement:
        outline_repeats(root, least: 4)
    after:
        func @f(%x: tensor<[M]xf32>, %z: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %d1.1 = tcp.call @f.d1(%x, %z) : tensor<[M]xf32>
          %d2.1 = tcp.call @f.d1(%d1.1, %z) : tensor<[M]xf32>
          tcp.return(%d2.1)
        }

        func @f.d1(%x: tensor<[M]xf32>, %z: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M] {
          %a1 = tcp.add(%x, %z) : tensor<[M]xf32>
          %b1 = tcp.exp(%a1) : tensor<[M]xf32>
          %c1 = tcp.mul(%a1, %b1) : tensor<[M]xf32>
          %d1 = tcp.exp(%c1) : tensor<[M]xf32>
          tcp.return(%d1)
        }
    """

    name = "outline_repeats"
    category = Category.GROUPS_AND_CALLS
    parameters = (
        Parameter("func", FUNC, doc="the function"),
        Parameter("least", INT, default=LONGEST_PART, doc="the least number of operations that it must save"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        outline_repeats(ctx.rewriter, args.func("func"), args.int("least"))
        return ()
