"""transpose_result: compute a result with its dims in another order."""

from collections.abc import Iterable, Sequence

from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import Generic
from tcpx.payload.ops.movement import inverse
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import to_text
from tcpx.payload.types import VectorType, like, shape_of
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
from tcpx.transform.digits import reread
from tcpx.transform.editing import rename_inside, replace_with, source_name
from tcpx.transform.layouts.orders import Order
from tcpx.transform.layouts.rebuilding import reordered
from tcpx.transform.layouts.relations import relation_of
from tcpx.transform.matching import classes_called, find_match, general, stand_ins
from tcpx.transform.tiling import check_on_tensors


@register
class TransposeResult(Transform):
    """Compute the result of a structured operation with its dims in another order, and transpose it back: the innermost
    dim determines what vectors run along.

    An `init` is transposed first. The operation becomes the nearest class with such a result. Returns the transpose,
    whose tiles can be fused with those of the operation. Several results with one order of dims are all transposed; the
    step returns the transpose of the first.

    With `readers: true`, operations that read the result read it in its new order, each as the nearest class that can.
    Views and composites of it alone, such as a pad, a slice, a reshape that keeps dims next to each other, or a norm,
    also have their result in the new order, and so on. The others read the transpose. If no transpose remains, the step
    returns the operation itself.

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
        Parameter("readers", BOOL, False, doc="let readers of the result read it in the new order"),
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
        shown: list[Operation] = []
        for value in made.results:
            turned = new.transpose(value, [order.index(dim) for dim in have])
            turned.stand_for(op)
            rewriter.insert(turned, InsertPoint.after(made), f"{source_name(op)}.turned")
            rewriter.replace_uses(value, turned.result, lambda user, own=turned: user is not own)
            shown.append(turned)
            if args.bool("readers") and _read_in_order(rewriter, turned, inward):
                shown[-1] = made
        return (shown[0],)


def _read_in_order(rewriter: Rewriter, turned: Operation, inward: Sequence[int]) -> bool:
    """Let operations read the source of a transpose, and erase the transpose if it has no other reader. Structured
    operations keep the order of their results; those of views and composites are in the new order, and so are their
    readers in turn. Returns whether the transpose is erased."""
    while found := [(user, index) for user, index in turned.result.uses if _can_reread(user, index)]:
        user, index = found[0]
        if isinstance(user, Structured):
            read = user.maps()[index]
            reread(rewriter, user, index, turned.operands[0], tuple(read[k] for k in inward))
    for user in turned.result.users:
        _pass(rewriter, user, turned, tuple(inward))
    if turned.result.uses:
        return False
    rewriter.erase(turned)
    return True


def _pass(rewriter: Rewriter, user: Operation, turned: Operation, order: Order) -> None:
    """Let a view or a composite, all of whose operands are this transpose, read its source; transpose its result."""
    relation = relation_of(user) if not isinstance(user, Structured) and len(user.results) == 1 else None
    if relation is None or {*user.operands} != {turned.result}:
        return
    slot = len(user.operands)
    gives = relation.along(0, order, slot) if relation.is_aligned else relation.follow(0, order, slot)
    if gives is None:
        return
    old = user.result
    made = reordered(user, [turned.operands[0]] * slot, [order] * slot, [gives])
    rename_inside(rewriter, made, user)
    rewriter.insert(made, InsertPoint.before(user), source_name(user))
    rewriter.rename(made, user.name)
    rewriter.continue_as(user, made)
    back = new.transpose(made.result, inverse(gives))
    back.stand_for(made)
    rewriter.insert(back, InsertPoint.after(made), f"{source_name(user)}.turned")
    rewriter.replace_uses(old, back.result)
    rewriter.erase(user)
    _read_in_order(rewriter, back, gives)


def _can_reread(user: Operation, index: int) -> bool:
    """Whether an operation can read an input with another map."""
    return (
        isinstance(user, Structured)
        and len(user.results) == 1
        and index < len(user.inputs)
        and not isinstance(user.result.type, VectorType)
        and not (user.is_irregular or user.is_sequential or user.valid or user.index_operands())
    )


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
    for name in op.tree_classes() if not op.regions else ():
        found = find_match(made, classes_called(name))
        if not isinstance(found, list):
            return found.on(made, operands)
    return made.on_tiles(operands, *(shape for _ in op.results))
