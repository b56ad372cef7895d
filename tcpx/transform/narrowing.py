"""Destinations that a loop hands on as a whole, of which an iteration needs a part."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tcpx.payload.contexts import context_at
from tcpx.payload.distances import distance
from tcpx.payload.ops.gml_st import Loop, Materialize, StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Var, substitute, variables
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.monotone import direction
from tcpx.payload.subsets import Tile, compose, sign
from tcpx.payload.types import with_shape
from tcpx.transform.loop_order import handed


def narrow(rewriter: Rewriter, loop: Loop, number: int) -> bool:
    """Let an iteration of a loop hand on only a part of a destination, which no other iteration accesses: what the loop
    inside writes in all its iterations, and what it reads of that. Elements that no iteration writes are read of the
    destination itself. Returns whether there is such a part.
    """
    inner = next((op for op in loop.body.ops if isinstance(op, Loop) and _is_handed(loop, op, number)), None)
    given = handed(loop, inner, number) if inner is not None else None
    if inner is None or given is None or isinstance(given, str) or not given.goes_on:
        return False
    dest = loop.destinations[number]
    tiles = {use: compose(given.store.subset, use.subset) for use in given.uses}
    written = [tile for use, tile in tiles.items() if isinstance(use, StYield)]
    apart = {use for use, tile in tiles.items() if all(distance(loop, each, tile).is_never for each in written)}
    part = _around([tile for use, tile in tiles.items() if use not in apart], inner.var, context_at(inner))
    if part is None or not distance(loop, part).is_zero:
        return False
    type_ = with_shape(dest.type, part.sizes)
    name = f"{dest.name.split('.')[0]}.t"
    start = rewriter.insert(Materialize.of(dest, part), InsertPoint.before(inner), name).result
    for use, tile in tiles.items():
        if use in apart:
            rewriter.set_operand(use, len(use.operands) - 1, dest)
        rewriter.set_attribute(use, "subset", tile if use in apart else _within(tile, part))
    rewriter.set_operands(inner, [start if k == given.number else v for k, v in enumerate(inner.operands)])
    for value in (inner.destinations[given.number], inner.results[given.number]):
        rewriter.set_type(value, type_)
    rewriter.set_attribute(given.store, "subset", part)
    return True


def _is_handed(outer: Loop, inner: Loop, number: int) -> bool:
    return any(store.value.defining_op is inner for store in outer.yields_to(number))


def _within(tile: Tile, part: Tile) -> Tile:
    """A tile of a source in terms of a part of it."""
    offsets = (a - b for a, b in zip(tile.offsets, part.offsets, strict=True))
    return replace(tile, offsets=tuple(offsets))


def _around(tiles: Sequence[Tile], var: Var, here: Context) -> Tile | None:
    """The least tile that provably has all of some tiles, in all iterations of a loop; None if nothing tells where they
    begin and end."""
    offsets, sizes = list[Dim](), list[Dim]()
    for dim in range(tiles[0].rank if tiles else 0):
        begins = [_end(tile.offsets[dim], var, -1, here) for tile in tiles]
        ends = [_end(tile.offsets[dim] + tile.extents[dim], var, 1, here) for tile in tiles]
        known = [d for d in (*begins, *ends) if d is not None]
        if len(known) < 2 * len(tiles):
            return None
        begin, end = here.minimum(*known[: len(tiles)]), here.maximum(*known[len(tiles) :])
        offsets.append(begin)
        sizes.append(here.not_negative(end - begin))
    return Tile(tuple(offsets), tuple(sizes)) if tiles else None


def _end(place: Dim, var: Var, way: int, here: Context) -> Dim | None:
    """The most that a place is in any iteration of a loop, or, with `way` -1, the least."""
    if var not in variables(place):
        return place
    found = direction(place, var, partial(sign, known=here.names))
    if found is None:
        return None
    return substitute(place, {var: var.upper - 1 if found == way else var.lower})
