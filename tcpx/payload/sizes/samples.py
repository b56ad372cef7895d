"""Values of symbols at which sizes are computed: what does not hold at one of them, no proof can show."""

from collections.abc import Iterable, Mapping
from math import lcm
from random import Random
from typing import Final

from tcpx.payload.sizes.expressions import Dim, Symbol
from tcpx.payload.sizes.traversal import symbols

_POWERS: Final = (0, 4, 7, 10, 13)
_DRAWN: Final = 5
_LARGE: Final = 2**13


def samples(sizes: Iterable[Dim]) -> list[dict[str, int]]:
    """Values for the symbols in sizes, within their ranges: all small to all large, and some drawn."""
    known = _known(sizes)
    if not known:
        return [{}]
    random = Random(0)
    chosen = [dict.fromkeys(known, 2**power) for power in _POWERS]
    chosen += [{name: int(_LARGE ** random.random()) for name in known} for _ in range(_DRAWN)]
    return [_in_ranges(known, sample) for sample in chosen]


def corners(sizes: Iterable[Dim]) -> list[dict[str, int]]:
    """Values for the symbols in sizes, within their ranges: all as small as they may be, and all but one of them."""
    known = _known(sizes)
    smallest = dict.fromkeys(known, 0)
    return [_in_ranges(known, sample) for sample in (smallest, *({**smallest, name: _LARGE} for name in known))]


def _in_ranges(known: Mapping[str, Symbol], sample: Mapping[str, int]) -> dict[str, int]:
    return {name: _in_range(symbol, sample[name]) for name, symbol in known.items()}


def _known(sizes: Iterable[Dim]) -> dict[str, Symbol]:
    """The symbols by name, each with the facts of all its instances."""
    known: dict[str, Symbol] = {}
    for size in sizes:
        for symbol in symbols(size):
            other = known.setdefault(symbol.name, symbol)
            if other is not symbol:
                known[symbol.name] = _both(other, symbol)
    return known


def _both(a: Symbol, b: Symbol) -> Symbol:
    """A symbol that satisfies the facts of two."""
    uppers = [upper for upper in (a.upper, b.upper) if upper is not None]
    multiple_of = lcm(a.multiple_of, b.multiple_of)
    return Symbol(a.name, max(a.lower, b.lower), min(uppers, default=None), multiple_of)


def _in_range(symbol: Symbol, value: int) -> int:
    step = symbol.multiple_of
    value = -(-max(symbol.lower, value) // step) * step
    return value if symbol.upper is None else min(symbol.upper // step * step, value)
