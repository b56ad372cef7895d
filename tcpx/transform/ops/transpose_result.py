"""transpose_result: an operation that writes its result in another order of its dims."""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import dims, map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Generic
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.types import like, shape_of
from tcpx.transform import new
from tcpx.transform.declaration import (
    DIMS,
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
from tcpx.transform.editing import replace_with, source_name
from tcpx.transform.matching import classes_called, find_match, general, stand_ins
from tcpx.transform.tiling import check_on_tensors


@register
class TransposeResult(Transform):
    """Compute the result of a structured operation with its dims in another order, and transpose that: the dim that
    lies innermost decides what is computed in vectors.

    An `init` is transposed on the way in. The operation becomes the nearest class that can say it. Returns the
    transpose, whose tiles may be fused with those of the operation.

    before:
        func @f(%x: tensor<[H]x[M]x64xf32>, %w: tensor<[H]x64x32xf32>) -> tensor<[M]x32x[H]xf32> symbols [H, M] {
          %mm = tcp.contract(%x, %w) {lhs = ["h", "m", "k"], rhs = ["h", "k", "n"], out = ["m", "n", "h"]} :
              tensor<[M]x32x[H]xf32>
          tcp.return(%mm)
        }
    statement:
        transpose_result(mm, [h])
    after:
        func @f(%x: tensor<[H]x[M]x64xf32>, %w: tensor<[H]x64x32xf32>) -> tensor<[M]x32x[H]xf32> symbols [H, M] {
          %mm.1 = tcp.contract(%x, %w) {lhs = ["h", "m", "k"], rhs = ["h", "k", "n"], out = ["h", "m", "n"]} :
              tensor<[H]x[M]x32xf32> name "mm"
          %mm.turned = tcp.transpose(%mm.1) {permutation = [1, 2, 0]} : tensor<[M]x32x[H]xf32>
          tcp.return(%mm.turned)
        }
    """

    name = "transpose_result"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a structured operation on tensors"),
        Parameter("order", DIMS, doc="dims of its result, outermost first; the others follow as they are"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, first, rewriter = args.op("target"), args.dims("order"), ctx.rewriter
        if not isinstance(op, Structured):
            raise ctx.fail(
                f"%{op.name} has no iteration dims", op=op, required="a structured operation", found=op.opcode
            )
        check_on_tensors(ctx, op)
        if len(op.results) != 1:
            raise ctx.fail(
                f"%{op.name} has several results, which have one order of dims",
                op=op,
                required="an operation with one result",
                found=", ".join(f"%{result.name}" for result in op.results),
            )
        have = map_dims(op.result_map()) or ()
        order = (*first, *(dim for dim in have if dim not in first))
        if sorted(order) != sorted(have) or order == have:
            raise ctx.fail(
                f"[{', '.join(first)}] is no new order of the dims of %{op.name}'s result",
                op=op,
                required=f"some of {', '.join(have)}, each once, that are not its first",
                found=", ".join(first) or "no dims",
            )
        inward = [have.index(dim) for dim in order]
        operands = list(op.operands)
        if op.init is not None:
            start = new.transpose(op.init, inward)
            start.stand_for(op)
            rewriter.insert(start, InsertPoint.before(op), f"{source_name(op)}.init")
            operands[-1] = start.results[0]
        made = replace_with(rewriter, op, _in_order(op, order, inward, operands))
        turned = new.transpose(made.result, [order.index(dim) for dim in have])
        turned.stand_for(op)
        rewriter.insert(turned, InsertPoint.after(made), f"{source_name(op)}.turned")
        rewriter.replace_uses(made.result, turned.results[0], lambda user: user is not turned)
        return (turned,)


def _in_order(op: Structured, order: Sequence[str], inward: Sequence[int], operands: Sequence[Value]) -> Operation:
    """The detached operation that has the dims of its result in this order: of the nearest class, or a generic."""
    base = general(op.on_tiles(stand_ins(op), shape_of(op.result.type)))
    entries = {it.name: it.entry for it in op.iterators()}
    attributes = {
        **base.attributes,
        "iterators": tuple(entries[d] for d in (*order, *(d for d in entries if d not in order))),
        "maps": (*base.maps(), dims(*order)),
    }
    shape = tuple(shape_of(op.result.type)[k] for k in inward)
    given = Block([(v.name, v.type) for v in operands]).args
    made = Generic(given, [like(op.result.type, shape, op.acc_type)], attributes, base.regions, location=op.location)
    for name in op.tree_classes() if not op.regions else ():
        found = find_match(made, classes_called(name))
        if not isinstance(found, list):
            return found.on(made, operands)
    return made.on_tiles(operands, shape)
