"""Values of functions that only look at the payload, kept until something they may look at changes."""

from collections.abc import Callable, Hashable, Iterable

from tcpx.interp.handles import BranchFilter, Handles
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue

_Key = tuple[Hashable, BranchFilter | None, tuple[Hashable, ...]]


class PureValues:
    """What functions gave, by arguments and by the branch the schedule is in: in another, a handle means other copies.

    Every change of the payload, and every rollback, makes all of them anew.
    """

    __slots__ = ("_at", "_held", "_known", "handles")

    def __init__(self, handles: Handles) -> None:
        self.handles = handles
        self._at = -1
        self._known: dict[_Key, RuntimeValue] = {}
        self._held: list[object] = []
        """What keys name by identity lives as long as they do."""

    def forget(self) -> None:
        """What is known may no longer hold, though the payload is what it was."""
        self._known.clear()
        self._held.clear()

    def value(
        self, function: object, arguments: Iterable[RuntimeValue | None], make: Callable[[], RuntimeValue]
    ) -> RuntimeValue:
        """The value of a function for these arguments (None: its default): `make` is called where it is not known."""
        changes = self.handles.rewriter.changes
        if changes != self._at:
            self.forget()
            self._at = changes
        branches = self.handles.branches
        key = (id(function), branches[-1] if branches else None, tuple(map(self._key, arguments)))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = make()
        return known

    def _key(self, value: RuntimeValue | None) -> Hashable:
        """Equal for arguments that mean the same. Sizes and lists do where they are one object: what is known of their
        symbols may differ in sizes of one text, and lists may be long."""
        match value:
            case OpHandle() | OperandHandle() | DimHandle() | str() | None:
                return value
            case bool() | int() | float():
                return (type(value), value)
            case _:
                self._held.append(value)
                return (object, id(value))
