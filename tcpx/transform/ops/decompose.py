"""decompose: a composite operation as the operations it stands for."""

from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.rewriter import InsertPoint
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
from tcpx.transform.editing import source_name


@register
class Decompose(Transform):
    """Replace a composite operation by operations of the tree, or an elementwise one by the simpler ones that a target
    without it computes. The handle then denotes the last of them.

    before:
        func @f(%x: tensor<[M]x10xf32>) -> tensor<[M]x10xf32> symbols [M] {
          %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x10xf32>
          tcp.return(%y)
        }
    statement:
        decompose(y)
    after:
        func @f(%x: tensor<[M]x10xf32>) -> tensor<[M]x10xf32> symbols [M] {
          %y/reduce_max = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
          %y/broadcast = tcp.broadcast(%y/reduce_max) {dims = [0]} : tensor<[M]x10xf32>
          %y/sub = tcp.sub(%x, %y/broadcast) : tensor<[M]x10xf32>
          %y/exp = tcp.exp(%y/sub) : tensor<[M]x10xf32>
          %y/reduce_sum = tcp.reduce_sum(%y/exp) {dims = [1]} : tensor<[M]xf32>
          %y/broadcast.1 = tcp.broadcast(%y/reduce_sum) {dims = [0]} : tensor<[M]x10xf32>
          %y/div = tcp.div(%y/exp, %y/broadcast.1) : tensor<[M]x10xf32> name "y"
          tcp.return(%y/div)
        }
    """

    name = "decompose"
    category = Category.OPERATION_TREE
    parameters = (Parameter("target", OP, doc="a composite or elementwise operation"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        rewriter = ctx.rewriter

        def build(made: Operation) -> Value:
            short = made.opcode.split(".")[-1]
            made.location = op.location
            inserted = rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}/{short}")
            rewriter.set_origins(inserted, inserted.origins, op.copy_path)
            return inserted.result

        result = op.decompose(build) if isinstance(op, Composite) else None
        if isinstance(op, Elementwise):
            result = op.expansion(build, op.operands)
        anchor = result.defining_op if result is not None else None
        if result is None or anchor is None:
            required = "a composite operation, or an elementwise one that has simpler terms"
            raise ctx.fail(f"%{op.name} is not made of others", op=op, required=required, found=op.opcode)
        rewriter.rename(anchor, op.name)
        rewriter.continue_as(op, anchor)
        rewriter.replace_op(op, [result])
        return (anchor,)
