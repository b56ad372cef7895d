"""Operators whose elements are chosen by indices, which count from the end where they are negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tcpx.frontends.onnx.broadcasting import same, shown, unequal
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.values import Tensor, of_array
from tcpx.frontends.onnx.writing import Build
from tcpx.payload.evaluator import Array
from tcpx.payload.indexing_maps import dims, element_of
from tcpx.payload.ir import Attribute, Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, i1, shape_of, si64

_COMBINERS: Final = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


@rule("Gather")
def gather(n: Node) -> Result:
    """Elements along an axis."""
    axis = n.axis(n.input(0).rank, default=0)
    _check(n, 1, n.shape()[axis])
    return n.w.take(n.value(0), n.value(1), axis)


def _check(n: Node, index: int, extent: Dim) -> None:
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
    _check(n, 1, n.shape()[axis])
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
    other = unequal(shape[:batch], rest)
    if other is not None:
        raise n.error("the batch dims differ", shown(shape[:batch]), shown(rest[:batch]), equal=other)
    places = columns(n, indices, shape[batch:])
    if not places:
        return n.w.expand(table, (*rest, *shape))
    counted = [n.w.op("iota", shape=rest, dtype=dtype_of(indices.type), dim=k) for k in range(batch)]
    behind = shape[batch + len(places) :]
    return n.w.op("gather_nd", table, *counted, *places, shape=(*rest, *behind), dim=0, out_of_range="fill")


@rule("ScatterND")
def scatter_nd(n: Node) -> Result:
    """The table with parts replaced, or combined, by lists of indices."""
    table, indices, updates = n.value(0), n.value(1), n.value(2)
    shape, rest = n.shape(), n.shape(1)[:-1]
    places = columns(n, indices, shape)
    inner = shape[len(places) :]
    if not places:
        raise Unsupported("no indices for each part")
    names = [f"i{k}" for k in range(len(rest))]
    window = [f"w{k}" for k in range(len(inner))]
    at = dims(*names)
    where = (*(element_of(k + 1) for k in range(len(places))), *dims(*window))
    maps = [(*at, *dims(*window)), *[at] * len(places), where]
    return _scattered(n, table, [updates, *places], names, window, maps)


def _scattered(
    n: Node,
    table: Value,
    operands: Sequence[Value],
    names: Sequence[str],
    window: Sequence[str],
    maps: Sequence[Sequence[Dim]],
) -> Result:
    """A generic that writes `operands[0]` into the table where the others say, in their order."""
    word, dtype = n.text("reduction", "none"), n.dtype()
    if word != "none" and word not in _COMBINERS:
        raise Unsupported(f"the reduction {word}")
    if not names:
        operands = [n.w.reshape(v, (1, *shape_of(v.type))) for v in operands]
        names, maps = ["i0"], [*((*dims("i0"), *entry) for entry in maps[:-1]), maps[-1]]
    kind = "sequential" if word == "none" else "reduction"
    iterators = [*((name, kind) for name in names), *((name, "parallel") for name in window)]
    combiner = _COMBINERS.get(word)
    neutral: dict[str, Attribute] = {} if combiner else {"neutral": (0.0 if dtype.is_float else 0,)}

    def body(build: Build, e: Sequence[Value]) -> Value:
        return build(combiner, e[-1], e[0]) if combiner else e[0]

    result = (shape_of(table.type), dtype)
    given = [*operands, table]
    return n.w.generic(given, iterators, maps, result, body, combiner, has_init=True, out_of_range="fill", **neutral)


@rule("ScatterElements", "Scatter")
def scatter_elements(n: Node) -> Result:
    """The table with elements replaced, or combined, at their places but along an axis."""
    table, rank = n.value(0), n.input(0).rank
    axis = n.axis(rank, default=0)
    shape, given = n.shape(), n.ranked(1, rank, rank).shape
    _check(n, 1, shape[axis])
    places = n.w.from_start(n.value(1), shape[axis])
    names = [f"i{k}" for k in range(rank)]
    at = dims(*names)
    others = [k for k in range(rank) if k != axis]
    if all(same(given[k], shape[k]) for k in others):
        where = [element_of(1) if k == axis else at[k] for k in range(rank)]
        order = [names[axis], *(names[k] for k in others)]
        return _scattered(n, table, [n.value(2), places], order[:1], order[1:], [at, at, where])
    counted = [n.w.op("iota", shape=given, dtype=si64, dim=k) for k in others]
    where = [element_of(1) if k == axis else element_of(2 + others.index(k)) for k in range(rank)]
    return _scattered(n, table, [n.value(2), places, *counted], names, [], [at, at, *[at] * len(counted), where])


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
