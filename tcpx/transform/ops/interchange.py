"""interchange: permute the iteration dims of an operation."""

from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ops.generic import generalize
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.types import shape_of
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
from tcpx.transform.editing import replace_with


@register
class Interchange(Transform):
    """Permute the iteration dims of a structured operation; the loops it lowers to follow that order. The result is
    the nearest class with these dims, else a generic.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        interchange(mm, [k, m, n])
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.1 = tcp.generic(%x, %w) {iterators = [["k", "reduction"], ["m", "parallel"], ["n", "parallel"]],
              maps = [[m, k], [k, n], [m, n]], combiner = "tcp.add"} ({ (%e0: f32, %e1: f32, %acc: f32):
            %e2 = tcp.mul(%e0, %e1) : f32
            %e3 = tcp.add(%acc, %e2) : f32
            tcp.yield(%e3)
          }) : tensor<[M]x32xf32> name "mm"
          tcp.return(%mm.1)
        }
    """

    name = "interchange"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a structured operation"),
        Parameter("order", DIMS, doc="all its dims, outermost first"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, order = args.op("target"), args.dims("order")
        if not isinstance(op, Structured):
            raise ctx.fail(
                f"%{op.name} has no iteration dims", op=op, required="a structured operation", found=op.opcode
            )
        iterators = {it.name: it for it in op.iterators()}
        if sorted(order) != sorted(iterators) or list(order) == list(iterators):
            raise ctx.fail(
                f"[{', '.join(order)}] is no new order of the dims of %{op.name}",
                op=op,
                required=f"a permutation of {', '.join(iterators)} that differs from it",
                found=", ".join(order) or "no dims",
            )
        reduced = [d for d in iterators if iterators[d].is_reduction and not Scatter(op).is_apart(d)]
        if not Reduction(op).is_commutative and [d for d in order if d in reduced] != reduced:
            raise ctx.fail(
                f"%{op.name} reduces in the order of its dims",
                op=op,
                required=f"{', '.join(reduced)} in this order, or a combiner that is declared `commutative`",
                found=", ".join(order),
            )
        for name, bounds in ragged_dims(op).items():
            before = {s for k in (bounds.first, bounds.end) for e in op.maps()[k] for s in map_symbols(e)}
            late = [d for d in order[order.index(name) :] if d in before]
            if late:
                raise ctx.fail(
                    f"the iterations of `{name}` of %{op.name} depend on `{late[0]}`",
                    op=op,
                    required=f"`{late[0]}` before `{name}`",
                    found=", ".join(order),
                )
        shapes = [shape_of(result.type) for result in op.results]
        made = op.on_tiles(op.operands, *shapes) if op.regions else generalize(op)
        made.attributes["iterators"] = tuple(iterators[d].entry for d in order)
        return (replace_with(ctx.rewriter, op, made),)
