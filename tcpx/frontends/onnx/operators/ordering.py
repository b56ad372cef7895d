"""TopK: as many passes over a dim as elements are asked for. There is no sort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.predicates import Predicate
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, f32, f64, i1, shape_of, si32, si64, ui64

MOST_PASSES: Final = 16
"""Of a TopK. Each pass reads all elements, and is a dozen operations: a sort would be faster than many."""


@rule("TopK")
def top_k(n: Node) -> Sequence[Result]:
    """The greatest or least elements along an axis, and their indices; of equal ones the first. NaN is the greatest."""
    x, shape, w = n.value(0), n.ranked(0, 1).shape, n.w
    axis, largest = n.axis(len(shape), default=-1), bool(n.int("largest", 1))
    n.raw("sorted")  # in any order, if it is 0
    count, extent = n.integer(1) if n.version >= 10 else n.int("k"), shape[axis]
    if count < 0 or (isinstance(extent, int) and count > extent):
        raise n.error("the number of elements", f"0 to {extent}", str(count), [extent])
    if count > MOST_PASSES:
        raise Unsupported(f"{count} elements: {MOST_PASSES} at most, each is a pass, and the operation set has no sort")
    n.demand(Predicate.of("<=", count, extent), f"an axis has the {count} elements asked for", [extent])
    taken = (*shape[:axis], count, *shape[axis + 1 :])
    if count == 0:
        return [w.fill(0, taken, n.dtype()), w.fill(0, taken, si64)]
    if count == 1 and (largest or not n.dtype().is_float):  # the least by `reduce_argmin` would be NaN
        rest = (*shape[:axis], *shape[axis + 1 :])
        word = "reduce_argmax" if largest else "reduce_argmin"
        return [w.reshape(v, taken) for v in w.several(word, [x], [(rest, None), (rest, si64)], dims=(axis,))]
    key = _ordered(n, x, largest)
    best, place = _greatest(n, key, axis, None)
    places = [place]
    while len(places) < count:
        best, place = _greatest(n, key, axis, _behind(n, key, axis, best, place))
        places.append(place)
    at = w.concat([w.reshape(place, (*shape[:axis], 1, *shape[axis + 1 :])) for place in places], axis)
    return [w.op("gather_elements", x, at, shape=taken, dim=axis, out_of_range="fill"), at]


def _ordered(n: Node, x: Value, largest: bool) -> Value:
    """Integers of 64 bits in the order of the elements, or in the opposite one; those of all NaN are the greatest."""
    w, dtype = n.w, dtype_of(x.type)
    if dtype.is_float:
        wide, integer = (f64, si64) if dtype == f64 else (f32, si32)
        x = w.with_number("add", w.cast(x, wide), 0.0)  # of both zeros 0.0
        bits = w.op("bitcast", x, dtype=integer)
        below = w.op("xor", bits, w.fill(integer.maximum, shape_of(x.type), integer))  # the bits of a size, in reverse
        key = w.op("select", w.with_number("less", bits, 0, dtype=i1), below, bits, dtype=integer)
        nan = w.fill(integer.maximum, shape_of(x.type), integer)
        key = w.op("select", w.op("isnan", x, dtype=i1), nan, key, dtype=integer)
    elif dtype == ui64:
        key = w.op("bitcast", w.op("xor", x, w.fill(1 << 63, shape_of(x.type), ui64)), dtype=si64)
    else:
        key = x
    key = w.cast(key, si64)
    return key if largest else w.op("not", key)


def _greatest(n: Node, key: Value, axis: int, among: Value | None) -> tuple[Value, Value]:
    """The greatest key along an axis and its first index, among those where a condition holds."""
    w, shape, least = n.w, shape_of(key.type), int(si64.minimum)
    rest = tuple(d for k, d in enumerate(shape) if k != axis)
    kept = key if among is None else w.op("select", among, key, w.fill(least, shape, si64), dtype=si64)
    best, place = w.several("reduce_argmax", [kept], [(rest, None), (rest, si64)], dims=(axis,))
    if among is None or n.dtype().bits < 64:
        return best, place
    # the key of an element may be the one that stands for those that are not among them
    found = w.op("and", among, w.op("equal", key, _along(n, best, axis, shape), dtype=i1))
    positions = w.op("iota", shape=shape, dtype=si64, dim=axis)
    place = w.reduce(
        "reduce_min", w.op("select", found, positions, w.fill(shape[axis], shape, si64), dtype=si64), [axis]
    )
    return best, place


def _behind(n: Node, key: Value, axis: int, best: Value, place: Value) -> Value:
    """Where elements come after the one at a place: those of smaller keys, and of equal ones those further on."""
    w, shape = n.w, shape_of(key.type)
    last = _along(n, best, axis, shape)
    positions = w.op("iota", shape=shape, dtype=si64, dim=axis)
    further = w.op("greater", positions, _along(n, place, axis, shape), dtype=i1)
    equal = w.op("and", w.op("equal", key, last, dtype=i1), further)
    return w.op("or", w.op("less", key, last, dtype=i1), equal)


def _along(n: Node, value: Value, axis: int, shape: Sequence[Dim]) -> Value:
    """A number for each row, repeated along an axis."""
    dims = tuple(k for k in range(len(shape)) if k != axis)
    return n.w.op("broadcast", value, shape=tuple(shape), dims=dims)
