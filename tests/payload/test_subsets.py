"""Tiles against sets of indices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcpx.payload.sizes import Symbol, Var, as_dim, ceildiv, evaluate, maximum, minimum
from tcpx.payload.sizes.questions import NOTHING_KNOWN
from tcpx.payload.subsets import Tile, compose, disjoint, over_iterations

M, N = Symbol("M"), Symbol("N")


def indices(tile: Tile, sizes: dict[str, int] | None = None) -> set[tuple[int, ...]]:
    """The elements of a tile as index tuples of its source."""
    values = sizes or {}
    axes = [
        [evaluate(offset, values) + evaluate(stride, values) * k for k in range(evaluate(size, values))]
        for offset, size, stride in zip(tile.offsets, tile.sizes, tile.strides, strict=True)
    ]
    return set(itertools.product(*axes))


def taken(array: np.ndarray, tile: Tile) -> np.ndarray:
    """The value of a constant tile of an array."""
    axes = zip(tile.offsets, tile.sizes, tile.strides, strict=True)
    slices = tuple(slice(o, o + s * t, t) for o, s, t in ((int(str(a)), int(str(b)), int(str(c))) for a, b, c in axes))
    return array[slices].squeeze(axis=tile.dropped)


# ---------------------------------------------------------------- shape, text, full


def test_text() -> None:
    i = Var("mm/m1", 0, M.size(), 6)
    assert Tile((i.size(), 0), (minimum(6, M - i), N.size())).text() == "tile [%mm/m1, 0] [min(6, M - %mm/m1), N]"
    assert Tile((0, 1), (4, 1), (2, 1), (1,)).text() == "tile [0, 1] [4, 1] [2, 1] drop [1]"
    assert Tile((), ()).text() == "tile [] []"


def test_shape_leaves_dropped_dims_out() -> None:
    tile = Tile((0, 3, 0), (4, 1, N.size()), dropped=(1,))
    assert tile.shape == (4, N.size())
    assert tile.strides == (1, 1, 1)
    assert tile.rank == 3


def test_full() -> None:
    assert Tile.full((4, N.size())) == Tile((0, 0), (4, N.size()))
    assert Tile.full((4, N.size())).is_full((4, N.size())) is True


def test_is_full() -> None:
    i = Var("i", 0, M.size(), 6)
    assert Tile((0,), (minimum(N, N + 1),)).is_full((N.size(),)) is True
    assert Tile((0,), (N.size(),)).is_full((M.size(),)) is False
    assert Tile((1,), (N - 1,)).is_full((N.size(),)) is False
    assert Tile((i.size(),), (minimum(6, M - i),)).is_full((M.size(),)) is False
    assert Tile((0,), (4,), (2,)).is_full((4,)) is False
    assert Tile((0, 0), (4, 1), dropped=(1,)).is_full((4, 1)) is False


def test_substitute() -> None:
    i = Var("i", 0, M.size(), 6)
    tile = Tile((i.size(),), (minimum(6, M - i),))
    assert tile.substitute({i: 6, M: 8}) == Tile((6,), (2,))
    assert tile.substitute({N: 8}) is tile


# ---------------------------------------------------------------- composition


def test_compose_keeps_dropped_dims() -> None:
    outer = Tile((2, 5, 1), (4, 1, 6), (1, 1, 2), (1,))
    inner = Tile((1, 2), (3, 1), (1, 1), (1,))
    assert compose(outer, inner) == Tile((3, 5, 5), (3, 1, 1), (1, 1, 2), (1, 2))


def test_compose_symbolic() -> None:
    i, ii = Var("i", 0, M.size(), 24), Var("ii", 0, 24, 6)
    outer, inner = Tile((i.size(), 0), (24, N.size())), Tile((ii.size(), 4), (6, N - 4))
    assert compose(outer, inner) == Tile((i + ii, 4), (6, N - 4))


@st.composite
def tiles(draw: st.DrawFn, shape: tuple[int, ...]) -> Tile:
    offsets: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    for extent in shape:
        stride = draw(st.integers(1, 3))
        offset = draw(st.integers(0, max(0, extent - 1)))
        room = max(0, extent - offset)
        offsets.append(offset)
        strides.append(stride)
        sizes.append(draw(st.integers(min(1, room), -(-room // stride))))
    dropped = tuple(dim for dim, size in enumerate(sizes) if size == 1 and draw(st.booleans()))
    return Tile(tuple(offsets), tuple(sizes), tuple(strides), dropped)


@settings(max_examples=100)
@given(st.data())
def test_compose_is_slicing_twice(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), max_size=3)))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    outer = data.draw(tiles(shape))
    value = taken(array, outer)
    inner = data.draw(tiles(value.shape))
    np.testing.assert_array_equal(taken(array, compose(outer, inner)), taken(value, inner))


@settings(max_examples=100)
@given(st.data())
def test_disjoint_is_never_wrong(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    a, b = data.draw(tiles(shape)), data.draw(tiles(shape))
    decision, found = disjoint(a, b, NOTHING_KNOWN), indices(a).isdisjoint(indices(b))
    assert decision in (None, found)
    if a.has_unit_strides and b.has_unit_strides:
        assert decision is found


# ---------------------------------------------------------------- disjointness


def test_disjoint_symbolic() -> None:
    i = Var("i", 0, M.size(), 6)
    tile = Tile((i.size(), 0), (minimum(6, M - i), N.size()))
    assert disjoint(tile, Tile((M.size(), 0), (4, N.size())), NOTHING_KNOWN) is True
    assert disjoint(tile, Tile((i + 6, 0), (6, N.size())), NOTHING_KNOWN) is True
    assert disjoint(tile, Tile((0, 0), (6, N.size())), NOTHING_KNOWN) is None
    assert disjoint(tile, Tile((i.size(), 0), (6, 4)), NOTHING_KNOWN) is None
    assert disjoint(Tile((i.size(),), (6,)), Tile((i + 2,), (6,)), NOTHING_KNOWN) is False
    assert disjoint(Tile((0,), (0,)), Tile((0,), (6,)), NOTHING_KNOWN) is True
    step = maximum(1, ceildiv(M, 2))  # the second vector of a tile is empty where the tile has at most 8 elements
    second = Tile((8,), (minimum(8, maximum(0, minimum(M, step) - 8)),))
    assert disjoint(second, Tile((step,), (8,)), NOTHING_KNOWN) is True
    assert disjoint(second, Tile((step - 1,), (8,)), NOTHING_KNOWN) is None
    assert disjoint(Tile((), ()), Tile((), ()), NOTHING_KNOWN) is False


# ---------------------------------------------------------------- all iterations of a loop


def test_over_iterations_is_all_elements_of_all_iterations() -> None:
    """What is proved is right for every size, and the usual ways to step a dim are proved."""
    m = M.size()
    proved = 0
    for lower, upper, step in ((0, m, 3), (1, m, 2), (0, ceildiv(m, 2), 1)):
        v = Var("i", lower, upper, step)
        left = minimum(step, upper - v)
        offsets = (0, v.size(), 2 * v, v - lower, upper - v - left, maximum(0, v - 2))
        sizes = (left, left + 2, 2 * left, 2 * left + 1, minimum(step, maximum(0, m - v)), m)
        for offset, size, extent in itertools.product(offsets, sizes, (m, m + 2, 2 * m)):
            tile = Tile((0, offset), (2, size))
            found = over_iterations(tile, v, (2, extent), NOTHING_KNOWN)
            if found is None:
                continue
            proved += 1
            for value in (0, 1, 2, 5, 9):
                first, end = evaluate(as_dim(lower), {}), evaluate(as_dim(upper), {"M": value})
                parts = [indices(tile.substitute({v: i, M: value})) for i in range(first, end, step)]
                assert set[tuple[int, ...]]().union(*parts) == indices(found, {"M": value}), (tile.text(), v, extent)
    assert proved > 30


def test_over_iterations_needs_one_dim_to_be_stepped() -> None:
    i = Var("i", 0, M.size(), 3)
    left = minimum(3, M - i)
    assert over_iterations(Tile((i.size(), i.size()), (left, left)), i, (M.size(), M.size()), NOTHING_KNOWN) is None
    assert over_iterations(Tile((i.size(),), (left,), (2,)), i, (2 * M,), NOTHING_KNOWN) is None
    assert over_iterations(Tile((0,), (N.size(),)), i, (N.size(),), NOTHING_KNOWN) is None
    whole = Tile((0,), (N.size(),))
    assert over_iterations(whole, Var("i", 0, 4, 3), (N.size(),), NOTHING_KNOWN) == whole


# ---------------------------------------------------------------- dense


@pytest.mark.parametrize(
    "tile",
    [
        Tile((1, 0), (3, 4), (2, 3)),
        Tile((9, 11), (4, 3), (-3, -1)),
        Tile((2, 5), (1, 4), (1, 2), (0,)),
        Tile((2, 5), (0, 4), (-2, 2)),
        Tile((2, 5), (3, 4)),
    ],
)
def test_a_tile_is_read_of_all_from_its_first_to_its_last_element(tile: Tile) -> None:
    dense = tile.dense()
    assert dense.has_unit_strides
    assert not dense.dropped
    assert compose(dense, tile.order_in_dense()) == tile or 0 in tile.sizes
    assert indices(tile) <= indices(dense)
    assert dense == tile.dense().dense()


def test_steps_of_a_number_that_only_the_kernel_knows_stay() -> None:
    tile = Tile((0,), (N.size(),), (M.size(),))
    assert tile.dense() == tile
