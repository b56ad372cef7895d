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
        %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x10xf32>
    statement:
        decompose(y)
    after:
        %y.1 = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>
        ...
        %y.7 = tcp.div(%y.4, %y.6) : tensor<[M]x10xf32>
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
            raise op.error("a composite decomposes into operations")
        anchor.name = op.name
        rewriter.continue_as(op, anchor)
        rewriter.replace_op(op, [result])
        return (anchor,)
