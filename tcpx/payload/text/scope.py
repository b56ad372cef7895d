"""What names mean at a place in the text: values, loop variables and symbols."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tcpx.payload.ir import Value
from tcpx.payload.sizes import Symbol, Var
from tcpx.payload.types import SCALARS

RESERVED = frozenset({"min", "max", "floordiv", "ceildiv", "mod", "inf", "nan", "true", "false", "tile", *SCALARS})
"""Names that mean something else where a symbol may stand."""

DIM_ATTRIBUTES = frozenset({"maps", "positions", "ragged"})
"""Attributes in which a bare name is an iteration dim of the operation, not a symbol of the function."""


class Scope:
    """The names of a block and of those around it."""

    __slots__ = ("dims_are_free", "parent", "symbols", "values", "variables")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.values: dict[str, Value] = {}
        self.variables: dict[str, Var] = {}
        self.symbols: dict[str, Symbol] = {}
        self.dims_are_free = False
        """Whether any name is a dim: inside an indexing map."""

    def _chain(self) -> Iterable[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def value(self, name: str) -> Value | None:
        """The value of this name, if it can be used here."""
        return next((s.values[name] for s in self._chain() if name in s.values), None)

    def variable(self, name: str) -> Var | None:
        """The variable of the loop of this name, if it is round this place."""
        return next((s.variables[name] for s in self._chain() if name in s.variables), None)

    def symbol(self, name: str) -> Symbol | None:
        """The symbol of this name, as the function declares it."""
        if self.dims_are_free:
            return Symbol(str(name))  # not a token of the parser
        return next((s.symbols[name] for s in self._chain() if name in s.symbols), None)

    def value_names(self) -> list[str]:
        return [name for s in self._chain() for name in s.values]

    def variable_names(self) -> list[str]:
        return [name for s in self._chain() for name in s.variables]

    def symbol_names(self) -> list[str]:
        return list(dict.fromkeys(name for s in self._chain() for name in s.symbols))

    def declared_with(self, *names: str) -> str:
        """`symbols [N: 1.., K]`: what the function declares, and these names."""
        *_, function = self._chain()
        return f"symbols [{', '.join([*(s.declaration for s in function.symbols.values()), *names])}]"

    def for_maps(self) -> Scope:
        """The scope inside an indexing map: every name is an iteration dim."""
        made = Scope(self)
        made.dims_are_free = True
        return made


def suggestion(name: str, known: Iterable[str], sigil: str = "") -> str | None:
    """`did you mean %x?` for the nearest known name, if one is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {sigil}{near[0]}?" if near else None
