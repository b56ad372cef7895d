"""Dims of which elements of inputs say how many iterations there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.traits.trait import Trait, declared

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Ragged, Structured


class RaggedDims(Trait["Structured"]):
    """Rows of different lengths: the iterations of a dim lie between elements of two inputs."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation with such dims."""
        return cls(op) if cls(op).ragged() else None

    @declared
    def ragged(self) -> Mapping[str, Ragged]:
        """The dims of which there are only the iterations between elements of inputs; dims that these depend on come
        before."""
        return {}

    @declared
    def ragged_from(self, origins: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        """The attributes with which iteration 0 of each ragged dim is the one of this number."""
        raise self.op.error(
            f"a tile of `{next(iter(origins))}` begins elsewhere, and the class does not say how it counts there",
            required="an operation that does (`ragged_from`)",
            found="a class without `ragged_from`",
        )


def ragged_dims(op: Structured) -> Mapping[str, Ragged]:
    """The ragged dims of an operation, with their bounds."""
    return RaggedDims(op).ragged()


def is_irregular(op: Structured) -> bool:
    """Whether elements say which iterations there are, or where they write."""
    return Scatter.of(op) is not None or bool(ragged_dims(op))
