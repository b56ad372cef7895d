"""Values of symbols at which sizes are computed: what does not hold at one of them, no proof can show."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from tcpx.payload.sizes.expressions import Dim, Symbol
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.traversal import symbols

_POWERS: Final = (0, 4, 7, 10, 13)
_DRAWN: Final = 5
_LARGE: Final = 2**13


def samples(sizes: Iterable[Dim], names: KnownSymbols = NOTHING_KNOWN) -> list[dict[str, int]]:
    """Values for the symbols in sizes, within their ranges: all small to all large, and some drawn."""
    known = _known(sizes, names)
    if not known:
        return [{}]
    random = Random(0)
    chosen = [dict.fromkeys(known, 2**power) for power in _POWERS]
    chosen += [{name: int(_LARGE ** random.random()) for name in known} for _ in range(_DRAWN)]
    return [_in_ranges(known, sample) for sample in chosen]


def corners(sizes: Iterable[Dim], names: KnownSymbols = NOTHING_KNOWN) -> list[dict[str, int]]:
    """Values for the symbols in sizes, within their ranges: all as small as they may be, and all but one of them."""
    known = _known(sizes, names)
    smallest = dict.fromkeys(known, 0)
    return [_in_ranges(known, sample) for sample in (smallest, *({**smallest, name: _LARGE} for name in known))]


def _in_ranges(known: Mapping[str, Symbol], sample: Mapping[str, int]) -> dict[str, int]:
    return {name: _in_range(symbol, sample[name]) for name, symbol in known.items()}


def _known(sizes: Iterable[Dim], names: KnownSymbols) -> dict[str, Symbol]:
    """The symbols by name, with what is known of them."""
    return {symbol.name: names.get(symbol.name, symbol) for size in sizes for symbol in symbols(size)}


def _in_range(symbol: Symbol, value: int) -> int:
    step = symbol.multiple_of
    value = -(-max(symbol.lower, value) // step) * step
    return value if symbol.upper is None else min(symbol.upper // step * step, value)
