"""Values of functions that only look at the payload, kept until something they may look at changes."""

from collections.abc import Callable, Hashable, Iterable
from typing import Final

from tcpx.interp.handles import BranchFilter, Handles
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue
from tcpx.payload.types import ScalarType
from tcpx.target import Target

_Key = tuple[Hashable, BranchFilter | None, tuple[Hashable, ...]]
_PLAIN: Final = (int, float, str, ScalarType, Target, type(None))


class PureValues:
    """What functions gave, by arguments and by the branch the schedule is in: in another, a handle means other copies.

    Every change of the payload, and every rollback, makes all of them anew but those of plain arguments: from a number
    nothing leads to the payload.
    """

    __slots__ = ("_at", "_held", "_known", "_of_plain", "handles")

    def __init__(self, handles: Handles) -> None:
        self.handles = handles
        self._at = -1
        self._known: dict[_Key, RuntimeValue] = {}
        self._of_plain: dict[_Key, RuntimeValue] = {}
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
        given = tuple(arguments)
        if all(isinstance(value, _PLAIN) for value in given):
            known, branch = self._of_plain, None
        else:
            known, branch = self._of_payload(), next(reversed(self.handles.branches), None)
        key = (id(function), branch, tuple(map(self._key, given)))
        value = known.get(key)
        if value is None:
            value = known[key] = make()
        return value

    def _of_payload(self) -> dict[_Key, RuntimeValue]:
        changes = self.handles.rewriter.changes
        if changes != self._at:
            self.forget()
            self._at = changes
        return self._known

    def _key(self, value: RuntimeValue | None) -> Hashable:
        """Equal for arguments that mean the same. Sizes and lists do where they are one object: what is known of their
        symbols may differ in sizes of one text, and lists may be long."""
        match value:
            case bool() | int() | float():
                return (type(value), value)
            case OpHandle() | OperandHandle() | DimHandle() | str() | ScalarType() | Target() | None:
                return value
            case _:
                self._held.append(value)
                return (object, id(value))
