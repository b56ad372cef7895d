"""The attributes with which an operation computes another part, or reads its operands in another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Dim
from tcpx.payload.traits.trait import DeclaredValue, Trait, declared

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured


class Rebuilding(Trait["Structured"]):
    """How a class says in attributes what its maps and extents are."""

    __slots__ = ()

    @DeclaredValue
    def reads_all_of_operands(self) -> bool:
        """Whether what is indexed by a dim alone has the extent of the dim; if not, an operand may be longer."""
        return True

    @declared
    def reading_by(self, index: int, indexing_map: IndexingMap) -> Mapping[str, Attribute] | None:
        """The attributes with which the operation reads input `index` by this map, of the same dims or of their
        digits. None if its class fixes the map."""
        del index, indexing_map
        return None

    @declared
    def declaring(self, extents: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        """The attributes with which the operation has these extents for those of its dims that it declares them of."""
        del extents
        return {}


def attributes_for(kind: type[Structured], op: Structured) -> Mapping[str, Attribute] | None:
    """The attributes with which a class may compute what `op` does on the same operands, as its class method of this
    name says; None: it cannot.

    Only a guess from iterators and maps: whoever asks compares the generalized operations.
    """
    declared_by_class = getattr(kind, "attributes_for", None)
    return {} if declared_by_class is None else declared_by_class(op)
