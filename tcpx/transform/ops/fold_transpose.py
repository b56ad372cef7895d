"""fold_transpose: let an operation read an operand without its transpose."""

from __future__ import annotations

from tcpx.payload.interfaces import Structured
from tcpx.transform.arguments import OperandRef
from tcpx.transform.declaration import (
    VALUE,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.digits import reread
from tcpx.transform.editing import erase_dead
from tcpx.transform.tiling import check_on_tensors
from tcpx.transform.vectors.pieces import transposed


@register
class FoldTranspose(Transform):
    """Let an operation read the source of a transposed operand, in the order in which it is stored.

    The operation keeps its dims, and becomes the nearest class with such indexing maps. Chains of transposes are folded
    at once. `transpose_result` instead changes the producer of the operand.

    before:
        func @f(%q: tensor<[M]x64xf32>, %k: tensor<[N]x64xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
          %kt = tcp.transpose(%k) {permutation = [1, 0]} : tensor<64x[N]xf32>
          %s = tcp.matmul(%q, %kt) : tensor<[M]x[N]xf32>
          tcp.return(%s)
        }
    statement:
        fold_transpose(s.rhs)
    after:
        func @f(%q: tensor<[M]x64xf32>, %k: tensor<[N]x64xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
          %s.1 = tcp.contract(%q, %k) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}
              : tensor<[M]x[N]xf32> name "s"
          tcp.return(%s.1)
        }
    """

    name = "fold_transpose"
    category = Category.FUSION
    parameters = (Parameter("operand", VALUE, doc="an operand that a transpose computes: `mm.rhs`"),)
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        given = args.value("operand")
        if not isinstance(given, OperandRef):
            raise ctx.fail(
                "what is read is an operand, not a value",
                op=given.defining_op,
                required="an operand such as `mm.rhs`",
                found=f"%{given.name}",
            )
        op, index = given.op, given.index
        if not isinstance(op, Structured) or len(op.results) != 1 or index >= len(op.inputs):
            raise ctx.fail(
                f"%{op.name} does not read the operand by a map",
                op=op,
                required="an input of a structured operation with one result",
                found=op.opcode,
            )
        check_on_tensors(ctx, op)
        old = op.inputs[index]
        value, layout = old, op.maps()[index]
        while (shown := transposed(value.defining_op)) is not None:
            value, order = shown
            layout = tuple(layout[order.index(k)] for k in range(len(order)))
        if value is old:
            made = old.defining_op
            raise ctx.fail(
                f"%{old.name} is no transpose",
                op=op,
                required="an operand that a transpose computes",
                found=made.opcode if made is not None else "an argument of the function",
            )
        made = reread(ctx.rewriter, op, index, value, layout)
        erase_dead(ctx.rewriter, [old])
        return (made,)
