"""TopK. A whole axis of it is a sort, which the operator set has not."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.sizes import Dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import si64


@rule("TopK")
def top_k(n: Node) -> Sequence[Result]:
    """The greatest or least elements along an axis, and their indices; of equal ones the first. NaN is the greatest."""
    x, shape, w = n.value(0), n.ranked(0, 1).shape, n.w
    axis, largest = n.axis(len(shape), default=-1), bool(n.int("largest", 1))
    n.raw("sorted")  # in any order, if it is 0
    count, extent = _count(n), shape[axis]
    if isinstance(count, int) and (count < 0 or (isinstance(extent, int) and count > extent)):
        raise n.error("the number of elements", f"0 to {extent}", str(count), [extent])
    if not isinstance(count, int):
        n.demand(Predicate.of("<=", 0, count), "the number of elements is not negative", [count])
    n.demand(Predicate.of("<=", count, extent), f"an axis has the {count} elements asked for", [extent])
    taken = (*shape[:axis], count, *shape[axis + 1 :])
    if count == 0:
        return [w.fill(0, taken, n.dtype()), w.fill(0, taken, si64)]
    if count == 1 and (largest or not n.dtype().is_float):  # the least by `reduce_argmin` would be NaN
        rest = (*shape[:axis], *shape[axis + 1 :])
        word = "reduce_argmax" if largest else "reduce_argmin"
        return [w.reshape(v, taken) for v in w.several(word, [x], [(rest, None), (rest, si64)], dims=(axis,))]
    which = {} if largest else {"smallest": True}
    return [*w.several("topk", [x], [(taken, None), (taken, si64)], dim=axis, **which)]


def _count(n: Node) -> Dim:
    """How many elements are asked for: a number, or a size."""
    if n.version < 10:
        return n.int("k")
    found = n.dims(1)
    if len(found) != 1:
        raise n.error("operand 1 is the number of elements", "one element", str(n.input(1)))
    return found[0]
