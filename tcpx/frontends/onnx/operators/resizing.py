"""Resize and Upsample: each element repeated, or along each axis a gather, a sum of weighted gathers, or a product with
a matrix of weights, all of them known. Along a dim that a call decides, indices and weights are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, isfinite
from typing import Final

import numpy as np

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, floordiv
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import accumulator_of, dtype_of, f32, f64, i1, shape_of, si64
from tcpx.plurals import counted

MOST_PLACES: Final = 1 << 20
"""Of one axis, whose places are listed; beside them, their weights."""
MOST_WEIGHTS: Final = 1 << 24
MOST_REPEATS: Final = 1 << 10
"""Of an element; beyond, its places are listed."""
MOST_RATIO: Final = 1 << 31
"""Of the two integers whose quotient a scale is: times a dim they fit into 64 bits."""
MOST_TAPS: Final = 8
LEAST_SPARSE: Final = 4
"""A sum reads elements one by one up to so many, and where they are at most a fourth of a row."""
_CROP: Final = "tf_crop_and_resize"
_BY_SCALE: Final = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
"""Coordinates by which places are multiples of 1 / scale, plus one number for all."""
_SAMPLED: Final = 4
"""Elements whose copies tell how often each counts."""
_NEAREST: Final[dict[str, Callable[[float], float]]] = {
    "round_prefer_floor": lambda x: ceil(x - 0.5),
    "round_prefer_ceil": lambda x: floor(x + 0.5),
    "floor": floor,
    "ceil": ceil,
}


@rule("Upsample")
def upsample(n: Node) -> Result:
    """As many elements along each axis as scales say."""
    scales = [float(s) for s in np.asarray(n.array(1)).ravel()] if n.version >= 9 else list(n.raw("scales"))
    axes, scales = _changed(n, list(range(n.input(0).rank)), scales)
    sizes = _scaled(n, _extents(n, axes), scales)
    return _resized(n, n.value(0), axes, sizes, scales, n.text("mode", "nearest"), "asymmetric", "floor")


@rule("Resize")
def resize(n: Node) -> Result:
    """To sizes, or by scales, along axes."""
    rank = n.input(0).rank
    axes = n.axes(n.ints("axes"), rank) if n.raw("axes") is not None else list(range(rank))
    scales_at, sizes_at = (1, None) if n.version < 11 else (2, 3)
    transform = n.text("coordinate_transformation_mode", "half_pixel") if n.version >= 11 else "asymmetric"
    sizes: list[Dim]
    if sizes_at is not None and n.has(sizes_at) and n.elements(sizes_at).size:
        axes, sizes, scales = _to_sizes(n, axes, n.dims(sizes_at))
    else:
        scales = [float(s) for s in np.asarray(n.array(scales_at)).ravel()]
        if transform != _CROP:
            axes, scales = _changed(n, axes, scales)
        sizes = _scaled(n, _extents(n, axes), scales)
    if min((size for size in sizes if isinstance(size, int)), default=1) < 0:
        raise n.error("a size for each axis", "0 or more", shown(sizes))
    nearest = n.text("nearest_mode", "round_prefer_floor") if n.version >= 11 else "floor"
    return _resized(n, n.value(0), axes, sizes, scales, n.text("mode", "nearest"), transform, nearest)


def _extents(n: Node, axes: Sequence[int]) -> list[Dim]:
    return [n.shape()[axis] for axis in axes]


def _to_sizes(n: Node, axes: Sequence[int], sizes: Sequence[Dim]) -> tuple[list[int], list[Dim], list[float | None]]:
    """Axes whose sizes may differ, with the sizes and scales; None for a scale that a call decides."""
    extents, policy = _extents(n, axes), n.text("keep_aspect_ratio_policy", "stretch")
    if len(sizes) != len(axes) or any(same(extent, 0) for extent in extents):
        required = f"{len(axes)} of them, of dims that are not empty"
        raise n.error("a size for each axis", required, f"{shown(sizes)} of {shown(extents)}", [*sizes, *extents])
    numbers = [s for s in sizes if isinstance(s, int)]
    if policy != "stretch":
        if len(numbers) != len(sizes):
            raise Unsupported(f"the policy {policy} with sizes known when called", sizes)
        known = n.static(axes)
        ratios = [s / d for s, d in zip(numbers, known, strict=True)]
        one = min(ratios) if policy == "not_larger" else max(ratios)
        return list(axes), [floor(one * d + 0.5) for d in known], [one] * len(axes)
    scales: list[float | None] = [
        s / d if isinstance(s, int) and isinstance(d, int) else 1.0 if same(s, d) else None
        for s, d in zip(sizes, extents, strict=True)
    ]
    return list(axes), list(sizes), scales


def _changed(n: Node, axes: Sequence[int], scales: Sequence[float]) -> tuple[list[int], list[float]]:
    """The axes whose scale is not 1, and their scales: the sizes of the others need not be numbers."""
    if len(scales) != len(axes):
        raise n.error("a scale for each axis", f"{counted(len(axes), 'number')} above 0", str(list(scales)))
    changed = [(axis, scale) for axis, scale in zip(axes, scales, strict=True) if scale != 1]
    return [axis for axis, _ in changed], [scale for _, scale in changed]


def _scaled(n: Node, extents: Sequence[Dim], scales: Sequence[float]) -> list[Dim]:
    """The size of each axis by its scale."""
    if len(scales) != len(extents) or not all(isfinite(s) and s > 0 for s in scales):
        raise n.error("a scale for each axis", f"{counted(len(extents), 'number')} above 0", str(list(scales)))
    return [_product(d, s) for d, s in zip(extents, scales, strict=True)]


def _product(extent: Dim, scale: float) -> Dim:
    """A dim times a scale, rounded down."""
    if isinstance(extent, int):
        return floor(extent * scale)
    over, under = scale.as_integer_ratio()
    if max(over, under) > MOST_RATIO:
        raise Unsupported(f"the scale {scale} of a dim that is known when called", [extent])
    return floordiv(extent * over, under)


def _resized(
    n: Node,
    x: Value,
    axes: Sequence[int],
    sizes: Sequence[Dim],
    scales: Sequence[float | None],
    mode: str,
    transform: str,
    nearest: str,
) -> Value:
    dtype = n.dtype()
    roi = [float(v) for v in np.asarray(n.array(1)).ravel()] if transform == _CROP else []
    if roi and len(roi) != 2 * len(axes):
        raise n.error("where a crop begins and ends along each axis", f"{2 * len(axes)} numbers", str(len(roi)))
    outside: dict[int, Array] = {}
    repeats = _repeats(n, axes, sizes, scales, transform, nearest) if mode == "nearest" else {}
    for k in _fewest_first(n, axes, sizes):
        axis, size, scale = axes[k], sizes[k], scales[k]
        if axis in repeats:
            continue
        extent = n.shape()[axis]
        if same(size, extent) and scale == 1 and not roi:
            continue
        if not (isinstance(extent, int) and isinstance(size, int) and scale is not None):
            shrinks = mode != "nearest" and n.int("antialias", 0) and not (scale is not None and scale >= 1)
            if roi or shrinks:
                word = transform if roi else "antialias"
                dims = [*_extents(n, axes), *sizes]
                raise Unsupported(f"the mode {word} along a dim that is known when called", dims)
            place = _places(n, extent, size, scale, transform)
            if mode == "nearest":
                x = n.w.along(x, _nearest(n, place, extent, nearest), axis)
            else:
                x = _weighted_at_call(n, x, axis, place, mode)
            continue
        if size > MOST_PLACES or (mode != "nearest" and size * extent > MOST_WEIGHTS) or (size and not extent):
            raise Unsupported(f"an axis of {extent} resized to {size}")
        box = (roi[k], roi[k + len(axes)]) if roi else (0.0, 1.0)
        places = np.array([_place(n, i, extent, size, scale, transform, box) for i in range(size)])
        if roi:
            outside[axis] = (places < 0) | (places > extent - 1)
            places = np.clip(places, 0, extent - 1)
        if mode == "nearest":
            rounding = _NEAREST.get(nearest)
            if rounding is None:
                raise Unsupported(f"the rounding {nearest}")
            at = np.array([min(max(rounding(p), 0), extent - 1) for p in places], np.int64).reshape(size)
            x = n.w.take(x, n.w.constant(f"{n.w.prefix}.places", at), axis)
        else:
            x = _weighted(n, x, axis, _weights(n, places, extent, scale, mode))
    return n.w.cast(_extrapolated(n, _repeated(n, x, repeats), outside), dtype)


def _repeats(
    n: Node, axes: Sequence[int], sizes: Sequence[Dim], scales: Sequence[float | None], transform: str, rounding: str
) -> dict[int, int]:
    """How many times each element counts along an axis, for axes where all count equally, in order. Whether they do
    follows from the first few: an element more moves all places by the scale."""
    found: dict[int, int] = {}
    for axis, size, scale in zip(axes, sizes, scales, strict=True):
        if scale is None or scale != floor(scale) or not 2 <= scale <= MOST_REPEATS:
            continue
        if not same(size, n.shape()[axis] * int(scale)) or (isinstance(size, int) and size > MOST_PLACES):
            continue
        if transform in _BY_SCALE and rounding in _NEAREST:
            times, few = int(scale), range(int(scale) * _SAMPLED)
            places = (_place(n, i, _SAMPLED, len(few), scale, transform, (0.0, 1.0)) for i in few)
            if [min(max(_NEAREST[rounding](p), 0), _SAMPLED - 1) for p in places] == [i // times for i in few]:
                found[axis] = times
    return found


def _repeated(n: Node, x: Value, repeats: Mapping[int, int]) -> Value:
    """Each element as often along each axis as this says: a broadcast along new dims, which a reshape merges."""
    if not repeats:
        return x
    own, wide, dims = shape_of(x.type), list[Dim](), list[int]()
    for axis, extent in enumerate(own):
        dims.append(len(wide))
        wide += [extent, repeats[axis]] if axis in repeats else [extent]
    shape = tuple(extent * repeats.get(axis, 1) for axis, extent in enumerate(own))
    return n.w.reshape(n.w.op("broadcast", x, shape=tuple(wide), dims=tuple(dims)), shape)


def _fewest_first(n: Node, axes: Sequence[int], sizes: Sequence[Dim]) -> Sequence[int]:
    """The order of axes in which the least is computed: those that shrink, then those that grow, innermost first."""

    def growth(k: int) -> tuple[float, int]:
        size, extent = sizes[k], n.shape()[axes[k]]
        return size / extent if isinstance(size, int) and isinstance(extent, int) and extent else 1.0, -axes[k]

    return sorted(range(len(axes)), key=growth)


def _extrapolated(n: Node, x: Value, outside: Mapping[int, Array]) -> Value:
    """A number instead of the elements that lie outside of the operand along one of the axes."""
    w, shape = n.w, shape_of(x.type)
    for axis, which in outside.items():
        if which.any():
            mask = w.op("broadcast", w.constant(f"{w.prefix}.outside", which), shape=shape, dims=(axis,))
            x = w.select(mask, w.fill(n.float("extrapolation_value", 0.0), (), dtype_of(x.type)), x)
    return x


def _places(n: Node, extent: Dim, size: Dim, scale: float | None, transform: str) -> Value:
    """Where each element of the result lies in the operand: what `_place` says, computed by the payload in f64."""
    w, shape = n.w, (size,)
    n.demand(Predicate.of("<=", 1, extent), "an empty dim cannot be resized", [extent])

    def full(number: float | Dim) -> Value:
        return w.fill(number, shape, f64)

    factor = w.op("div", full(size), full(extent)) if scale is None else full(scale)
    index = w.op("iota", shape=shape, dtype=f64, dim=0)
    centre = w.with_number("sub", w.op("div", w.with_number("add", index, 0.5), factor), 0.5)
    match transform:
        case "half_pixel":
            place = centre
        case "half_pixel_symmetric":
            adjusted = w.op("div", full(size), w.op("mul", full(extent), factor))
            edge = w.op("mul", w.with_number("div", full(extent), 2), w.with_number("sub", adjusted, 1, first=True))
            place = w.with_number("sub", w.op("add", edge, w.op("div", w.with_number("add", index, 0.5), factor)), 0.5)
        case "pytorch_half_pixel":
            is_one = w.with_number("less", full(size), 1.5, dtype=i1)
            place = w.op("select", is_one, full(-0.5), centre, dtype=f64)
        case "align_corners":
            length = w.op("mul", full(extent), factor)
            is_one = w.with_number("equal", length, 1, dtype=i1)
            divisor = w.op("select", is_one, full(1), w.with_number("sub", length, 1), dtype=f64)
            place = w.op("div", w.op("mul", index, w.with_number("sub", full(extent), 1)), divisor)
            place = w.op("select", is_one, full(0), place, dtype=f64)
        case "asymmetric":
            place = w.op("div", index, factor)
        case _:
            raise Unsupported(f"the coordinates {transform}")
    return place


def _nearest(n: Node, place: Value, extent: Dim, rounding: str) -> Value:
    """The index in the operand of the nearest element to each place."""
    w = n.w
    match rounding:
        case "round_prefer_floor":
            place = w.unary("ceil", w.with_number("sub", place, 0.5))
        case "round_prefer_ceil":
            place = w.unary("floor", w.with_number("add", place, 0.5))
        case "floor" | "ceil":
            place = w.unary(rounding, place)
        case _:
            raise Unsupported(f"the rounding {rounding}")
    return _inside(n, w.cast(place, si64), extent)


def _inside(n: Node, places: Value, extent: Dim) -> Value:
    """Places, those outside of a dim moved to its ends."""
    return n.w.with_number("min", n.w.with_number("max", places, 0), extent - 1)


def _weighted_at_call(n: Node, x: Value, axis: int, place: Value, mode: str) -> Value:
    """A sum of weighted elements around each place along an axis: what `_weights` says, computed by the payload."""
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"the mode {mode}")
    w, held, extent = n.w, accumulator_of(n.dtype()) if n.dtype().is_float else f32, shape_of(x.type)[axis]
    first, zero = w.unary("floor", place), w.fill(0, shape_of(place.type), f64)
    past = w.op("sub", place, first)
    taps: list[tuple[Value, Value]] = []
    for tap in (0, 1) if mode == "linear" else (-1, 0, 1, 2):
        at = w.with_number("add", w.cast(first, si64), tap)
        weight = _kernel_at_call(n, w.unary("abs", w.with_number("sub", past, tap)), mode, tap)
        if n.int("exclude_outside", 0):
            is_inside = w.op(
                "and", w.with_number("greater_equal", at, 0, dtype=i1), w.with_number("less", at, extent, dtype=i1)
            )
            weight = w.op("select", is_inside, weight, zero, dtype=f64)
        taps.append((at, weight))
    if n.int("exclude_outside", 0):
        whole = taps[0][1]
        for _, weight in taps[1:]:
            whole = w.op("add", whole, weight)
        taps = [(at, w.op("div", weight, whole)) for at, weight in taps]
    x = w.cast(x, held)
    total: Value | None = None
    for at, weight in taps:
        read = w.along(x, _inside(n, at, extent), axis)
        factor = w.op("broadcast", w.cast(weight, held), shape=shape_of(read.type), dims=(axis,))
        part = w.op("mul", read, factor)
        total = part if total is None else w.op("add", total, part)
    return x if total is None else total


def _kernel_at_call(n: Node, t: Value, mode: str, tap: int) -> Value:
    """What `_kernel` says of distances: below 1 for the taps 0 and 1, from 1 to 2 for the others."""
    w = n.w
    if mode == "linear":
        return w.with_number("sub", t, 1, first=True)
    a = n.float("cubic_coeff_a", -0.75)
    factors = (a + 2, -(a + 3), 0, 1) if tap in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    made = w.with_number("mul", t, factors[0])
    for factor in factors[1:-1]:
        made = w.op("mul", w.with_number("add", made, factor), t)
    return w.with_number("add", made, factors[-1])


def _place(n: Node, i: int, extent: int, size: int, scale: float, transform: str, box: tuple[float, float]) -> float:
    """Where element i of the result lies in the operand."""
    match transform:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            adjusted = size / (extent * scale)
            return extent / 2 * (1 - adjusted) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if size > 1 else -0.5
        case "align_corners":
            return i * (extent - 1) / (extent * scale - 1) if extent * scale != 1 else 0.0
        case "asymmetric":
            return i / scale
        case "tf_crop_and_resize":
            start, end = box
            if size > 1:
                return start * (extent - 1) + i * (end - start) * (extent - 1) / (size - 1)
            return 0.5 * (start + end) * (extent - 1)
        case _:
            raise Unsupported(f"the coordinates {transform}")


def _weights(n: Node, places: Array, extent: int, scale: float, mode: str) -> Array:
    """The weight of each element of the operand in each of the result."""
    wide = max(1.0, 1 / scale) if n.int("antialias", 0) and n.version >= 18 and len(places) else 1.0
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"the mode {mode}")
    reach = wide * (1 if mode == "linear" else 2)
    a, is_cut = n.float("cubic_coeff_a", -0.75), bool(n.int("exclude_outside", 0))
    made = np.zeros((len(places), extent))
    for row, place in enumerate(places.tolist()):
        taps = range(floor(place - reach) + 1, ceil(place + reach))
        weights = {t: _kernel((t - place) / wide, mode, a) for t in taps}
        if is_cut:
            weights = {t: v for t, v in weights.items() if 0 <= t < extent}
        total = sum(weights.values())
        for tap, weight in weights.items():
            made[row, min(max(tap, 0), extent - 1)] += weight / total
    return made


def _kernel(t: float, mode: str, a: float) -> float:
    t = abs(t)
    if mode == "linear":
        return max(0.0, 1 - t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a if t < 2 else 0.0


def _weighted(n: Node, x: Value, axis: int, weights: Array) -> Value:
    """A sum of weighted elements along an axis: of the few that have a weight, or a product with a matrix."""
    held = accumulator_of(n.dtype()) if n.dtype().is_float else f32
    x, own = n.w.cast(x, held), shape_of(x.type)
    taps = int(np.count_nonzero(weights, axis=1).max(initial=0))
    if 0 < taps <= MOST_TAPS and taps * LEAST_SPARSE <= weights.shape[1]:
        return _tapped(n, x, axis, weights, taps)
    matrix = n.w.constant(f"{n.w.prefix}.weights", weights.astype(held.numpy))
    names = [f"d{k}" for k in range(len(own))]
    out = [*names[:axis], "to", *names[axis + 1 :]]
    return n.w.contract(x, matrix, names, ["to", f"d{axis}"], out, held)


def _tapped(n: Node, x: Value, axis: int, weights: Array, taps: int) -> Value:
    """The sum over the elements that have a weight; where there are fewer than elsewhere, one counts again, times 0."""
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :taps]
    chosen = np.take_along_axis(weights, order, axis=1)
    order = np.where(chosen == 0, order[:, :1], order)
    total: Value | None = None
    for k in range(taps):
        read = n.w.take(x, n.w.constant(f"{n.w.prefix}.places", order[:, k].astype(np.int32)), axis)
        weight = n.w.constant(f"{n.w.prefix}.weights", chosen[:, k].astype(dtype_of(x.type).numpy))
        part = n.w.op("mul", read, n.w.op("broadcast", weight, shape=shape_of(read.type), dims=(axis,)))
        total = part if total is None else n.w.op("add", total, part)
    return x if total is None else total
