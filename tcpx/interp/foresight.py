"""What of an expression can be known before a schedule runs: the payload as it is, until a step would change it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tcpx.transform.declaration import Category, ParameterKind, Transform
from tcpx.transform.language import syntax as ast

_MOVING_FUNCTIONS = frozenset(
    (
        "size",
        "footprint",
        "rank",
        "epilogue",
        "prologue",
        "clusters",
        "row_clusters",
        "producer",
        "users",
        "parent",
        "len",
        "exists",
    )
)
_MOVING_METHODS = frozenset(("loop", "loops", "copy", "is_a", "attribute"))
_MOVING_ATTRIBUTES = frozenset(("start", "scheduled", "constant"))
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
        """A step would be taken here. Cleanup and what works on a whole function may merge or remove operations."""
        takes_all = not transform.marks or any(p.type.kind is ParameterKind.FUNC for p in transform.parameters)
        self.is_changed = self.is_changed or transform.mutates
        self.is_reshaped |= transform.category in _RESHAPING or (transform.mutates and takes_all)

    def is_known(self, origins: Iterable[int]) -> bool:
        """Whether operations of these origins have the classes and dims they had before the steps."""
        return not self.is_changed or not (self.is_reshaped or self.touched.intersection(origins))

    def require_unchanged(self) -> None:
        """Raise UnforeseenError: what is asked may be answered in another way behind the steps."""
        raise UnforeseenError

    def require_known(self, expression: ast.Expression) -> None:
        """Raise UnforeseenError for an expression whose value steps have changed."""
        if self.is_changed and _moves(expression):
            raise UnforeseenError


def _moves(expression: ast.Expression) -> bool:
    match expression:
        case ast.Match() | ast.Selection():
            return True
        case ast.Attribute() | ast.Name():
            return expression.name in _MOVING_ATTRIBUTES
        case ast.Call(function=ast.Name(name=name)):
            return name in _MOVING_FUNCTIONS
        case ast.Call(function=ast.Attribute(name=name)):
            return name in _MOVING_METHODS
        case _:
            return False
