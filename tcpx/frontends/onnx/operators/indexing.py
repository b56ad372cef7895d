"""Operators whose elements are chosen by indices, which count from the end where they are negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcpx.frontends.onnx.broadcasting import shown, unequal
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.values import Tensor, of_array
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, i1, shape_of, si64


@rule("Gather")
def gather(n: Node) -> Result:
    """Elements along an axis."""
    axis = n.axis(n.input(0).rank, default=0)
    check_indices(n, 1, n.shape()[axis])
    return n.w.take(n.value(0), n.value(1), axis)


def check_indices(n: Node, index: int, extent: Dim) -> None:
    """Raise an error for indices that are known, of which one is outside of a dim that is."""
    held = n.input(index).array
    if held is None or not held.size or held.dtype.kind not in "iu" or not isinstance(extent, int):
        return
    least, most = int(held.min()), int(held.max())
    if not -extent <= least <= most < extent:
        raise n.error("an index is outside", f"-{extent} to {extent - 1}", str(least if least < -extent else most))


@rule("GatherElements")
def gather_elements(n: Node) -> Result:
    """An element for each index, at its place but along an axis."""
    rank = n.input(0).rank
    axis = n.axis(rank, default=0)
    n.ranked(1, rank, rank)
    check_indices(n, 1, n.shape()[axis])
    table, places = n.value(0), n.w.from_start(n.value(1), n.shape()[axis])
    shape = shape_of(places.type)
    table = n.w.slice(
        table, [0] * rank, [d if k == axis else e for k, (d, e) in enumerate(zip(n.shape(), shape, strict=True))]
    )
    return n.w.op("gather_elements", table, places, shape=shape, dim=axis, out_of_range="fill")


def columns(n: Node, indices: Value, table: Sequence[Dim]) -> list[Value]:
    """The indices along each dim of the table, of a tensor whose last dim lists them."""
    shape = shape_of(indices.type)
    count = shape[-1] if shape else None
    if not isinstance(count, int) or count > len(table):
        raise n.error("the last dim of the indices", f"a number of dims, {len(table)} at most", shown(shape))
    rest = shape[:-1]
    parts = [n.w.reshape(n.w.part(indices, len(rest), k, 1), rest) for k in range(count)]
    return [n.w.from_start(part, table[k]) for k, part in enumerate(parts)]


@rule("GatherND")
def gather_nd(n: Node) -> Result:
    """Parts of a table by lists of indices, one for each element of the batch dims."""
    batch, table, shape = n.int("batch_dims", 0), n.value(0), n.shape()
    indices = n.value(1)
    rest = shape_of(indices.type)[:-1]
    if not 0 <= batch <= len(rest) or batch >= len(shape):
        raise n.error("the batch dims", f"0 to {len(rest)}", str(batch))
    other = unequal(shape[:batch], rest, equal=n.equal)
    if other is not None:
        raise n.error("the batch dims differ", shown(shape[:batch]), shown(rest[:batch]), equal=other)
    places = columns(n, indices, shape[batch:])
    if not places:
        return n.w.expand(table, (*rest, *shape))
    counted = [n.w.op("iota", shape=rest, dtype=dtype_of(indices.type), dim=k) for k in range(batch)]
    behind = shape[batch + len(places) :]
    return n.w.op("gather_nd", table, *counted, *places, shape=(*rest, *behind), dim=0, out_of_range="fill")


@rule("NonZero")
def non_zero(n: Node) -> Result:
    """The places of the elements of a tensor that is known, of those that are not 0: a row for each dim."""
    given = _given(n)
    places = np.nonzero(given) if given.ndim else np.empty((0, int(bool(given))))
    return _known(n, 0, np.array(places, np.int64))


@rule("Unique")
def unique(n: Node) -> Sequence[Result]:
    """The different elements, or parts along an axis, of a tensor that is known: sorted, or in the order of the first
    of each; where these stand, which of them each part is, and how often each is there."""
    given = _given(n)
    axis = n.axis(given.ndim) if n.raw("axis") is not None else None
    values, first, inverse, counts = np.unique(given, True, True, True, axis=axis)
    if not n.int("sorted", 1):
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], np.argsort(order)[inverse], counts[order]
    return [_known(n, k, array) for k, array in enumerate((values, first, inverse.ravel(), counts))]


def _given(n: Node) -> Array:
    """The operand, whose elements decide the shape of the result. Raises Unsupported, and NotConstant for a list."""
    if n.input(0).array is None and n.input(0).rank > 1:
        raise Unsupported("the shape of its result depends on data")
    return n.array(0)


def _known(n: Node, result: int, array: Array) -> Tensor:
    """Numbers as a result of the node."""
    made = of_array(n.outputs[result] if n.wants(result) else "", np.ascontiguousarray(array), n.input(0).sources)
    if made is None:
        raise Unsupported(f"the dtype {array.dtype}")
    return made


@rule("OneHot")
def one_hot(n: Node) -> Result:
    """One of two numbers, the second one where an index says; an index outside says so of no place."""
    depth, indices = n.integer(1), n.value(0)
    axis = n.axis(n.input(0).rank + 1, default=-1)
    if depth < 0:
        raise n.error("the depth", "0 or more", str(depth))
    whole = n.w.cast(indices, si64)
    own = shape_of(indices.type)
    shape = (*own[:axis], depth, *own[axis:])
    places = n.w.from_start(whole, depth, others=True)
    hot = n.w.op("one_hot", places, shape=shape, dtype=i1, dim=axis)
    values = n.value(2)
    off, on = (n.w.reshape(n.w.part(values, 0, k, 1), ()) for k in range(2))
    return n.w.select(hot, n.w.expand(on, shape), n.w.expand(off, shape))
