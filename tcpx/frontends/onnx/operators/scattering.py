"""Operators that write elements where indices say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcpx.frontends.onnx.broadcasting import same, shown, unequal
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, product
from tcpx.frontends.onnx.operators.indexing import check_indices, columns
from tcpx.frontends.onnx.operators.windows import Windows, windows_of
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.writing import Build
from tcpx.payload.indexing_maps import dims, element_of
from tcpx.payload.ir import Attribute, Value
from tcpx.payload.sizes import Dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import dtype_of, shape_of, si64

_COMBINERS: Final = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


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
    return _scattered(n, table, [updates, *places], names, window, maps, n.text("reduction", "none"))


def _scattered(
    n: Node,
    table: Value,
    operands: Sequence[Value],
    names: Sequence[str],
    window: Sequence[str],
    maps: Sequence[Sequence[Dim]],
    word: str,
) -> Value:
    """A generic that writes `operands[0]` into the table where the others say, in their order, or combines it with what
    is there by the reduction `word`."""
    dtype = dtype_of(table.type)
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
    table, rank, word = n.value(0), n.input(0).rank, n.text("reduction", "none")
    axis = n.axis(rank, default=0)
    shape, given = n.shape(), n.ranked(1, rank, rank).shape
    check_indices(n, 1, shape[axis])
    places = n.w.from_start(n.value(1), shape[axis])
    names = [f"i{k}" for k in range(rank)]
    at = dims(*names)
    others = [k for k in range(rank) if k != axis]
    if all(same(given[k], shape[k]) for k in others):
        where = [element_of(1) if k == axis else at[k] for k in range(rank)]
        order = [names[axis], *(names[k] for k in others)]
        return _scattered(n, table, [n.value(2), places], order[:1], order[1:], [at, at, where], word)
    counted = [n.w.op("iota", shape=given, dtype=si64, dim=k) for k in others]
    where = [element_of(1) if k == axis else element_of(2 + others.index(k)) for k in range(rank)]
    return _scattered(n, table, [n.value(2), places, *counted], names, [], [at, at, *[at] * len(counted), where], word)


@rule("TensorScatter")
def tensor_scatter(n: Node) -> Result:
    """A cache with what is new written along an axis, of each element of the batch from its own place on; `circular`
    goes on at the start."""
    w, shape, given = n.w, n.ranked(0, 2).shape, n.ranked(1, 2).shape
    axis, mode = n.axis(len(shape), default=-2), n.text("mode", "linear")
    beside = [[d for k, d in enumerate(own) if k != axis] for own in (shape, given)]
    if axis == 0 or len(given) != len(shape) or unequal(*beside) or mode not in ("linear", "circular"):
        raise n.error("what is new has the dims of the cache beside the axis", shown(shape), f"{shown(given)}, {mode}")
    room, many = shape[axis], given[axis]
    n.demand(Predicate.of("<=", many, room), "more is new than the cache has room for", [many, room])
    at = w.op("iota", shape=(shape[0], many), dtype=si64, dim=1)
    if n.has(2):
        at = w.op("add", at, w.op("broadcast", w.cast(n.value(2), si64), shape=(shape[0], many), dims=(0,)))
    at = w.with_number("mod", at, room) if mode == "circular" else at
    names = [f"d{k}" for k in range(len(shape))]
    own, step = dims(*names), names[axis]
    where = [element_of(1) if k == axis else d for k, d in enumerate(own)]
    window = [name for name in names if name != step]
    return _scattered(n, n.value(0), [n.value(1), at], [step], window, [own, (own[0], own[axis]), where], "none")


@rule("MaxUnpool")
def max_unpool(n: Node) -> Result:
    """Zeros with the elements of the operand at the places that a pool found, counted in all of the result."""
    w, shape, kernel = n.w, n.ranked(0, 3).shape, n.ints("kernel_shape")
    rank = len(shape) - 2
    strides, pads = n.ints("strides", [1] * rank), n.ints("pads", [0] * (2 * rank))
    if not len(kernel) == len(strides) == rank or len(pads) != 2 * rank:
        raise n.error("`kernel_shape`, `strides` and `pads`", f"{rank}, {rank} and {2 * rank} numbers", str(kernel))
    own = [
        (d - 1) * strides[k] - pads[k] - pads[k + rank] + kernel[k] for k, d in enumerate(shape[2:])
    ]  # the least that the pool may have had
    inferred, count = (*shape[:2], *own), (product(n, shape),)
    table = w.fill(0, (product(n, inferred),), n.dtype())
    given = [w.reshape(n.value(0), count), w.reshape(w.cast(n.value(1), si64), count)]
    at = dims("i0")
    made = w.reshape(_scattered(n, table, given, ["i0"], [], [at, at, (element_of(1),)], "none"), inferred)
    wanted = n.dims(2) if n.has(2) else inferred
    if len(wanted) != len(inferred):
        raise n.error("a size for each dim", f"{len(inferred)} of them", str(len(wanted)))
    return w.pad(made, [0] * len(inferred), [d - e for d, e in zip(wanted, inferred, strict=True)], 0)


@rule("Col2Im")
def columns_to_image(n: Node) -> Result:
    """[b, c * window, windows] as images [b, c, ..]: the sum of all windows, each where it is."""
    w, image, kernel, shape = n.w, n.dims(1), n.numbers(2), n.ranked(0, 3, 3).shape
    rank, taps = len(image), product(n, n.numbers(2))
    held: Windows = windows_of(n, image, kernel)
    channels = shape[1] if isinstance(shape[1], int) else 0
    if not isinstance(taps, int) or taps < 1 or channels % taps or not channels:
        raise n.error("columns are windows of channels", f"a multiple of {taps}", shown(shape[1:2]), [shape[1]])
    both = product(n, held.count), shape[2]
    if not n.equal(*both):
        raise n.error("columns for all windows", shown(held.count), shown(shape[2:]), equal=both)
    pieces = w.reshape(n.value(0), (shape[0], channels // taps, *kernel, *held.count))
    inner, outer = [f"k{d}" for d in range(rank)], [f"o{d}" for d in range(rank)]
    places: list[Value] = []
    for d in range(rank):
        pair = (kernel[d], held.count[d])
        at, step = (w.op("iota", shape=pair, dtype=si64, dim=k) for k in (1, 0))
        at = w.with_number("sub", w.with_number("mul", at, held.strides[d]), held.low[d])
        places.append(w.op("add", at, w.with_number("mul", step, held.dilations[d])))
    table = w.fill(0, (shape[0], channels // taps, *image), n.dtype())
    own = dims("b", "c", *inner, *outer)
    maps = [own, *((own[2 + d], own[2 + rank + d]) for d in range(rank))]
    where = (*own[:2], *(element_of(1 + d) for d in range(rank)))
    return _scattered(n, table, [pieces, *places], [*inner, *outer], ["b", "c"], [*maps, where], "add")
