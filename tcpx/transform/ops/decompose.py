"""decompose: a composite operation as the operations it stands for."""

from __future__ import annotations

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
    """Replace a composite operation by operations of the tree. The handle then denotes the last of them.

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
    parameters = (Parameter("target", OP, doc="a composite operation"),)
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        if not isinstance(op, Composite):
            raise ctx.fail(f"%{op.name} is no composite", op=op, required="a composite operation", found=op.opcode)
        rewriter = ctx.rewriter

        def build(made: Operation) -> Value:
            short = made.opcode.split(".")[-1]
            made.location = op.location
            inserted = rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}/{short}")
            rewriter.set_origins(inserted, inserted.origins, op.copy_path)
            return inserted.result

        result = op.decompose(build)
        anchor = result.defining_op
        if anchor is None:
            raise op.error("a composite decomposes into operations", required="values made by operations")
        anchor.name = op.name
        rewriter.continue_as(op, anchor)
        rewriter.replace_op(op, [result])
        return (anchor,)
