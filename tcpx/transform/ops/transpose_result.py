"""transpose_result: compute a result with its dims in another order."""

from collections.abc import Iterable, Sequence

from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Generic
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import to_text
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import like, shape_of
from tcpx.transform import new
from tcpx.transform.declaration import (
    BOOL,
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
from tcpx.transform.layouts.assignment import assign
from tcpx.transform.layouts.carrying import carried
from tcpx.transform.layouts.choice import Choice
from tcpx.transform.layouts.copies import choose_with_copies
from tcpx.transform.layouts.orders import Order, normal
from tcpx.transform.matching import classes_called, find_match, general, stand_ins
from tcpx.transform.tiling import check_on_tensors
from tcpx.transform.vectors.pieces import transposed


@register
class TransposeResult(Transform):
    """Compute the result of a structured operation with its dims in another order, and transpose it back: the innermost
    dim determines what vectors run along.

    An `init` is transposed first. The operation becomes the nearest class with such a result. Returns the transpose,
    whose tiles can be fused with those of the operation. Several results with one order of dims are all transposed; the
    step returns the transpose of the first.

    With `readers: true`, the order goes on: an operation all of whose operands have the new order gives its result in
    it, too, and keeps its class. So it passes elementwise operations, pads, concats, slices, reshapes that keep dims
    next to each other, reductions, pooling, gathers, norms, loops, branches, groups, and functions. A function to which
    other calls pass another order is copied for these, as by `assign_layout`. Constants and vectors that are broadcast
    have any order. An operation with another operand keeps the order of its result, and reads the new one as the
    nearest class that can. The others, such as a return, read a transpose. If none reads one of the target's result,
    the step returns the operation itself.

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
        Parameter("order", DIMS, doc="dims of its result, outermost first; the others follow in their order"),
        Parameter("readers", BOOL, False, doc="let readers of the result have the new order, too"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, first, rewriter = args.op("target"), args.dims("order"), ctx.rewriter
        if not isinstance(op, Structured):
            raise ctx.fail(
                f"%{op.name} has no iteration dims", op=op, required="a structured operation", found=op.opcode
            )
        check_on_tensors(ctx, op)
        if len(set(op.result_maps())) != 1:
            raise ctx.fail(
                f"%{op.name} has several results, whose dims differ",
                op=op,
                required="an operation whose results all have the same dims in one order",
                found=", ".join(f"%{r.name} by [{', '.join(map(to_text, m))}]" for r, m in _with_maps(op)),
            )
        have = map_dims(op.result_maps()[0]) or ()
        order = (*first, *(dim for dim in have if dim not in first))
        if sorted(order) != sorted(have) or order == have:
            raise ctx.fail(
                f"[{', '.join(first)}] is no new order of the dims of %{op.name}'s result",
                op=op,
                required=f"some of {', '.join(have)}, each once, that are not its first",
                found=", ".join(first) or "no dims",
            )
        inward = [have.index(dim) for dim in order]
        operands = list(op.inputs)
        for init in op.inits:
            start = new.transpose(init, inward)
            start.stand_for(op)
            operands.append(rewriter.insert(start, InsertPoint.before(op), f"{source_name(op)}.init").result)
        made = replace_with(rewriter, op, _in_order(op, order, inward, operands))
        starts: dict[Value, Order] = {}
        for value in made.results:
            turned = new.transpose(value, [order.index(dim) for dim in have])
            turned.stand_for(op)
            rewriter.insert(turned, InsertPoint.after(made), f"{source_name(op)}.turned")
            rewriter.replace_uses(value, turned.result, lambda user, own=turned: user is not own)
            starts[turned.result] = normal(inward, shape_of(turned.result.type))
        if args.bool("readers"):
            choice, orders = choose_with_copies(
                rewriter,
                rewriter.func_of(made),
                lambda funcs: Choice(funcs, ctx.target, ()),
                lambda choice: carried(choice, starts),
            )
            assign(rewriter, choice, orders, only_orders=True)
        turned = [user for user in made.results[0].users if transposed(user) is not None]
        return (turned[0] if turned else made,)


def _with_maps(op: Structured) -> Iterable[tuple[Value, IndexingMap]]:
    return zip(op.results, op.result_maps(), strict=True)


def _in_order(op: Structured, order: Sequence[str], inward: Sequence[int], operands: Sequence[Value]) -> Operation:
    """The detached operation with the dims of its result in this order: the nearest class, or a generic."""
    base = general(op.on_tiles(stand_ins(op), *(shape_of(result.type) for result in op.results)))
    entries = {it.name: it.entry for it in op.iterators()}
    attributes = {
        **base.attributes,
        "iterators": tuple(entries[d] for d in (*order, *(d for d in entries if d not in order))),
        "maps": (*base.maps(), *(dims(*order) for _ in op.results)),
    }
    shape = tuple(shape_of(op.results[0].type)[k] for k in inward)
    given = Block([(v.name, v.type) for v in operands]).args
    types = [like(result.type, shape, dtype) for result, dtype in zip(op.results, op.acc_types, strict=True)]
    made = Generic(given, types, attributes, base.regions, location=op.location)
    for name in Tree(op).tree_classes() if not op.regions else ():
        found = find_match(made, classes_called(name))
        if not isinstance(found, list):
            return found.on(made, operands)
    return made.on_tiles(operands, *(shape for _ in op.results))
