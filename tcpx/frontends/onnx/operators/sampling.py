"""Operators that read at fractions of an index: a weighted sum of the elements around the point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, product
from tcpx.frontends.onnx.operators.windows import windows_of
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, f32, i1, shape_of, si64

_MODES: Final = {
    "nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic",
}  # fmt: skip
_TAPS: Final = {"nearest": 1, "linear": 2, "cubic": 4}
"""Elements along each dim that are read for a point."""
_CUBIC: Final = -0.75
"""Of Keys (1981), Cubic convolution interpolation for digital image processing: the slope at distance 1."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The elements around points of a shape, and the weight of each: `elements` [*points, *taps, *rest], `weights`
    [*points, *taps]."""

    elements: Value
    weights: Value
    points: int

    def sum(self, n: Node) -> Value:
        """The weighted sums: [*points, *rest]."""
        own, weighted = len(shape_of(self.elements.type)), len(shape_of(self.weights.type))
        names = [f"d{k}" for k in range(own)]
        out = [*names[: self.points], *names[weighted:]]
        return n.w.contract(self.elements, self.weights, names, names[:weighted], out)


def sampled(
    n: Node, table: Value, leading: Sequence[Value], points: Sequence[Value], mode: str, padding: str, aligned: bool
) -> Sampled:
    """A table [*leading, *extents, *rest] read at points: a tensor of indices for each leading dim, and one of
    coordinates for each extent, all of one shape. What is outside is 0, or what `padding` says."""
    w, shape, taps = n.w, shape_of(points[0].type), _TAPS[mode]
    extents = shape_of(table.type)[len(leading) : len(leading) + len(points)]
    rank, wide = len(shape), (*shape, *[taps] * len(points))
    places: list[Value] = []
    weights: Value | None = None
    for k, (given, extent) in enumerate(zip(points, extents, strict=True)):
        point = _inside(n, w.unary("round", given) if mode == "nearest" else given, extent, padding, aligned)
        base = w.unary("floor", point)
        along = (*shape, taps)
        offset = w.cast(w.op("iota", shape=along, dtype=si64, dim=rank), dtype_of(point.type))
        if mode == "cubic":
            offset = w.with_number("sub", offset, 1)
        rest = w.op("sub", point, base)
        at = w.op("add", _repeated(n, base, along), offset)
        if padding != "zeros":
            at = _clamped(n, at, extent) if padding == "border" else _reflected(n, at, extent, aligned)
        lined = [*shape, *[taps if d == k else 1 for d in range(len(points))]]
        places.append(w.expand(w.reshape(w.cast(at, si64), lined), wide))
        if mode != "nearest":
            weight = _weight(n, w.unary("abs", w.op("sub", _repeated(n, rest, along), offset)), mode)
            weight = w.reshape(weight, lined)
            weights = weight if weights is None else w.binary("mul", weights, weight)
    counted = [_repeated(n, index, wide) for index in leading]
    behind = shape_of(table.type)[len(leading) + len(points) :]
    elements = w.op("gather_nd", table, *counted, *places, shape=(*wide, *behind), dim=0, out_of_range="fill")
    if weights is None:
        weights = w.fill(1, wide, dtype_of(elements.type))
    return Sampled(elements, w.cast(weights, dtype_of(elements.type)), rank)


def _repeated(n: Node, value: Value, shape: Sequence[Dim]) -> Value:
    """A value along new last dims."""
    own = len(shape_of(value.type))
    return value if own == len(shape) else n.w.op("broadcast", value, shape=tuple(shape), dims=tuple(range(own)))


def _extent(n: Node, extent: Dim, like: Value) -> Value:
    """A size as a number of the dtype of a value, repeated."""
    return n.w.cast(n.w.fill(extent, shape_of(like.type), si64), dtype_of(like.type))


def _clamped(n: Node, at: Value, extent: Dim) -> Value:
    last = n.w.with_number("sub", _extent(n, extent, at), 1)
    return n.w.op("min", n.w.with_number("max", at, 0), last)


def _reflected(n: Node, at: Value, extent: Dim, aligned: bool) -> Value:
    """A coordinate turned at the ends, which are the centres of the first and last element where they are `aligned`,
    else half an element further, until it is between them."""
    w, low = n.w, 0.0 if aligned else -0.5
    span = _extent(n, extent, at)
    span = w.with_number("max", w.with_number("sub", span, 1), 0) if aligned else span
    distance = w.unary("abs", w.with_number("sub", at, low))
    period = w.with_number("mul", span, 2)
    rounds = w.unary("floor", w.op("div", distance, w.with_number("max", period, 1)))
    rest = w.op("sub", distance, w.op("mul", rounds, period))
    turned = w.with_number("add", w.op("min", rest, w.op("sub", period, rest)), low)
    is_inside = w.op(
        "and", w.with_number("greater_equal", at, low, dtype=i1),
        w.op("less_equal", at, w.with_number("add", span, low), dtype=i1), dtype=i1,
    )  # fmt: skip
    return w.select(is_inside, at, turned)


def _inside(n: Node, point: Value, extent: Dim, padding: str, aligned: bool) -> Value:
    """A coordinate as the padding has it, moved only where it is beyond the ends."""
    w, low = n.w, 0.0 if aligned else -0.5
    if padding == "zeros":
        return point
    if padding == "reflection":
        return _reflected(n, point, extent, aligned)
    end = w.with_number("add", _extent(n, extent, point), -1 - low)
    is_before, is_behind = w.with_number("less", point, low, dtype=i1), w.op("greater", point, end, dtype=i1)
    return w.select(w.op("or", is_before, is_behind, dtype=i1), _clamped(n, point, extent), point)


def _weight(n: Node, distance: Value, mode: str) -> Value:
    """The weight of an element at a distance from a point: of 1 or less, or of cubic ones up to 2."""
    w = n.w
    if mode == "linear":
        return w.with_number("sub", distance, 1, first=True)

    def polynomial(*coefficients: float) -> Value:
        made = w.fill(coefficients[0], shape_of(distance.type), dtype_of(distance.type))
        for coefficient in coefficients[1:]:
            made = w.with_number("add", w.op("mul", made, distance), coefficient)
        return made

    near = polynomial(_CUBIC + 2, -(_CUBIC + 3), 0, 1)
    far = polynomial(_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC)
    return w.select(w.with_number("less_equal", distance, 1, dtype=i1), near, far)


def _last(n: Node, value: Value, index: int) -> Value:
    """An element of the last dim."""
    shape = shape_of(value.type)
    return n.w.reshape(n.w.part(value, len(shape) - 1, index, 1), shape[:-1])


def _channels_last(n: Node, value: Value, lead: int) -> Value:
    """A tensor whose dim `lead` is its last."""
    rank = len(shape_of(value.type))
    return n.w.transpose(value, [*range(lead), *range(lead + 1, rank), lead])


def _channels_at(n: Node, value: Value, dim: int) -> Value:
    """A tensor whose last dim is dim `dim`."""
    rank = len(shape_of(value.type))
    return n.w.transpose(value, [*range(dim), rank - 1, *range(dim, rank - 1)])


@rule("GridSample")
def grid_sample(n: Node) -> Result:
    """The operand [b, c, ..] at the points of a grid [b, .., r], whose coordinates are from -1 to 1, those of the last
    dim first."""
    w, shape, grid = n.w, n.ranked(0, 3).shape, n.ranked(1, 3).shape
    rank = len(shape) - 2
    mode, padding = _MODES.get(n.text("mode", "linear")), n.text("padding_mode", "zeros")
    aligned = bool(n.int("align_corners", 0))
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise n.error("the mode or the padding is none", f"{', '.join(_MODES)}; zeros, border, reflection", padding)
    if len(grid) != len(shape) or not same(grid[-1], rank) or not same(grid[0], shape[0]):
        raise n.error("a grid has coordinates for each element of the batch", f"[b, .., {rank}]", shown(grid))
    points: list[Value] = []
    for k in range(rank):
        at = w.with_number("add", w.cast(_last(n, n.value(1), rank - 1 - k), f32), 1)
        extent = _extent(n, shape[2 + k], at)
        if aligned:
            points.append(w.op("mul", w.with_number("mul", at, 0.5), w.with_number("sub", extent, 1)))
        else:
            points.append(w.with_number("mul", w.with_number("sub", w.op("mul", at, extent), 1), 0.5))
    batch = w.op("iota", shape=grid[:-1], dtype=si64, dim=0)
    table = _channels_last(n, n.value(0), 1)
    made = sampled(n, table, [batch], points, mode, padding, aligned).sum(n)
    return _channels_at(n, made, 1)


@rule("RoiAlign")
def roi_align(n: Node) -> Result:
    """Averages, or maxima, of points in bins of regions, each a list of two corners, of one element of the batch."""
    w, (_, channels, *extents) = n.w, n.ranked(0, 4, 4).shape
    regions, counts = n.ranked(1, 2, 2).shape[0], (n.int("output_height", 1), n.int("output_width", 1))
    ratio, scale, mode = n.int("sampling_ratio", 0), n.float("spatial_scale", 1.0), n.text("mode", "avg")
    word = n.text("coordinate_transformation_mode", "half_pixel" if n.version >= 16 else "output_half_pixel")
    if ratio <= 0:
        raise Unsupported("a number of points that the size of a region decides: `sampling_ratio` is 0")
    if mode not in ("avg", "max") or not same(n.shape(1)[1], 4):
        raise n.error("the mode, and the corners of regions", "avg or max, 4 numbers", f"{mode}, {n.input(1)}")
    is_half = word == "half_pixel"
    corners = w.with_number("mul", w.cast(n.value(1), f32), scale)
    corners = w.with_number("sub", corners, 0.5) if is_half else corners
    shape = (regions, *counts, ratio, ratio)
    points: list[Value] = []
    valid: Value | None = None
    for k, (extent, count) in enumerate(zip(extents, counts, strict=True)):
        start, end = _last(n, corners, 1 - k), _last(n, corners, 3 - k)
        length = w.op("sub", end, start)
        length = length if is_half else w.with_number("max", length, 1)
        size = _repeated(n, w.with_number("div", length, count), shape)
        which, step = (w.cast(w.op("iota", shape=shape, dtype=si64, dim=d), f32) for d in (1 + k, 3 + k))
        within = w.with_number("div", w.op("mul", w.with_number("add", step, 0.5), size), ratio)
        at = w.op("add", w.op("add", _repeated(n, start, shape), w.op("mul", which, size)), within)
        is_near = w.op(
            "and", w.with_number("greater_equal", at, -1, dtype=i1),
            w.op("less_equal", at, _extent(n, extent, at), dtype=i1), dtype=i1,
        )  # fmt: skip
        valid = is_near if valid is None else w.op("and", valid, is_near, dtype=i1)
        points.append(_clamped(n, at, extent))
    batch = _repeated(n, w.cast(n.value(2), si64), shape)
    found = sampled(n, _channels_last(n, n.value(0), 1), [batch], points, "linear", "border", True)
    if valid is not None:
        wide = _repeated(n, valid, shape_of(found.weights.type))
        found = Sampled(found.elements, w.select(wide, found.weights, w.fill(0, (), n.dtype())), found.points)
    if mode == "avg":
        made = w.reduce("reduce_mean", found.sum(n), (3, 4))
    else:
        each = w.op("mul", found.elements, _repeated(n, found.weights, shape_of(found.elements.type)))
        made = w.reduce("reduce_max", each, (3, 4, 5, 6))
    return w.reshape(_channels_at(n, made, 1), (regions, channels, *counts))


@rule("DeformConv")
def deformed_convolution(n: Node) -> Result:
    """A convolution whose reads are each moved by an offset, and weighted by a mask."""
    w, shape, own = n.w, n.ranked(0, 3).shape, n.ranked(1, 3).shape
    rank, groups, parts = len(shape) - 2, n.int("group", 1), n.int("offset_group", 1)
    kernel, channels = [k for k in own[2:] if isinstance(k, int)], shape[1]
    if len(kernel) != rank or not isinstance(channels, int) or not isinstance(own[0], int):
        raise Unsupported("channels, and windows of a kernel, that a call decides", [shape[1], *own])
    if n.raw("kernel_shape") is not None and n.ints("kernel_shape") != kernel:
        raise n.error("`kernel_shape` is that of w", str(kernel), str(n.ints("kernel_shape")))
    is_grouped = min(groups, parts) >= 1 and not (channels % groups or channels % parts or own[0] % groups)
    if not is_grouped or own[1] != channels // groups:
        raise n.error("channels are groups", f"{groups} and {parts} groups", f"{shown(shape)} and {shown(own)}")
    held, taps = windows_of(n, shape[2:], kernel), prod(kernel)
    out = held.count
    wide = (shape[0], parts, *kernel, *out)
    offsets = w.reshape(n.value(2), (shape[0], parts, *kernel, rank, *out))
    points: list[Value] = []
    for d in range(rank):
        moved = w.cast(w.reshape(w.part(offsets, 2 + rank, d, 1), wide), f32)
        at, inner = (w.op("iota", shape=wide, dtype=si64, dim=2 + k * rank + d) for k in (1, 0))
        at = w.with_number("sub", w.with_number("mul", at, held.strides[d]), held.low[d])
        at = w.op("add", at, w.with_number("mul", inner, held.dilations[d]))
        points.append(w.op("add", w.cast(at, f32), moved))
    batch, part = (w.op("iota", shape=wide, dtype=si64, dim=d) for d in range(2))
    table = _channels_last(n, w.reshape(n.value(0), (shape[0], parts, channels // parts, *shape[2:])), 2)
    made = sampled(n, table, [batch, part], points, "linear", "zeros", True).sum(n)
    if n.has(4):
        made = w.op("mul", made, _repeated(n, w.reshape(n.value(4), wide), shape_of(made.type)))
    made = w.reshape(_channels_at(n, made, 2), (shape[0], groups, channels // groups, taps, *out))
    weight = w.reshape(n.value(1), (groups, own[0] // groups, channels // groups, taps))
    spatial = [f"o{d}" for d in range(rank)]
    made = w.contract(made, weight, ["b", "g", "c", "t", *spatial], ["g", "f", "c", "t"], ["b", "g", "f", *spatial])
    made = w.reshape(made, (shape[0], product(n, [own[0]]), *out))
    if n.has(3):
        made = w.op("add", made, w.op("broadcast", n.value(3), shape=shape_of(made.type), dims=(1,)))
    return made
