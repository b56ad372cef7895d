"""Vectors of operations that are computed in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tcpx.payload.ir import LANES
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.traits.to_write import wrong_attribute
from tcpx.payload.traits.trait import Trait

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Iterator, Structured


class Lanes(Trait["Structured"]):
    """The dim along which vectors lie, by the attribute `lanes`."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation that is computed by vectors."""
        return cls(op) if cls(op).lanes is not None else None

    @property
    def lanes(self) -> tuple[str, int] | None:
        """The parallel dim along which it is computed by vectors, and how many iterations of it these have; None if it
        is computed element by element, or is itself an operation on vectors. The sequential dim of a scan in lanes; any
        of a scatter whose lanes take turns."""
        match self.op.attributes.get(LANES):
            case None:
                return None
            case (str() as name, int() as count) if count >= 1 and name in {it.name for it in self.op.iterators()}:
                return name, count
            case _:
                raise wrong_attribute(self.op, LANES, 'a dim, and how many iterations of it a vector has: ["j", 16]')

    @property
    def scans_in_lanes(self) -> bool:
        """Whether iterations of a sequential dim lie side by side in vectors, and are combined there."""
        along = self._along()
        return along is not None and along.is_sequential

    @property
    def sums_in_lanes(self) -> bool:
        """Whether each lane of a vector along a reduction dim has an accumulator, and they are combined at last."""
        along = self._along()
        return along is not None and along.is_reduction and not along.is_sequential

    def _along(self) -> Iterator | None:
        """The dim of the lanes, of an operation that does not scatter."""
        lanes = self.lanes
        return self.op.iterator(lanes[0]) if lanes is not None and Scatter.of(self.op) is None else None
