"""Tiles of one operation that become vectors: which dims they are along, and the loops round them."""

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType, dtype_of, i1
from tcpx.target import Target
from tcpx.transform.accumulators import carry_out_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.matching import structured
from tcpx.transform.peeling import peel
from tcpx.transform.tiling import check_on_tensors, pad, tile
from tcpx.transform.vectorization import vectorize
from tcpx.transform.vectors.lane_dims import carries, lane_dim_among, last_result_dim, streams
from tcpx.transform.vectors.lanes_in_memory import give_lanes

UNBOUNDED = 2**40
"""Stands for an extent of which nothing is known: larger than any vector."""


def vectorize_op(ctx: TransformContext, op: Operation) -> None:
    """Tile an operation on tensors by vectors of the target, and let the body of these loops be vectors.

    A tile is one element of each dim but of those that lie side by side in memory. The loop over lanes of the result is
    peeled: a main loop of whole vectors, and one masked vector for the rest. The loops of a reduction stand inside.
    """
    if (
        isinstance(op, Structured)
        and isinstance(op.results[0].type, TensorType)
        and give_lanes(ctx.rewriter, op, ctx.target)
    ):
        return
    made = _checked(ctx, op)
    sizes = _tile_sizes(made, ctx.target)
    if not sizes:
        raise ctx.fail(
            f"%{op.name} has nothing that vectors could be made of",
            op=op,
            required="a dim with more than one element",
            found=", ".join(str(result.type) for result in op.results),
        )
    order = sorted(sizes, key=lambda dim: (made.iterator(dim).is_reduction, sizes[dim] > 1))
    kept = [dim for dim in order if not made.iterator(dim).is_reduction]
    loops: list[Loop] = []
    for number, dim in enumerate(order):
        if number == len(kept):
            made = pad(ctx.rewriter, made, {d: sizes[d] for d in kept})
        loop, inner = tile(ctx.rewriter, made, dim, sizes[dim])
        made = structured(inner)
        loops.append(loop)
    pad(ctx.rewriter, made, sizes)
    root = loops[len(kept) - 1] if kept else loops[0]
    for part in peel(ctx.rewriter, root) if kept else (root,):
        vectorize(ctx, part)
        inside = [loop for loop in part.walk() if isinstance(loop, Loop) and (loop is not part or not kept)]
        if len(order) > len(kept):
            _carry_sums(ctx, inside[0])


def _carry_sums(ctx: TransformContext, loop: Loop) -> None:
    """Let a loop over a reduction dim carry what is summed in it."""
    for op in list(loop.walk()):
        if isinstance(op, Structured) and Reduction.of(op) is not None and op.inits and op.func is not None:
            carry_out_of(ctx, op, loop)


def _checked(ctx: TransformContext, op: Operation) -> Structured:
    """The operation, if vectors can be made of it without more said."""
    if not isinstance(op, Structured):
        raise ctx.fail(
            f"%{op.name} has no scalar body, so it does not become vectors on its own",
            op=op,
            required="a structured operation",
            found=op.opcode,
            fix=f"`decompose({ctx.name_of(op)})` before it" if "composite" in Tree(op).tree_classes() else None,
        )
    check_on_tensors(ctx, op)
    chosen = [it for it in op.iterators() if it.is_sequential or it.is_whole]
    if is_irregular(op) or chosen:
        raise ctx.fail(
            f"%{op.name} does not become vectors on its own",
            op=op,
            required="an operation whose iterations are in no order and write where they are",
            found=f"{chosen[0].kind.value} dim `{chosen[0].name}`" if chosen else f"{op.opcode}, which elements steer",
        )
    if Reduction.of(op) is not None and Reduction(op).neutrals() is None:
        raise ctx.fail(
            f"%{op.name} does not become vectors on its own: its reduction has no neutral element",
            op=op,
            required="a reduction that can be tiled",
            found=op.opcode,
        )
    return op


def _tile_sizes(op: Structured, target: Target) -> dict[str, int]:
    """The tile of each dim: vectors along the lane dim and along what lies side by side in an operand that has the lane
    dim elsewhere, one element of any other dim; nothing of a dim of which there is one element."""
    known = context_at(op)
    extents = {
        it.name: most if (most := known.upper_bound(extent)) is not None else UNBOUNDED
        for it, extent in zip(op.iterators(), op.extents(), strict=True)
    }
    dtypes = {dtype_of(value.type) for value in (*op.operands, *op.results)} | {*op.acc_types}
    lanes = min(target.lanes(dtype.name) for dtype in (dtypes - {i1} or dtypes))
    lane = lane_dim_among(op, last_result_dim(op), extents, lanes)
    wide: set[str] = set()
    if lane is not None:
        ends = [map_dim(m[-1]) for m in op.maps() if m and carries(m, lane.name) and not streams(m, lane.name)]
        wide = {lane.name, *(d for d in ends if d is not None and not op.iterator(d).is_reduction)}
    return {
        dim: max(1, min(lanes, most)) if dim in wide else 1 for dim, most in extents.items() if most > 1 or dim in wide
    }
