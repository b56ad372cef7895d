"""The size expressions in attributes."""

from collections.abc import Sequence

from tcpx.payload.ir import Attribute
from tcpx.payload.sizes import Dim, Size, Symbol, Var
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile


def dims_of(attribute: Attribute) -> Sequence[Dim]:
    """The size expressions in an attribute."""
    match attribute:
        case Size():
            return (attribute,)
        case Symbol():
            return (attribute.size(),)
        case Var():
            return (attribute.lower, attribute.upper, attribute.step)
        case Tile():
            return (*attribute.offsets, *attribute.sizes, *attribute.strides)
        case Predicate():
            return [d for comparison in attribute.comparisons for d in (comparison.lhs, comparison.rhs)]
        case tuple():
            return [d for inner in attribute for d in dims_of(inner)]
        case _:
            return ()
