"""How iterations of a sequential dim follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tcpx.payload.traits.trait import DeclaredValue, Trait

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured


class Scan(Trait["Structured"]):
    """Iterations that go on from what the one before them hands on, in their order."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation with a sequential dim."""
        return cls(op) if any(it.is_sequential for it in op.iterators()) else None

    @DeclaredValue
    def is_associative(self) -> bool:
        """Whether what iterations of a sequential dim hand on may be combined in groups, by `joined`: where there is no
        accumulator, `elements` are those of an iteration that goes on from the neutral element."""
        return False

    @DeclaredValue
    def is_exact(self) -> bool:
        """Whether that gives the same values in any groups, and nothing is rounded otherwise."""
        return False
