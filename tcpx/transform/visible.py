"""Producers that are fused into a loop and stay visible: the loop yields their tiles as a further result."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tcpx.payload.contexts import context_at
from tcpx.payload.distances import distance
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation, is_in
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import Tile, over_iterations
from tcpx.payload.types import shape_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.convex import gathered
from tcpx.transform.destinations import add_destination, relative
from tcpx.transform.editing import kept_of, source_name
from tcpx.transform.loop_order import check_counted


def keep_visible(
    ctx: TransformContext, producer: Tileable, into: Loop, tiles: Mapping[Operation, Sequence[Tile]]
) -> Operation:
    """Let what uses a producer outside of a loop read what the loop computes of it; returns the operation that does.

    `tiles` has the operations that compute parts of the producer in the loop, and which parts of its results they are.
    """
    used = [k for k, result in enumerate(producer.results) if any(not is_in(user, into) for user in result.users)]
    if not used:
        raise ctx.fail(
            f"nothing outside of the loop {into.name} uses %{producer.name}",
            op=producer,
            required="a producer that something else uses too",
            found="one that only the loop uses",
            fix="leave `keep` out",
        )
    places = {op: loops for op in tiles if (loops := _loops_round(op, producer))}
    if not places:
        raise ctx.fail(
            f"%{producer.name} would be yielded in a branch, which may leave parts of it out",
            op=producer,
            required="a read in the body of a loop",
            found="a read in a `gml_st.if`",
        )
    made, loops = next(iter(places.items()))
    check_counted(ctx, *loops)
    levels = [_tiles_of_loops(ctx, producer, k, tiles[made][k], loops) for k in used]
    _check_others_are_behind(ctx, producer, loops[0], into)
    point = InsertPoint.after(made)
    for k, by_loop in zip(used, levels, strict=True):
        result, base = producer.results[k], source_name(producer)
        parts = [by_loop[0], *(relative(a, b) for a, b in pairwise(by_loop))]
        dests = add_destination(ctx.rewriter, loops, loops[1:], result.type, parts, base)
        kept = kept_of(ctx.rewriter, made.results[k], parts[-1], point, f"{base}.t")
        after = InsertPoint.after(kept.defining_op or made)
        ctx.rewriter.insert(StYield.of(kept, dests[-1], parts[-1]), after)
        ctx.rewriter.replace_uses(result, loops[0].results[-1])
    return made


def _loops_round(op: Operation, producer: Tileable) -> list[Loop]:
    """The loops round an operation in the block of the producer, outermost first; none if a branch is among them."""
    found: list[Loop] = []
    for outer in op.ancestors():
        if not isinstance(outer, Loop):
            return []
        found.insert(0, outer)
        if outer.parent is producer.parent:
            break
    return found


def _tiles_of_loops(
    ctx: TransformContext, producer: Tileable, number: int, tile: Tile, loops: Sequence[Loop]
) -> list[Tile]:
    """What an iteration of each loop computes of a result of a producer, outermost first: all iterations, all of it."""
    shape = shape_of(producer.results[number].type)
    found: list[Tile] = []
    joined: Tile | None = tile
    for loop in reversed(loops):
        found.insert(0, joined)
        if loop.is_parallel and not distance(loop, joined).is_zero:
            raise ctx.fail(
                f"iterations of {loop.name} would write the same elements of %{producer.name} at once",
                op=loop,
                required="tiles of the producer that do not overlap, or a sequential loop",
                found=joined.text(),
            )
        joined = over_iterations(joined, loop.var, shape, context_at(loop).names)
        if joined is None:
            break
    if joined is None or not joined.is_full(shape, context_at(producer).names):
        raise ctx.fail(
            f"nothing proves that the tiles of %{producer.name} in {loops[0].name} are all of it",
            op=producer,
            required="tiles that leave no element of the producer out, in loops with iterations where it has elements",
            found=f"{tile.text()} of {producer.results[number].type}",
            fix="`recompute: true` computes it for the loop only",
        )
    return found


def _check_others_are_behind(ctx: TransformContext, producer: Tileable, top: Loop, into: Loop) -> None:
    """What else uses the producer is moved behind the loop."""
    users = [user for result in producer.results for user in result.users]
    inside = next((user for user in users if user is into or (is_in(user, top) and not is_in(user, into))), None)
    path = gathered(ctx, (producer, top)) if inside is None else []
    if inside is not None or len(path) > 2:
        found = f"the use by %{inside.name or inside.opcode}" if inside is not None else f"the path {_shown(path)}"
        raise ctx.fail(
            f"{top.name} needs %{producer.name} before it has computed it",
            op=producer,
            required=f"uses behind {top.name}, besides those in {into.name}",
            found=found,
        )


def _shown(path: Sequence[Operation]) -> str:
    return " -> ".join(f"%{op.name}" for op in path)
