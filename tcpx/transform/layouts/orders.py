"""Orders of dims. Dim k of a stored tensor is dim `order[k]` of the value."""

from collections.abc import Sequence
from math import prod

from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, upper_bound
from tcpx.payload.types import TensorType, shape_of

Order = tuple[int, ...]
UNKNOWN_EXTENT = 64
"""What an extent counts as where nothing bounds it."""


def identity(value: Value) -> Order:
    """The order that the type of a value has."""
    return tuple(range(len(shape_of(value.type))))


def normal(order: Sequence[int], shape: Sequence[Dim]) -> Order:
    """The order that stands for all that lie in memory as this one does: dims of extent 1 lie anywhere. The identity
    where it is one of them; else those dims come first."""
    wide = [dim for dim in order if shape[dim] != 1]
    if wide == sorted(wide):
        return tuple(range(len(shape)))
    return (*(dim for dim in range(len(shape)) if shape[dim] == 1), *wide)


def innermost(dim: int, value: Value) -> Order:
    """The order of a value with this dim innermost and the others as they are."""
    shape = shape_of(value.type)
    return normal((*(k for k in range(len(shape)) if k != dim), dim), shape)


def stored_shape(order: Order, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The extents of a tensor that is stored in this order."""
    return tuple(shape[dim] for dim in order)


def between(have: Order, wanted: Order) -> Order:
    """The permutation that makes a tensor stored in one order one stored in another."""
    return tuple(have.index(dim) for dim in wanted)


def extent_of(dim: Dim) -> int:
    """How many elements a dim counts as in a cost."""
    return max(1, upper_bound(dim) or UNKNOWN_EXTENT)


def elements_of(value: Value) -> int:
    """How many elements a value counts as in a cost."""
    return prod(map(extent_of, shape_of(value.type)))


def has_orders(value: Value) -> bool:
    """Whether a value is a tensor that may be stored in several orders."""
    return isinstance(value.type, TensorType) and sum(dim != 1 for dim in value.type.shape) > 1
