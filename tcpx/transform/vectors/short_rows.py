"""Rows that are shorter than a vector and lie one behind the other: their columns as vectors, and the way back.

As many vectors as a row has elements contain as many rows as a vector has lanes. Of rows of o elements, o odd, each
number of a lane occurs in one of the vectors for each column: where vectors are blended, a column is one of them with
its lanes in another order. Rows of a power of two go through a network, and rows of p * o elements through both: they
are rows of o elements, each column of which has rows of p.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from tcpx.records import frozen
from tcpx.target import LaneType, Target
from tcpx.transform.vectors.transposition import Network, network

VectorT = TypeVar("VectorT")
Shuffled = Callable[[VectorT, VectorT, Sequence[int]], VectorT]
"""Lanes of two vectors, numbered one behind the other."""


@frozen
class ShortRows:
    """How rows of `odd` times some power of two become vectors of `width` lanes. The networks are those of the power,
    if it is more than 1."""

    width: int
    odd: int
    to_columns: Network | None
    to_rows: Network | None

    def columns(self, vectors: Sequence[VectorT], shuffled: Shuffled[VectorT]) -> list[VectorT]:
        """The columns of the rows that as many vectors contain as a row has elements."""
        parts = [self._spread(vectors[k : k + self.odd], shuffled) for k in range(0, len(vectors), self.odd)]
        every = [_applied(self.to_columns, of_part, shuffled) for of_part in zip(*parts, strict=True)]
        return [column for columns in zip(*every, strict=True) for column in columns]

    def rows(self, columns: Sequence[VectorT], shuffled: Shuffled[VectorT]) -> list[VectorT]:
        """Vectors that contain the rows, given the columns."""
        every = [_applied(self.to_rows, columns[k :: self.odd], shuffled) for k in range(self.odd)]
        return [vector for parts in zip(*every, strict=True) for vector in self._joined(parts, shuffled)]

    def _spread(self, vectors: Sequence[VectorT], shuffled: Shuffled[VectorT]) -> list[VectorT]:
        """For each k below `odd` every element k, k + odd, .. of some vectors, one behind the other."""
        if self.odd == 1:
            return list(vectors)
        found: list[VectorT] = []
        for part in range(self.odd):
            order = [(lane * self.odd + part) % self.width for lane in range(self.width)]
            blended = self._blended(vectors, lambda vector, lane, part=part: self._part(vector, lane) == part, shuffled)
            found.append(shuffled(blended, blended, order))
        return found

    def _joined(self, parts: Sequence[VectorT], shuffled: Shuffled[VectorT]) -> list[VectorT]:
        """What `_spread` takes, of what it gives."""
        if self.odd == 1:
            return list(parts)
        ordered: list[VectorT] = []
        for part, vector in enumerate(parts):
            order = [0] * self.width
            for lane in range(self.width):
                order[(lane * self.odd + part) % self.width] = lane
            ordered.append(shuffled(vector, vector, order))
        return [
            self._blended(ordered, lambda part, lane, vector=vector: self._part(vector, lane) == part, shuffled)
            for vector in range(self.odd)
        ]

    def _part(self, vector: int, lane: int) -> int:
        """Which element of a row of `odd` a lane of a vector is."""
        return (vector * self.width + lane) % self.odd

    def _blended(
        self, vectors: Sequence[VectorT], has: Callable[[int, int], bool], shuffled: Shuffled[VectorT]
    ) -> VectorT:
        """Each lane of the vector that has it."""
        blended = vectors[0]
        for number, vector in enumerate(vectors[1:], 1):
            lanes = [lane + self.width if has(number, lane) else lane for lane in range(self.width)]
            blended = shuffled(blended, vector, lanes)
        return blended


def short_rows(target: Target, type_: LaneType, length: int) -> ShortRows | None:
    """How rows of this length become vectors of this type; None where the target does not put lanes together so, or in
    more instructions than a square block is transposed and its rows are accessed."""
    width, power = type_.lanes, length & -length
    odd, stages = length // power, power.bit_length() - 1
    most = width * width.bit_length()
    if not 1 < length < width or width & (width - 1) or length * (stages + (odd if odd > 1 else 0)) > most:
        return None
    if odd > 1 and target.find("permute", None, type_, [type_, type_]) is None:
        return None
    found = [network(target, type_, columns=power, to_rows=way) if power > 1 else None for way in (False, True)]
    return ShortRows(width, odd, *found) if power == 1 or None not in found else None


def _applied(found: Network | None, vectors: Sequence[VectorT], shuffled: Shuffled[VectorT]) -> list[VectorT]:
    return found.apply(vectors, shuffled) if found is not None else list(vectors)
