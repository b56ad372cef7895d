"""decompose: expand an operation into simpler ones."""

from collections.abc import Sequence

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Build, Elementwise, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.types import TensorType
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
from tcpx.transform.editing import rename_inside, source_name
from tcpx.transform.elementwise_splitting import split_body


@register
class Decompose(Transform):
    """Expand a composite operation into operations of the tree, or an elementwise one into the simpler ones that
    targets without it compute. The handle then denotes the last of them.

    A tile of an operation that returns positions, such as `tcp.reduce_argmax`, becomes one with positions relative to
    the tile, in 32 bits if they fit, followed by the combination with the previous result.

    An elementwise generic becomes one tensor operation per operation of its body, with broadcasts and transposes where
    its maps require them: the inverse of `fuse_elementwise`.

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
          %y/exp = tcp.exp(%y/sub) {most = 0.0} : tensor<[M]x10xf32>
          %y/reduce_sum = tcp.reduce_sum(%y/exp) {dims = [1]} : tensor<[M]xf32>
          %y/reciprocal = tcp.reciprocal(%y/reduce_sum) : tensor<[M]xf32>
          %y/broadcast.1 = tcp.broadcast(%y/reciprocal) {dims = [0]} : tensor<[M]x10xf32>
          %y/mul = tcp.mul(%y/exp, %y/broadcast.1) : tensor<[M]x10xf32> name "y"
          tcp.return(%y/mul)
        }
    """

    name = "decompose"
    category = Category.OPERATION_TREE
    parameters = (Parameter("target", OP, doc="a composite or elementwise operation, a generic, a tile of positions"),)
    results = (Result.OP,)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        rewriter = ctx.rewriter

        def build(made: Operation) -> Value:
            if made.regions and isinstance(op, Elementwise):
                raise ctx.fail(
                    f"%{op.name} has a branch in vectors",
                    op=op,
                    required="an operation on tensors, or one that has none, such as tcp.exp",
                    found=f"%{op.name}: {op.result.type}",
                    fix=Direction("decompose it before vectorize"),
                )
            short = made.opcode.split(".")[-1]
            made.location = op.location
            rename_inside(rewriter, made, op)
            inserted = rewriter.insert(made, InsertPoint.before(op), f"{source_name(op)}/{short}")
            rewriter.set_origins(inserted, inserted.origins, op.copy_path)
            return inserted.results[0]

        values = _parts(ctx, op, build)
        anchors = [value.defining_op for value in values if value not in op.operands]
        anchor = anchors[-1] if anchors else None
        if anchor is None:
            required = "a composite operation, or an elementwise one that has simpler terms"
            raise ctx.fail(f"%{op.name} is not made of others", op=op, required=required, found=op.opcode)
        rewriter.rename(anchor, op.name)
        rewriter.continue_as(op, anchor)
        rewriter.replace_op(op, values)
        return (anchor,)


def _is_on_tensors(op: Operation) -> bool:
    return all(isinstance(result.type, TensorType) for result in op.results)


def _parts(ctx: TransformContext, op: Operation, build: Build) -> Sequence[Value]:
    """The replacements of the results; nothing for an operation without a decomposition."""
    if isinstance(op, Composite):
        return op.decomposed(build)
    if isinstance(op, Elementwise):
        result = Expansion(op).expansion(build, op.operands)
        return [] if result is None else [result]
    made = Expansion(op).decompose(build) if isinstance(op, Structured) and _is_on_tensors(op) else ()
    if made:
        return made
    return split_body(ctx, op, build) if isinstance(op, Structured) and op.regions else []
