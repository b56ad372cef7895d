"""Fusion that computes elements more than once: where indices select them, and at several offsets."""

from collections.abc import Mapping, Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.distances import distance
from tcpx.payload.indexing_maps import index_operands
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Block, Operation, parent_op
from tcpx.payload.ops.gml_st import Loop, Materialize, runs_at_most_once
from tcpx.payload.subsets import Tile, disjoint
from tcpx.records import frozen
from tcpx.transform.arguments import TransformContext
from tcpx.transform.destinations import is_stepped_by
from tcpx.transform.language_versions import COPIES

RECOMPUTED = "recomputed"
"""The note on operations of which loops may compute elements more than once."""
ADDED = "added"
"""The note on operations that a transform computes beside those of the payload."""


@frozen
class Again:
    """What a fusion may compute more than once: `always`, for other users, offsets and iterations, or at offsets."""

    always: bool = False
    at_offsets: bool = False


def check_indices(
    ctx: TransformContext, producer: Tileable, into: Loop, user: Operation, tiles: Sequence[Tile]
) -> None:
    """Refuse that each iteration computes all that indices may select; the selection is known only at run time."""
    if runs_at_most_once(into) or any(is_stepped_by(tile, into) for tile in tiles):
        return
    uses = user.result.uses if isinstance(user, Materialize) else [(user, k) for k in range(len(user.operands))]
    if any(
        isinstance(reader, Structured) and k < len(reader.inputs) and index_operands(reader.maps()[k : k + 1])
        for reader, k in uses
        if isinstance(user, Materialize) or user.operands[k] in producer.results
    ):
        raise ctx.fail(
            f"each iteration of {into.name} would compute all of %{producer.name} that indices may ask for",
            op=producer,
            required="a loop whose iterations read tiles of what is fused",
            found=tiles[0].text(),
            fix="leave this statement out, to compute it once; `recompute: true` computes it in each iteration",
        )


def check_copies(
    ctx: TransformContext, producer: Tileable, into: Loop, tiles: Mapping[Operation, Sequence[Tile]]
) -> None:
    """Refuse that the loop computes elements of a producer more than once, for readers at several offsets; in
    `language 1`, warn of it."""
    if isinstance(producer, Structured) and producer.is_movement:
        return
    blocks = dict[Block | None, list[Sequence[Tile]]]()
    for made, shown in tiles.items():
        blocks.setdefault(made.parent, []).append(shown)
    most = max(blocks.values(), key=len, default=list[Sequence[Tile]]())
    if len(most) > 1 and any(_overlap(a, b, into) for k, a in enumerate(most) for b in most[:k]):
        ctx.refuse_since(
            COPIES,
            f"each iteration of {into.name} computes %{producer.name} {len(most)} times",
            producer,
            required="a producer that the loop reads at one offset, `offsets: true` or `recompute: true`",
            found="; ".join(shown[0].text() for shown in most[:3]) + "; .." * (len(most) > 3),
            fix="`offsets: true` says that this is meant; without this statement it is computed once, and stored",
        )


def note_recomputed(
    ctx: TransformContext, producer: Tileable, tiles: Mapping[Operation, Sequence[Tile]], is_used_outside: bool
) -> None:
    """Mark the copies of a producer that compute an element in more than one iteration of the loops that they stand in
    now, or that is computed outside of these, too: what a profile counts as recomputation."""
    if isinstance(producer, Structured) and producer.is_movement:
        return
    copies = list(tiles.items())
    for made, shown in copies:
        others = [tile for other, tile in copies if other is not made and other.parent is made.parent]
        if any(
            disjoint(a, b, context_at(made).names) is not True
            for tile in others
            for a, b in zip(shown, tile, strict=True)
        ):
            ctx.rewriter.set_note(made, RECOMPUTED, producer.name)
            continue
        loops: list[Loop] = []
        for op in made.ancestors():
            if op is parent_op(producer):
                break
            loops += [op] if isinstance(op, Loop) and not runs_at_most_once(op) else []
        if is_used_outside or any(not distance(loop, tile).is_zero for loop in loops for tile in shown):
            ctx.rewriter.set_note(made, RECOMPUTED, producer.name)


def _overlap(first: Sequence[Tile], second: Sequence[Tile], loop: Loop) -> bool:
    """Whether iterations of a loop may compute an element for two readers."""
    known = context_at(loop).names
    return any(
        disjoint(a, b, known) is not True or not distance(loop, a, b).is_zero
        for a, b in zip(first, second, strict=True)
    )
