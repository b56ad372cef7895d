"""disjoint: slots by remainders of one number."""

from tcpx.payload.sizes import Dim, Symbol, Var, mod
from tcpx.payload.sizes.questions import NOTHING_KNOWN
from tcpx.payload.subsets import Tile, disjoint

N = Symbol("N").size()
T = Var("t", 0, N, 1).size()


def rows(first: Dim, count: Dim = 1) -> Tile:
    return Tile((first, 0), (count, N))


def test_remainders_that_differ_are_other_rows() -> None:
    assert disjoint(rows(mod(T, 2)), rows(mod(T + 1, 2)), NOTHING_KNOWN) is True
    assert disjoint(rows(mod(T, 3)), rows(mod(T + 2, 3)), NOTHING_KNOWN) is True


def test_remainders_that_may_be_equal_prove_nothing() -> None:
    assert disjoint(rows(mod(T, 2)), rows(mod(T + N, 2)), NOTHING_KNOWN) is not True
    assert disjoint(rows(mod(T, 2)), rows(mod(T + 1, 3)), NOTHING_KNOWN) is not True
    assert disjoint(rows(mod(T, 3)), rows(mod(T + 2, 3), 2), NOTHING_KNOWN) is not True
    assert disjoint(rows(mod(T, 2)), rows(mod(T + 2, 2)), NOTHING_KNOWN) is not True
