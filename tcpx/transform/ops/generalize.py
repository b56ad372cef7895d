"""generalize: write an operation as `tcp.generic`."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured
from tcpx.payload.ops.generic import generalize, positions_of_sizes
from tcpx.payload.sizes import to_text
from tcpx.transform.declaration import (
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import replace_with


@register
class Generalize(Transform):
    """Write an operation as `tcp.generic`: iterators, indexing maps and a scalar body. `specialize` is the inverse.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        generalize(mm)
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.1 = tcp.generic(%x, %w) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]],
              maps = [[m, k], [k, n], [m, n]], combiner = "tcp.add"} ({ (%e0: f32, %e1: f32, %acc: f32):
            %e2 = tcp.mul(%e0, %e1) : f32
            %e3 = tcp.add(%acc, %e2) : f32
            tcp.yield(%e3)
          }) : tensor<[M]x32xf32> name "mm"
          tcp.return(%mm.1)
        }
    """

    name = "generalize"
    category = Category.OPERATION_TREE
    parameters = (Parameter("target", OP, doc="a structured operation"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        if not isinstance(op, Structured) or op.regions:
            raise ctx.fail(
                f"%{op.name} cannot be generalized",
                op=op,
                required="a named structured operation",
                found=op.opcode,
                fix=Direction("decompose it first") if not isinstance(op, Structured) else None,
            )
        if found := positions_of_sizes(op):
            raise ctx.fail(
                f"%{op.name} cannot be generalized",
                op=op,
                required="positions of numbers and dims, no sizes",
                found=f"the position `{', '.join(map(to_text, found))}`",
                fix=Direction("coalesce its reduction dims first"),
            )
        return (replace_with(ctx.rewriter, op, generalize(op)),)
