"""Sizes by themselves, as they are printed: `128*ceildiv(N, 4) - 64`."""

from collections.abc import Mapping
from typing import Final

from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.text.dims import DimReader
from tcpx.payload.text.scope import Scope
from tcpx.payload.text.syntax import Source, parse_tree

_SHORT: Final = 18
"""Digits of which every number fits 64 bits."""


def parse_size(text: str, symbols: Mapping[str, Symbol], file: str = "<size>") -> Dim:
    """The size that a text stands for, over these symbols. Raises ParseError, located in the text."""
    if text in symbols:  # these two forms, the usual ones, need no tables of the grammar
        return symbols[text].size()
    if len(text) <= _SHORT and text.isascii() and text.isdecimal():
        return int(text)
    source, scope = Source.of(text, file), Scope()
    scope.symbols = dict(symbols)
    return DimReader(source).dim(parse_tree(text, source, "dim"), scope)
