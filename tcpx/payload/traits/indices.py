"""Elements of inputs that are indices of others, or of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tcpx.payload.indexing_maps import index_operands
from tcpx.payload.traits.trait import DeclaredValue, Trait

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured


class Indices(Trait["Structured"]):
    """Elements of inputs that say which elements of others an iteration reads, or of results it writes: `element_of` in
    the maps."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation with such inputs."""
        return cls(op) if cls(op).operands else None

    @property
    def operands(self) -> tuple[int, ...]:
        """The inputs whose elements are indices."""
        return index_operands((*self.op.maps(), *self.op.result_maps()))

    @DeclaredValue
    def clamps_indices(self) -> bool:
        """Whether elements that are indices stand for the nearest there is; if not, they are known to be inside."""
        return False

    @DeclaredValue
    def outside(self) -> float | int | None:
        """What is read where elements that are indices are outside, and nothing is written; None if they never are."""
        return None
