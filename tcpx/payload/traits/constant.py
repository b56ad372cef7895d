"""Results that are known when the operation is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tcpx.payload.traits.trait import DeclaredValue, Trait

if TYPE_CHECKING:
    from tcpx.payload.ir import Operation


class Constant(Trait["Operation"]):
    """A number, or an array that the module stores."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Operation) -> Self | None:
        """The trait of a constant."""
        found = cls(op)
        return found if found.number is not None or found.stored_array is not None else None

    @DeclaredValue
    def number(self) -> int | float | None:
        """The number that each element of the result is, of a constant that is one; else None."""
        return None

    @DeclaredValue
    def stored_array(self) -> str | None:
        """The name of the stored array that the result is, of a constant that is one; else None."""
        return None
