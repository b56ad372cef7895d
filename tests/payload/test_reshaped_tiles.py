"""Tiles under another shape, next to NumPy."""

from __future__ import annotations

import random

import numpy as np

from tcpx.payload.reshaped_tiles import reshaped
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.subsets import Tile

RNG = random.Random(5)


def drawn() -> tuple[list[int], Tile, list[int]]:
    """An array's extents, a tile of it, and a shape of as many elements as the tile has."""
    extents = [RNG.choice([1, 2, 3, 4, 6]) for _ in range(RNG.randint(1, 4))]
    offsets, sizes, strides = list[int](), list[int](), list[int]()
    for extent in extents:
        step = RNG.choice([1, 1, 1, 2])
        size = RNG.choice([0, 1, extent, extent, RNG.randint(1, extent)] if RNG.random() < 0.2 else [1, extent, extent])
        size = min(size, (extent + step - 1) // step)
        offsets.append(RNG.randint(0, extent - (size - 1) * step - 1) if size else 0)
        sizes.append(size)
        strides.append(step)
    count = int(np.prod(sizes))
    shape, rest = list[int](), count
    while rest > 1 and len(shape) < 4:
        shape.append(RNG.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= shape[-1]
    shape += [rest] if rest != 1 or not shape else []
    dropped = tuple(dim for dim, size in enumerate(sizes) if size == 1 and RNG.random() < 0.3)
    return extents, Tile(tuple(offsets), tuple(sizes), tuple(strides), dropped), shape


def elements(array: np.ndarray, tile: Tile) -> np.ndarray:
    """The value of a tile of static sizes."""
    for dim, (offset, size, stride) in enumerate(zip(tile.offsets, tile.sizes, tile.strides, strict=True)):
        assert isinstance(offset, int)
        assert isinstance(size, int)
        assert isinstance(stride, int)
        array = np.take(array, [offset + stride * k for k in range(size)], axis=dim)
    return array.reshape(tuple(size for size in tile.shape if isinstance(size, int)))


def test_random_tiles_have_the_same_elements() -> None:
    found = 0
    for _ in range(1500):
        extents, tile, shape = drawn()
        seen = reshaped(tile, extents, shape)
        if seen is None:
            continue
        found += 1
        array = np.arange(np.prod(extents)).reshape(extents)
        under = array.reshape([d for d in seen.extents if isinstance(d, int)])
        assert under.ndim == len(seen.extents)
        np.testing.assert_array_equal(elements(under, seen.tile), elements(array, tile).reshape(shape))
    assert found >= 500


H, W, N, T = (Symbol(name, lower=1).size() for name in "HWNT")


def seen(tile: Tile, extents: tuple[Dim, ...], shape: tuple[Dim, ...]) -> str | None:
    found = reshaped(tile, extents, shape)
    return None if found is None else f"{', '.join(map(str, found.extents))}: {found.tile.text()}"


def test_a_slot_of_an_array_is_a_row_of_it() -> None:
    tile = Tile((N, 0, 0), (1, H, W), (), (0,))
    assert seen(tile, (T, H, W), (H * W,)) == "T, H*W: tile [N, 0] [1, H*W] drop [0]"
    assert seen(tile, (T, H, W), (1, H, W)) == "T, H, W: tile [N, 0, 0] [1, H, W]"


def test_rows_side_by_side_are_one() -> None:
    assert seen(Tile((2, 0), (N, W)), (H, W), (N * W,)) == "H*W: tile [2*W] [N*W]"


def test_a_part_of_a_flat_array_has_rows_where_it_begins_with_one() -> None:
    assert seen(Tile((2 * W,), (N * W,)), (H * W,), (N, W)) == "H, W: tile [2, 0] [N, W]"
    assert seen(Tile((2 * W + 1,), (N * W,)), (H * W,), (N, W)) is None


def test_rows_with_gaps_are_none() -> None:
    assert seen(Tile((0, 0), (H, W)), (H, 2 * W), (H * W,)) is None
    assert seen(Tile((0, 0), (H, W), (2, 1)), (2 * H, W), (H * W,)) is None
