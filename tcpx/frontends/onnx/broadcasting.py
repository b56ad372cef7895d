"""Shapes as NumPy broadcasts them, with dims that may be 1 when the model is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcpx.frontends.onnx.errors import BoundedSize, Unsupported
from tcpx.payload.sizes import Dim, Min, Size, is_equal, is_less, maximum, minimum, to_text
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate

Shape = tuple[Dim, ...]


def same(a: Dim, b: Dim) -> bool:
    """Whether two dims are known to be one number."""
    return is_equal(a, b) is True


def unequal(a: Sequence[Dim], b: Sequence[Dim], *, equal: Callable[[Dim, Dim], bool] = same) -> tuple[Dim, Dim] | None:
    """The first two dims at one place that are not known to be one number, or not `equal`."""
    return next((pair for pair in zip(a, b, strict=False) if not equal(*pair)), None)


def shown(shape: Sequence[Dim]) -> str:
    """A shape in a message."""
    return f"[{', '.join(map(to_text, shape))}]"


def least(a: Dim, b: Dim, facts: Context) -> Dim:
    """The lesser of two sizes, where these facts hold."""
    if facts.decide(Predicate.of("<=", a, b)):
        return a
    return b if facts.decide(Predicate.of("<=", b, a)) else minimum(a, b)


def learn_bounds(extents: Sequence[Dim]) -> None:
    """Of min(32, S) beside S, as of a table of 32 positions that is cut, the first one is another number, and not 1,
    where S is more than 32: S is at most that. Raises BoundedSize."""
    for cut in extents:
        match cut:
            case Size(terms=(((Min(args=operands),), 1),), constant=0):
                numbers = [n for n in operands if isinstance(n, int) and n > 1]
                found = [n for n in operands if any(same(n, other) for other in extents)]
                if numbers and len(operands) == 2 and found:
                    raise BoundedSize(found[0], numbers[0])
            case _:
                pass


def broadcast_shape(*shapes: Sequence[Dim], equal: Callable[[Dim, Dim], bool] = same) -> Shape:
    """The shape that NumPy broadcasts these to. A dim that may be 1 when the model is called is 1 or as long as the one
    that is never 1, or as the longest. Raises Unsupported where two dims are not `equal`."""
    rank = max(map(len, shapes))
    found: list[Dim] = []
    for k in range(rank):
        column = [shape[k - rank + len(shape)] for shape in shapes if k - rank + len(shape) >= 0]
        extents: list[Dim] = []
        for own in column:
            if own != 1 and not any(same(own, extent) for extent in extents):
                extents.append(own)
        learn_bounds(extents)
        fixed = [extent for extent in extents if is_less(1, extent) is True or same(extent, 0)]
        unequal_ = next((other for other in fixed[1:] if not equal(fixed[0], other)), None)
        if unequal_ is not None:
            met = " and ".join(map(shown, shapes))
            a, b = fixed[0], unequal_
            raise Unsupported(f"the dims {to_text(a)} and {to_text(b)} of {met} differ", equal=(a, b))
        found.append(fixed[0] if fixed else maximum(*extents) if extents else 1)
    return tuple(found)
