"""Where an element is that a loop nest reads or writes, or several are, a lane each."""

from collections.abc import Sequence

from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.types import ScalarType, Type, VectorType
from tcpx.records import frozen


@frozen
class Strip:
    """`count` elements along a dim, from `first` on and `step` apart: the first lanes of a vector of `width`."""

    first: Dim
    count: Dim
    step: int
    width: int


Index = Sequence[Dim | Strip | Value]
"""Where an element is, or lanes are: along some dims, values say it."""


def element(index: Sequence[Dim | Strip]) -> Tile:
    """One element as a scalar, or a strip of them as a vector."""
    rank = range(len(index))
    return Tile(
        tuple(at.first if isinstance(at, Strip) else at for at in index),
        tuple(at.count if isinstance(at, Strip) else 1 for at in index),
        tuple(at.step if isinstance(at, Strip) else 1 for at in index),
        tuple(dim for dim in rank if not isinstance(index[dim], Strip)),
    )


def kind_of(index: Index, dtype: ScalarType) -> Type:
    """The type of an element, or of as many as there are lanes."""
    widths = [at.width for at in index if isinstance(at, Strip)]
    widths += [at.type.shape[0] for at in index if isinstance(at, Value) and isinstance(at.type, VectorType)]
    return VectorType((widths[0],), dtype) if widths else dtype
