"""Distances between accesses, against the iterations of small loops."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from tcpx.payload.distances import ANY, NEVER, Distance, distance
from tcpx.payload.ir import Block
from tcpx.payload.ops.gml_st import For, Loop
from tcpx.payload.sizes import Dim, Symbol, Var, ceildiv, evaluate, floordiv, minimum, mod
from tcpx.payload.subsets import Tile
from tests.payload.test_subsets import indices

M, N = Symbol("M"), Symbol("N")


def nest(*variables: Var) -> list[Loop]:
    """Loops with nothing in them but each other, outermost first."""
    loops: list[Loop] = []
    for var in variables:
        loops.append(For.over(var, [], Block()))
        if len(loops) > 1:
            loops[-2].body.append(loops[-1])
    return loops


def iterations(var: Var, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    for value in range(evaluate(var.lower, sizes), evaluate(var.upper, sizes), evaluate(var.step, sizes)):
        yield {**sizes, var.name: value}


I = Var("i", 0, M.size(), 6)
BLOCK = minimum(64, M - Var("b", 0, M.size(), 64))
J = Var("j", 0, BLOCK, 16)
S = Symbol("s", lower=1)
K = Var("k", 0, M.size(), S.size())
STAYS: list[tuple[Var, Dim, Dim, bool]] = [
    (I, I.size(), minimum(6, M - I), True),
    (I, I.size(), 6, True),
    (I, I.size(), 7, False),
    (I, 2 * I, 12, True),
    (I, 2 * I + N, 13, False),
    (I, floordiv(I, 6), 1, True),
    (I, floordiv(I, 3), 2, True),
    (I, floordiv(I, 6), 2, False),
    (I, floordiv(I, 12), 1, False),
    (I, M - I, 6, True),
    (I, M - I - minimum(6, M - I), minimum(6, M - I), True),
    (I, mod(I, 12), 6, False),
    (I, 0, N.size(), False),
    (J, J.size(), minimum(16, BLOCK - J), True),
    (J, Var("b", 0, M.size(), 64) + J, minimum(16, BLOCK - J), True),
    (J, floordiv(J, 16), 1, True),
    (K, K.size(), minimum(S, M - K), True),
    (K, floordiv(K, S), 1, True),
    (Var("i", 0, 4, 4), 0, 5, True),
    (Var("i", 0, 8, 4), 0, 5, False),
    (Var("i", 0, 9, 4), Var("i", 0, 9, 4) + N, 5, False),
    (Var("i", 0, ceildiv(M, 6), 1), 6 * Var("i", 0, ceildiv(M, 6), 1), 6, True),
]


@pytest.mark.parametrize(("var", "offset", "size", "expected"), STAYS)
@pytest.mark.parametrize("position", [0, 1])
def test_what_an_iteration_has_to_itself(var: Var, offset: Dim, size: Dim, expected: bool, position: int) -> None:
    offsets, sizes = [0, 0], [N.size(), N.size()]
    tile = Tile(
        tuple(offset if dim == position else o for dim, o in enumerate(offsets)),
        tuple(size if dim == position else s for dim, s in enumerate(sizes)),
    )
    (loop,) = nest(var)
    assert distance(loop, tile).is_zero is expected
    assert distance(loop, Tile((offset,), (size,))).is_zero is expected
    for m, s, b in itertools.product((0, 1, 5, 13, 70), (1, 3), (0, 64)):
        if not expected or b >= max(1, m):
            continue
        sets = [indices(tile, at) for at in iterations(var, {"M": m, "N": 2, "s": s, "b": b})]
        assert all(x.isdisjoint(y) for x, y in itertools.combinations(sets, 2))


def test_inner_loop_variables_differ_between_iterations() -> None:
    inner = Var("ii", 0, minimum(6, M - I), 2)
    loop, _ = nest(I, inner)
    assert distance(loop, Tile((I + inner,), (minimum(2, minimum(6, M - I) - inner),))).is_zero
    assert not distance(loop, Tile((inner.size(),), (2,))).is_zero
    overlapping = Var("ii", 0, I + 1, 1)
    loop, _ = nest(I, overlapping)
    assert not distance(loop, Tile((I + overlapping,), (1,))).is_zero


def test_overlap_in_one_dim_only_is_no_overlap() -> None:
    (loop,) = nest(I)
    assert distance(loop, Tile((0, I.size()), (N.size(), 6))).is_zero
    assert not distance(loop, Tile((I.size(), 0), (8, N.size()))).is_zero


R, C = Var("r", 1, N - 1, 1), Var("c", 1, M - 1, 1)
T = Var("t", 0, N.size(), 1)
E = Var("e", T.size(), T + M, 1)
TWICE = Var("w", 0, N.size(), 2)
CASES: list[tuple[tuple[Var, Var], tuple[Dim, ...], tuple[Dim, ...], int, Distance, Distance]] = [
    # The distances in the outer loop, and in the inner one.
    ((R, C), (R.size(), C.size()), (R - 1, C.size()), 1, Distance(1, 1), Distance(0, 0)),
    ((R, C), (R.size(), C.size()), (R + 1, C - 1), 1, Distance(-1, -1), Distance(1, 1)),
    ((R, C), (R.size(), C.size()), (R.size(), C + 3), 3, Distance(-2, 2), Distance(-5, -1)),
    ((R, C), (R.size(), 0), (R - 2, 0), 1, Distance(2, 2), ANY),
    ((R, C), (2 * R,), (2 * R + 1,), 1, NEVER, NEVER),
    ((R, C), (2 * R + 4 * C,), (2 * R + 4 * C + 1,), 1, NEVER, NEVER),
    ((R, C), (R + C,), (R + C,), 1, ANY, ANY),
    # One dim decides for another: the columns give the distance in the inner loop, and so in the outer one.
    ((R, C), (R + C, C.size()), (R + C - 1, C.size()), 1, Distance(1, 1), Distance(0, 0)),
    ((R, C), (R + C, C.size()), (R + C, C - 2), 1, Distance(-2, -2), Distance(2, 2)),
    ((TWICE, C), (TWICE.size(), C.size()), (TWICE - 4, C.size()), 1, Distance(2, 2), Distance(0, 0)),
    ((TWICE, C), (TWICE.size(), C.size()), (TWICE - 3, C.size()), 1, NEVER, NEVER),
    # A band that was skewed: its columns are `e - t`.
    ((T, E), (T.size(), E - T), (T - 1, E - T), 1, Distance(1, 1), Distance(1, 1)),
    ((T, E), (T.size(), E - T), (T.size(), E - T - 1), 1, Distance(0, 0), Distance(1, 1)),
]


@pytest.mark.parametrize(("vars_", "first", "second", "size", "outer", "inner"), CASES)
def test_distances(
    vars_: tuple[Var, Var],
    first: tuple[Dim, ...],
    second: tuple[Dim, ...],
    size: int,
    outer: Distance,
    inner: Distance,
) -> None:
    loops = nest(*vars_)
    tiles = [Tile(offsets, (size,) * len(offsets)) for offsets in (first, second)]
    found = [distance(loop, tiles[0], tiles[1]) for loop in loops]
    assert found[0] == outer
    later = distance(loops[1], tiles[0], tiles[1], later_in=loops[0])
    earlier = distance(loops[1], tiles[1], tiles[0], later_in=loops[0])
    if outer.exact not in (None, 0):
        assert (later if outer.exact > 0 else earlier.reversed()) == inner
    for n, m in itertools.product(range(6), repeat=2):
        runs = [at for o in iterations(vars_[0], {"N": n, "M": m}) for at in iterations(vars_[1], o)]
        for a, b in itertools.product(runs, repeat=2):
            if indices(tiles[0], a).isdisjoint(indices(tiles[1], b)):
                continue
            apart = [(b[v.name] - a[v.name]) / evaluate(v.step, a) for v in vars_]
            assert found[0].within(int(apart[0]), int(apart[0])).exact == apart[0]
            if apart[0] > 0:
                assert later.within(int(apart[1]), int(apart[1])).exact == apart[1]


def random_tile(chance: random.Random) -> Tile:
    """A tile of one dim in terms of a loop with a symbolic step, and of one inside."""
    offset = (
        chance.choice((-2, -1, 0, 1, 1, 2)) * K + chance.choice((0, 0, 1, 2)) * KK + chance.choice((-1, 0, 0, 1)) * S
    )
    size = chance.choice((1, 2, S.size(), minimum(S, M - K), mod(K, 3), M.size()))
    return Tile((offset + chance.randint(-2, 2),), (size,), (chance.choice((1, 1, 2, -1)),))


KK = Var("kk", 0, minimum(S, M - K), 1)


@pytest.mark.parametrize("seed", range(10))
def test_random_tiles_of_a_symbolic_step(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(25):
        tiles = random_tile(chance), random_tile(chance)
        loops = nest(K, KK)
        outer = distance(loops[0], tiles[0], tiles[1])
        later = distance(loops[1], tiles[0], tiles[1], later_in=loops[0])
        for m, s in itertools.product((0, 1, 4, 7), (1, 2, 3)):
            runs = [at for o in iterations(K, {"M": m, "s": s}) for at in iterations(KK, o)]
            for a, b in itertools.product(runs, repeat=2):
                if not indices(tiles[0], a).isdisjoint(indices(tiles[1], b)):
                    apart = (b["k"] - a["k"]) // s
                    assert outer.may_be(apart, apart), (tiles, outer, a, b)
                    if apart > 0:
                        assert later.may_be(b["kk"] - a["kk"], b["kk"] - a["kk"]), (tiles, later, a, b)


def test_texts() -> None:
    assert [str(d) for d in (NEVER, ANY, Distance(2, 2), Distance(1, None), Distance(-3, 4))] == [
        "never", ".. to ..", "2", "1 to ..", "-3 to 4"
    ]  # fmt: skip
