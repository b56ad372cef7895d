"""Which part of a tile one piece of a vector reads or writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tcpx.payload.contexts import context_at
from tcpx.payload.ir import Operation
from tcpx.payload.sizes import Dim, Min, Size, is_less_equal
from tcpx.payload.sizes.context import Context
from tcpx.payload.subsets import Tile
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class Lanes:
    """`width` lanes along dim `dim` of a vector, `step` elements apart."""

    dim: int
    step: int
    width: int


@dataclass(slots=True)
class PieceTiles:
    """Tiles of pieces; every clamped size is proved once.

    Before -> after, for a vector of 6x64 at `tile [i, j] [mt, nt]`, piece at row 2, chunk 1 of 16 lanes:
        tile [i + 2, j + 16] [min(1, max(0, mt - 2)), min(16, max(0, nt - 16))] drop [0]
    """

    here: Context
    _known: dict[tuple[Dim, int, int, int], Dim] = field(default_factory=dict[tuple[Dim, int, int, int], Dim])
    _placed: dict[tuple[Dim, Dim, int, Lanes | None], tuple[Dim, Dim]] = field(
        default_factory=dict[tuple[Dim, Dim, int, Lanes | None], tuple[Dim, Dim]]
    )

    def piece(self, tile: Tile, index: Sequence[int], *lanes: Lanes, is_free: bool = False) -> Tile:
        """The tile of the piece that starts at `index` of the vector: a scalar, or `lanes` of it along each dim.

        Where what lies outside the tile does not matter, `is_free`, the last of the tile stands for it.
        """
        along = {entry.dim: entry for entry in lanes}
        offsets, sizes, strides = list(tile.offsets), list(tile.sizes), list(tile.strides)
        dropped = set(tile.dropped)
        for position, dim in enumerate(tile.kept):
            start = index[position]
            offsets[dim] = tile.offsets[dim] + tile.strides[dim] * start
            entry = along.get(position)
            if is_free and entry is None and is_less_equal(1, tile.sizes[dim], self.here.names) is True:
                offsets[dim] = tile.offsets[dim] + tile.strides[dim] * self._nearest(tile.sizes[dim], start)
                sizes[dim], strides[dim] = 1, 1
                dropped.add(dim)
            elif entry is not None:
                sizes[dim] = self._clamp(tile.sizes[dim], start, entry.step, entry.width)
                strides[dim] = tile.strides[dim] * entry.step
            else:
                sizes[dim] = self._clamp(tile.sizes[dim], start, 1, 1)
                strides[dim] = 1
                dropped.add(dim)
        return Tile(tuple(offsets), tuple(sizes), tuple(strides), tuple(sorted(dropped)))

    def placed(self, tile: Tile, first: Sequence[Dim], index: Sequence[int], *lanes: Lanes) -> tuple[Tile, list[Dim]]:
        """The tile of such a piece of a vector in which the tile begins at `first`, and at which lanes it begins."""
        along = {entry.dim: entry for entry in lanes}
        made = self.piece(tile, index, *lanes)
        offsets, sizes = list(made.offsets), list(made.sizes)
        begins: dict[int, Dim] = dict.fromkeys(along, 0)
        for position, (dim, at) in enumerate(zip(tile.kept, first, strict=True)):
            if at == 0:
                continue
            begins[position], sizes[dim] = self._place(at, tile.sizes[dim], index[position], along.get(position))
            inside = index[position] - at
            if position in along:
                inside = inside + along[position].step * begins[position]
            offsets[dim] = tile.offsets[dim] + tile.strides[dim] * inside
        return replace(made, offsets=tuple(offsets), sizes=tuple(sizes)), [begins[entry.dim] for entry in lanes]

    def _place(self, at: Dim, size: Dim, start: int, lanes: Lanes | None) -> tuple[Dim, Dim]:
        """At which of some lanes from `start` on what lies at `at` begins, and how many of them it has."""
        key = (at, size, start, lanes)
        found = self._placed.get(key)
        if found is not None:
            return found
        here = self.here
        if lanes is None:
            found = 0, here.minimum(1, here.maximum(0, start + 1 - at), here.maximum(0, at + size - start))
        else:
            ends = (here.ceildiv(place - start, lanes.step) for place in (at, at + size))
            begin, end = (here.minimum(lanes.width, here.maximum(0, end)) for end in ends)
            found = begin, end - begin
        self._placed[key] = found
        return found

    def _nearest(self, size: Dim, start: int) -> Dim:
        key = (size, start, 0, 0)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.here.minimum(start, size - 1)
        return known

    def _clamp(self, size: Dim, start: int, step: int, width: int) -> Dim:
        if isinstance(size, int):
            return min(width, max(0, -((start - size) // step)))
        key = (size, start, step, width)
        known = self._known.get(key)
        if known is None:
            here = self.here
            rest = here.maximum(0, _without_bounds(size, start + step * width, here) - start)
            known = self._known[key] = here.minimum(width, rest if step == 1 else here.ceildiv(rest, step))
        return known


class TilesOfPieces:
    """The tiles of pieces, where operations stand."""

    def __init__(self) -> None:
        self._known: dict[Context, PieceTiles] = {}

    def at(self, op: Operation) -> PieceTiles:
        """Those of an operation: with what is known of sizes there."""
        here = context_at(op)
        return self._known.setdefault(here, PieceTiles(here))


def _without_bounds(size: Dim, enough: int, here: Context) -> Dim:
    """The size without a constant upper bound in it that is at least `enough`, and so is not reached."""
    match size:
        case Size(terms=(((Min(args=(int() as bound, *others)),), 1),), constant=0) if bound >= enough:
            return here.minimum(*others)
        case _:
            return size


def is_empty(tile: Tile) -> bool:
    """Whether the tile provably has no element: sizes of pieces are simplified when they are made."""
    return any(isinstance(size, int) and size <= 0 for size in tile.sizes)
