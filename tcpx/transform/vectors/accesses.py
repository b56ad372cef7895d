"""Which part of a tile one piece of a vector reads or writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tcpx.payload.sizes import Dim, Min, Size, ceildiv, is_less_equal, maximum, minimum
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
    """Tiles of pieces; every clamped size is proved once. Sizes are kept by identity: equal ones may differ in facts.

    Before -> after, for a vector of 6x64 at `tile [i, j] [mt, nt]`, piece at row 2, chunk 1 of 16 lanes:
        tile [i + 2, j + 16] [min(1, max(0, mt - 2)), min(16, max(0, nt - 16))] drop [0]
    """

    _known: dict[tuple[int, int, int, int], tuple[Dim, Dim]] = field(
        default_factory=dict[tuple[int, int, int, int], tuple[Dim, Dim]]
    )
    _placed: dict[tuple[int, int, int, Lanes | None], tuple[tuple[Dim, Dim], tuple[Dim, Dim]]] = field(
        default_factory=dict[tuple[int, int, int, Lanes | None], tuple[tuple[Dim, Dim], tuple[Dim, Dim]]]
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
            if is_free and entry is None and is_less_equal(1, tile.sizes[dim]) is True:
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
        key = (id(at), id(size), start, lanes)
        known = self._placed.get(key)
        if known is None:
            if lanes is None:
                here = minimum(1, maximum(0, start + 1 - at), maximum(0, at + size - start))
                found: tuple[Dim, Dim] = 0, here
            else:
                ends = (ceildiv(place - start, lanes.step) for place in (at, at + size))
                begin, end = (minimum(lanes.width, maximum(0, end)) for end in ends)
                found = begin, end - begin
            known = self._placed[key] = ((at, size), found)
        return known[1]

    def _nearest(self, size: Dim, start: int) -> Dim:
        key = (id(size), start, 0, 0)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (size, minimum(start, size - 1))
        return known[1]

    def _clamp(self, size: Dim, start: int, step: int, width: int) -> Dim:
        if isinstance(size, int):
            return min(width, max(0, -((start - size) // step)))
        key = (id(size), start, step, width)
        known = self._known.get(key)
        if known is None:
            rest = maximum(0, _without_bounds(size, start + step * width) - start)
            known = self._known[key] = (size, minimum(width, rest if step == 1 else ceildiv(rest, step)))
        return known[1]


def _without_bounds(size: Dim, enough: int) -> Dim:
    """The size without a constant upper bound in it that is at least `enough`, and so is not reached."""
    match size:
        case Size(terms=(((Min(args=(int() as bound, *others)),), 1),), constant=0) if bound >= enough:
            return minimum(*others)
        case _:
            return size


def is_empty(tile: Tile) -> bool:
    """Whether the tile provably has no element: sizes of pieces are simplified when they are made."""
    return any(isinstance(size, int) and size <= 0 for size in tile.sizes)
