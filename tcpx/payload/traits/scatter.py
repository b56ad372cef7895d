"""Where an iteration writes, if elements of an input say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tcpx.payload.indexing_maps import index_operands, map_dim
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.trait import Trait
from tcpx.payload.value_ranges import UNIQUE, value_order

if TYPE_CHECKING:
    from tcpx.payload.interfaces import Structured


class Scatter(Trait["Structured"]):
    """Results at places that elements of inputs name: several iterations may write one element."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured) -> Self | None:
        """The trait of an operation that writes so."""
        return cls(op) if index_operands(op.result_maps()) else None

    def is_apart(self, dim: str) -> bool:
        """Whether iterations of a reduction dim change different elements of each result: unique indices, of which each
        has its own, say which."""
        op, indices = self.op, Indices(self.op)
        apart = {
            k
            for k in indices.operands
            if dim in map(map_dim, op.maps()[k]) and UNIQUE in value_order(op.inputs[k]) and not indices.clamps_indices
        }
        return all(not apart.isdisjoint(index_operands([result_map])) for result_map in op.result_maps())


def can_take_turns(op: Structured, dim: str) -> bool:
    """Whether an operation scatters, and lanes along a dim may be combined one after the other: all dims after it are
    parallel, so that what is combined with one element is so in the order of the iterations."""
    names = [it.name for it in op.iterators()]
    after = op.iterators()[names.index(dim) + 1 :]
    return Scatter.of(op) is not None and all(it.is_parallel for it in after)
