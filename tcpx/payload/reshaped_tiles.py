"""A tile of an array, seen under another shape: where the array can be seen so that the elements are a tile again."""

from collections.abc import Sequence

from tcpx.payload.sizes import Dim, floordiv, is_equal, mod, product, variables
from tcpx.payload.subsets import Tile
from tcpx.records import frozen


@frozen
class Reshaped:
    """The elements `tile` of a contiguous array that is seen under the shape `extents`."""

    extents: tuple[Dim, ...]
    tile: Tile


def reshaped(tile: Tile, extents: Sequence[Dim], shape: Sequence[Dim]) -> Reshaped | None:
    """The elements of a tile of a contiguous array of these extents, in row-major order, as a value of another shape.

    The array is seen under a shape in which these elements are a tile. None where there provably is none: where they
    would be one dim but lie apart. Dims of one element come and go as they like; where nothing else changes, the array
    keeps its shape.
    """
    found = list[tuple[Dim, Dim, Dim, Dim, bool]]()
    first = second = 0
    while first < tile.rank or second < len(shape):
        group = _group(tile.sizes[first:], shape[second:])
        if group is None:
            return None
        own, other = slice(first, first + group[0]), slice(second, second + group[1])
        part = Tile(tile.offsets[own], tile.sizes[own], tile.strides[own])
        dims = _dims(part, extents[own], shape[other])
        if dims is None:
            return None
        found += dims
        first, second = own.stop, other.stop
    seen, offsets, sizes, strides, dropped = zip(*found, strict=True) if found else ((), (), (), (), ())
    return Reshaped(seen, Tile(offsets, sizes, strides, tuple(dim for dim, gone in enumerate(dropped) if gone)))


def _group(sizes: Sequence[Dim], shape: Sequence[Dim]) -> tuple[int, int] | None:
    """How many of the first dims of a tile and of a shape have equally many elements; a dim for a dim if possible."""
    pairs = [(a, b) for a in range(len(sizes) + 1) for b in range(len(shape) + 1) if a + b > 0]
    for a, b in sorted(pairs, key=lambda pair: (pair != (1, 1), sum(pair))):
        if is_equal(product(sizes[:a]), product(shape[:b])) is True:
            return a, b
    return None


def _dims(part: Tile, extents: Sequence[Dim], shape: Sequence[Dim]) -> Sequence[tuple[Dim, Dim, Dim, Dim, bool]] | None:
    """For each dim in which some dims of an array are seen: its extent, the offset, size and stride in it, and whether
    the value is without it."""
    if len(extents) == len(shape) == 1:
        return [(extents[0], part.offsets[0], shape[0], part.strides[0], False)]
    if not extents:
        return [(1, 0, 1, 1, False)]
    if not shape:
        return [(extents[0], part.offsets[0], 1, 1, True)]
    if not part.has_unit_strides or not all(_is_whole(part, extents, dim) for dim in range(1, len(extents))):
        return None
    rows = product(shape[1:])
    if _is_whole(part, extents, 0):
        return [(extent, 0, extent, 1, False) for extent in (shape if len(shape) > 1 else (product(extents),))]
    begin, count = part.offsets[0] * product(extents[1:]), product(extents)
    if len(shape) > 1 and (is_equal(rows, 0) is not False or not _are_multiples((begin, count), rows)):
        return None
    outer = (floordiv(count, rows), floordiv(begin, rows)) if len(shape) > 1 else (count, begin)
    return [(*outer, shape[0], 1, False), *((extent, 0, extent, 1, False) for extent in shape[1:])]


def _is_whole(part: Tile, extents: Sequence[Dim], dim: int) -> bool:
    offset = part.offsets[dim]
    begins = not variables(offset) and is_equal(offset, 0) is True
    return begins and is_equal(part.sizes[dim], extents[dim]) is True


def _are_multiples(sizes: Sequence[Dim], of: Dim) -> bool:
    return all(is_equal(mod(size, of), 0) is True for size in sizes)
