"""Resize and Upsample: along each axis, a gather or a product with a matrix of weights that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor, isfinite
from typing import Final

import numpy as np

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Value
from tcpx.payload.types import accumulator_of, f32, shape_of

MOST_PLACES: Final = 1 << 20
"""Of one axis, whose places are listed; beside them, their weights."""
MOST_WEIGHTS: Final = 1 << 24
_CROP: Final = "tf_crop_and_resize"
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
    sizes = _scaled(n, n.static(axes), scales)
    return _resized(n, n.value(0), axes, sizes, scales, n.text("mode", "nearest"), "asymmetric", "floor")


@rule("Resize")
def resize(n: Node) -> Result:
    """To sizes, or by scales, along axes."""
    rank = n.input(0).rank
    axes = n.axes(n.ints("axes"), rank) if n.raw("axes") is not None else list(range(rank))
    scales_at, sizes_at = (1, None) if n.version < 11 else (2, 3)
    transform = n.text("coordinate_transformation_mode", "half_pixel") if n.version >= 11 else "asymmetric"
    if sizes_at is not None and n.has(sizes_at) and n.numbers(sizes_at):
        sizes, extents = n.numbers(sizes_at), n.static(axes)
        if len(sizes) != len(axes) or 0 in extents:
            required = f"{len(axes)} of them, of dims that are not empty"
            raise n.error("a size for each axis", required, f"{sizes} of {extents}")
        scales = [s / d for s, d in zip(sizes, extents, strict=True)]
        policy = n.text("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(scales) if policy == "not_larger" else max(scales)
            scales, sizes = [one] * len(axes), [floor(one * d + 0.5) for d in extents]
    else:
        scales = [float(s) for s in np.asarray(n.array(scales_at)).ravel()]
        if transform != _CROP:
            axes, scales = _changed(n, axes, scales)
        sizes = _scaled(n, n.static(axes), scales)
    if min(sizes, default=1) < 0:
        raise n.error("a size for each axis", "0 or more", str(sizes))
    nearest = n.text("nearest_mode", "round_prefer_floor") if n.version >= 11 else "floor"
    return _resized(n, n.value(0), axes, sizes, scales, n.text("mode", "nearest"), transform, nearest)


def _changed(n: Node, axes: Sequence[int], scales: Sequence[float]) -> tuple[list[int], list[float]]:
    """The axes whose scale is not 1, and their scales: the sizes of the others need not be numbers."""
    if len(scales) != len(axes):
        raise n.error("a scale for each axis", f"{len(axes)} numbers above 0", str(list(scales)))
    changed = [(axis, scale) for axis, scale in zip(axes, scales, strict=True) if scale != 1]
    return [axis for axis, _ in changed], [scale for _, scale in changed]


def _scaled(n: Node, extents: Sequence[int], scales: Sequence[float]) -> list[int]:
    """The size of each axis by its scale."""
    if len(scales) != len(extents) or not all(isfinite(s) and s > 0 for s in scales):
        raise n.error("a scale for each axis", f"{len(extents)} numbers above 0", str(list(scales)))
    return [floor(d * s) for d, s in zip(extents, scales, strict=True)]


def _resized(
    n: Node,
    x: Value,
    axes: Sequence[int],
    sizes: Sequence[int],
    scales: Sequence[float],
    mode: str,
    transform: str,
    nearest: str,
) -> Value:
    dtype = n.dtype()
    roi = [float(v) for v in np.asarray(n.array(1)).ravel()] if transform == _CROP else []
    own = dict(zip(axes, n.static(axes), strict=True))
    if roi and len(roi) != 2 * len(axes):
        raise n.error("where a crop begins and ends along each axis", f"{2 * len(axes)} numbers", str(len(roi)))
    for k, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True)):
        if size == own[axis] and scale == 1 and not roi:
            continue
        if size > MOST_PLACES or (mode != "nearest" and size * own[axis] > MOST_WEIGHTS) or (size and not own[axis]):
            raise Unsupported(f"an axis of {own[axis]} resized to {size}")
        box = (roi[k], roi[k + len(axes)]) if roi else (0.0, 1.0)
        places = np.array([_place(n, i, own[axis], size, scale, transform, box) for i in range(size)])
        outside = (places < 0) | (places > own[axis] - 1) if roi else np.zeros(size, bool)
        if mode == "nearest" and not outside.any():
            rounding = _NEAREST.get(nearest)
            if rounding is None:
                raise Unsupported(f"the rounding {nearest}")
            at = np.array([min(max(rounding(p), 0), own[axis] - 1) for p in places], np.int64).reshape(size)
            x = n.w.take(x, n.w.constant(f"{n.w.prefix}.places", at), axis)
            continue
        if outside.any():
            raise Unsupported("a crop beyond the tensor")
        x = _weighted(n, x, axis, _weights(n, places, own[axis], scale, mode))
    return n.w.cast(x, dtype)


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
    a = n.float("cubic_coeff_a", -0.75)
    made = np.zeros((len(places), extent))
    for row, place in enumerate(places.tolist()):
        taps = range(floor(place - reach) + 1, ceil(place + reach))
        weights = {t: _kernel((t - place) / wide, mode, a) for t in taps}
        if n.int("exclude_outside", 0):
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
    """A product with a matrix along an axis."""
    held = accumulator_of(n.dtype()) if n.dtype().is_float else f32
    own = shape_of(x.type)
    matrix = n.w.constant(f"{n.w.prefix}.weights", weights.astype(held.numpy))
    names = [f"d{k}" for k in range(len(own))]
    out = [*names[:axis], "to", *names[axis + 1 :]]
    return n.w.contract(n.w.cast(x, held), matrix, names, ["to", f"d{axis}"], out, held)
