"""Which elements of operands a result shows, and what pads operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcpx.payload.pieces import Piece
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.trait import DeclaredValue, Trait, declared

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Tileable


class ViewLike(Trait["Tileable"]):
    """A view: elements of the result are elements of operands, or `rest`."""

    __slots__ = ()
    op: Tileable

    @declared
    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        """What a tile of the result shows of operands: one piece, or several that follow one another along one dim; the
        rest of the tile is `rest`. None: it shows no tiles of operands."""
        del tile
        return None

    @DeclaredValue
    def rest(self) -> float | int | None:
        """What the elements are that no piece covers; None if there are none."""
        return None

    @DeclaredValue
    def is_free(self) -> bool:
        """Whether what `rest` is does not matter."""
        return False

    @DeclaredValue
    def is_made_of_others(self) -> bool:
        """Whether lowering expands it into simpler views."""
        return False


class Padding(Trait["Tileable"]):
    """What operands may be padded with, where more iterations are computed than there are."""

    __slots__ = ()
    op: Tileable

    @DeclaredValue
    def pads_operands(self) -> bool:
        """Whether more iterations than it has are computed of operands that are padded; else its result is padded."""
        return True

    @declared
    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        """What input `index` may be padded with; `reduced`: a reduction dim is padded. None: it may not."""
        del index
        return None if reduced else 0
