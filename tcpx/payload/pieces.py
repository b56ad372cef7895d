"""What a tile of a view shows: tiles of operands, each at a place of its own."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.sizes import Dim, is_equal, maximum, minimum
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class Piece:
    """Elements `tile` of operand `operand`, as they lie in a tile of a view.

    Dim k of the piece is dim `permutation[k]` of the operand. Then its elements lie row by row under `shape`, and along
    each dim of that at `first`, `first + spacing`, .. of the tile.
    """

    operand: int
    tile: Tile
    permutation: tuple[int, ...]
    shape: tuple[Dim, ...]
    first: tuple[Dim, ...]
    spacing: tuple[int, ...]

    @staticmethod
    def of(
        operand: int,
        tile: Tile,
        first: Sequence[Dim] | None = None,
        spacing: Sequence[int] | None = None,
        permutation: Sequence[int] | None = None,
        shape: Sequence[Dim] | None = None,
    ) -> Piece:
        """A piece at the origin, with its dims as they are in the operand, where nothing else is said."""
        order = tuple(permutation) if permutation is not None else tuple(range(tile.rank))
        sizes = tuple(shape) if shape is not None else tuple(tile.sizes[k] for k in order)
        rank = len(sizes)
        return Piece(operand, tile, order, sizes, tuple(first or (0,) * rank), tuple(spacing or (1,) * rank))

    @property
    def permutes(self) -> bool:
        """Whether its dims are in another order than those of the operand."""
        return self.permutation != tuple(range(len(self.permutation)))

    @property
    def reshapes(self) -> bool:
        """Whether it has another shape than the tile of the operand."""
        before = tuple(self.tile.sizes[k] for k in self.permutation)
        return before != self.shape and (
            len(before) != len(self.shape)
            or any(is_equal(a, b) is not True for a, b in zip(before, self.shape, strict=True))
        )

    @property
    def place(self) -> Tile:
        """The elements of the tile of the view that it is."""
        return Tile(self.first, self.shape, self.spacing)

    def fills(self, sizes: Sequence[Dim], known: KnownSymbols = NOTHING_KNOWN) -> bool:
        """Whether it is provably all of a tile of these sizes, by what is `known`."""
        return all(
            first == 0 and spacing == 1 and is_equal(size, wanted, known) is True
            for first, spacing, size, wanted in zip(self.first, self.spacing, self.shape, sizes, strict=True)
        )


def cut(place: Dim, offset: Dim, size: Dim) -> Dim:
    """A place along a dim as seen from a tile of it: before it, 0; behind it, its size."""
    return minimum(size, maximum(0, place - offset))
