"""What names mean at a place in the text: values, loop variables and symbols."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, Symbol, Var, substitute
from tcpx.payload.sizes.predicates import Predicate
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
        """The symbol of this name, with the facts that hold here."""
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

    def where(self, predicate: Predicate | None) -> Scope:
        """A scope in which a predicate holds: symbols, and the bounds of loop variables, carry what it implies."""
        made = Scope(self)
        if predicate is None:
            return made
        known = [s for name in self.symbol_names() if (s := self.symbol(name)) is not None]
        made.symbols = {s.name: s for s in predicate.refine(known).values()}
        facts: dict[Symbol | Var, Dim] = {s: s.size() for s in made.symbols.values()}
        if facts:
            for name in reversed(self.variable_names()):
                held = made.variable(name)
                if held is not None:
                    made.variables[name] = with_facts(held, facts)
                    facts[held] = made.variables[name].size()
        return made


def with_facts(variable: Var, facts: dict[Symbol | Var, Dim]) -> Var:
    """The loop variable with symbols and outer variables in its bounds replaced."""
    return Var(
        variable.name,
        substitute(variable.lower, facts),
        substitute(variable.upper, facts),
        substitute(variable.step, facts),
    )


def suggestion(name: str, known: Iterable[str], sigil: str = "") -> str | None:
    """`did you mean %x?` for the nearest known name, if one is near."""
    near = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {sigil}{near[0]}?" if near else None
