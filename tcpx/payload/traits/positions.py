"""What a body reads of where it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.trait import Trait, declared

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Position, Structured


class Positions(Trait["Structured"]):
    """Index expressions that the body reads as numbers, after the elements of the inputs."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation whose body reads any."""
        return cls(op) if cls(op).positions() else None

    @declared
    def positions(self) -> tuple[Position, ...]:
        """What the body reads of where it is."""
        return ()

    @declared
    def counting_from(self, origins: Sequence[Dim]) -> Mapping[str, Attribute]:
        """The attributes with which the operation adds these to its positions."""
        op = self.op
        names = op.signature.attribute_names
        if names is not None and "origins" not in names:
            raise op.error(
                "the body reads where it is, and the class has no attribute for where a tile lies",
                required='a field `DimsAttribute("origins")` in the class, for its positions',
                found=", ".join(names) or "no attributes",
            )
        return {"origins": tuple(origins)}


def positions_read(op: Structured) -> tuple[Position, ...]:
    """What the body of an operation reads of where it is."""
    return Positions(op).positions()
