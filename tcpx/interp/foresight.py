"""What of an expression can be known before a schedule runs: the payload as it is, until a step would change it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tcpx.transform.declaration import Category, Transform
from tcpx.transform.language import syntax as ast

_MOVING_FUNCTIONS = frozenset(("size", "footprint", "rank", "epilogue", "producer", "users", "parent", "len", "exists"))
_MOVING_METHODS = frozenset(("loop", "loops", "copy", "is_a"))
_MOVING_ATTRIBUTES = frozenset(("start", "scheduled"))
_RESHAPING = frozenset((Category.OPERATION_TREE, Category.TYPES, Category.GROUPS_AND_CALLS))


class UnforeseenError(Exception):
    """The value depends on what earlier steps do to the payload."""


@dataclass(slots=True)
class Foresight:
    """What the steps so far would have changed."""

    is_changed: bool = False
    """Sizes, loops and neighbours are not what they were."""
    is_reshaped: bool = False
    """Classes and dims of operations neither."""
    touched: set[int] = field(default_factory=set[int])
    """Origins of the operations that steps were given."""

    def note(self, transform: type[Transform]) -> None:
        """A step would be taken here."""
        self.is_changed = self.is_changed or transform.mutates
        self.is_reshaped = self.is_reshaped or transform.category in _RESHAPING

    @contextmanager
    def as_before(self) -> Generator[None]:
        """As if no step had been taken."""
        held, self.is_changed = self.is_changed, False
        try:
            yield
        finally:
            self.is_changed = held

    def require_known(self, expression: ast.Expression) -> None:
        """Raise UnforeseenError for an expression whose value steps have changed."""
        if self.is_changed and _moves(expression):
            raise UnforeseenError


def _moves(expression: ast.Expression) -> bool:
    match expression:
        case ast.Match() | ast.Selection():
            return True
        case ast.Attribute():
            return expression.name in _MOVING_ATTRIBUTES
        case ast.Call(function=ast.Name(name=name)):
            return name in _MOVING_FUNCTIONS
        case ast.Call(function=ast.Attribute(name=name)):
            return name in _MOVING_METHODS
        case _:
            return False
