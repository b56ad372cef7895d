"""The discrete Fourier transform: a contraction with a table of cosines and sines. Complex numbers are pairs. Beside it
what spectra are made with."""

from __future__ import annotations

import numpy as np

from tcpx.frontends.onnx.broadcasting import same
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, dtype_of_onnx
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.values import of_array
from tcpx.payload.evaluator import Array
from tcpx.payload.sizes import Dim, floordiv
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import accumulator_of, shape_of, si64
from tcpx.plurals import counted

MOST_POINTS = 4096


@rule("DFT")
def dft(n: Node) -> Result:
    """Along an axis of real or complex numbers, forwards or back; with `onesided` the half that is not conjugated, and
    back from that to real numbers."""
    w, shape, rank = n.w, n.ranked(0, 2).shape, n.input(0).rank
    axis = n.axis(rank, default=1) if n.version < 20 else n.checked_axis(n.integer(2, -2), rank)
    back, half = bool(n.int("inverse", 0)), bool(n.int("onesided", 0))
    parts, extent = shape[-1], shape[axis]
    if axis == rank - 1 or parts not in (1, 2):
        raise n.error("numbers or pairs along the last dim, and another axis", "1 or 2", str(n.input(0)))
    if not isinstance(extent, int):
        raise Unsupported("a transform of a dim that is known when called", [extent])
    count = n.integer(1) if n.has(1) else 2 * (extent - 1) if back and half else extent
    if not 1 <= count <= MOST_POINTS:
        raise Unsupported(f"a transform of {counted(count, 'point')}")
    table = _table(count, int(parts) if isinstance(parts, int) else 2, back, half)
    x, taken = n.value(0), min(extent, table.shape[0])
    x = w.part(x, axis, 0, taken)
    wide = accumulator_of(n.dtype())
    names = [f"d{k}" for k in range(rank)]
    out = [*names[:axis], "to", *names[axis + 1 : -1], "of"]
    matrix = w.constant(f"{w.prefix}.table", np.ascontiguousarray(table[:taken]).astype(wide.numpy))
    made = w.contract(w.cast(x, wide), matrix, names, [names[axis], names[-1], "to", "of"], out, wide)
    return w.reshape(w.cast(made, n.dtype()), shape_of(made.type))


@rule("STFT")
def short_time_transform(n: Node) -> Result:
    """Transforms [b, frames, points, 2] of parts of a signal [b, length, parts], each a step further, by a window."""
    w, (batch, length, parts) = n.w, n.ranked(0, 3, 3).shape
    step, window = n.integer(1), n.input(2) if n.has(2) else None
    count: Dim = n.integer(3) if n.has(3) else window.shape[0] if window is not None else length
    if (
        not isinstance(parts, int)
        or parts not in (1, 2)
        or step < 1
        or (window is not None and not same(window.shape[0], count))
    ):
        found = f"{n.input(0)}, {step}, {window}"
        raise n.error("numbers or pairs, a step, and a window for each frame", counted(str(count), "number"), found)
    if not isinstance(count, int):
        raise Unsupported("frames whose length is known when called", [count])
    if not 1 <= count <= MOST_POINTS:
        raise Unsupported(f"a transform of {counted(count, 'point')}")
    n.demand(Predicate.of("<=", count, length), "the signal is shorter than a frame", [length])
    frames = floordiv(length - count, step) + 1
    start, within = (w.op("iota", shape=(frames, count), dtype=si64, dim=d) for d in (0, 1))
    pieces = w.along(n.value(0), w.op("add", w.with_number("mul", start, step), within), 1)
    wide = accumulator_of(n.dtype())
    pieces = w.cast(pieces, wide)
    if window is not None:
        weights = w.cast(n.value(2), wide)
        pieces = w.op("mul", pieces, w.op("broadcast", weights, shape=shape_of(pieces.type), dims=(2,)))
    table = _table(count, parts, False, bool(n.int("onesided", 1)))
    matrix = w.constant(f"{w.prefix}.table", np.ascontiguousarray(table).astype(wide.numpy))
    made = w.contract(pieces, matrix, ["b", "f", "t", "p"], ["t", "p", "to", "of"], ["b", "f", "to", "of"], wide)
    return w.reshape(w.cast(made, n.dtype()), (batch, frames, *table.shape[2:]))


@rule("MelWeightMatrix")
def mel_weights(n: Node) -> Result:
    """What each frequency of a spectrum gives to each band: triangles between points that are equally far on the mel
    scale."""
    bands, points, rate = (n.integer(k) for k in range(3))
    low, high = (2595 * np.log1p(n.number(k) / 700) / np.log(10) for k in (3, 4))
    if bands < 0 or points < 0 or rate < 1 or max(bands, points) > MOST_POINTS:
        required = f"bands and points up to {MOST_POINTS}, a rate"
        raise n.error("the numbers of a mel scale", required, f"{bands}, {points}, {rate}")
    mel = np.arange(bands + 2) * ((high - low) / (bands + 2)) + low
    ends = ((points + 1) * (700 * np.expm1(mel / 2595 * np.log(10))) // rate).astype(np.int64)
    bins = np.arange(points // 2 + 1)[:, None]
    first, middle, last = ends[:-2], ends[1:-1], ends[2:]
    rising = np.where(middle > first, (bins - first) / np.maximum(middle - first, 1), 1.0)
    falling = (last - bins) / np.maximum(last - middle, 1)
    is_rising = (first <= bins) & (bins <= middle)
    weights = np.where((middle <= bins) & (bins < last), falling, np.where(is_rising, rising, 0.0))
    dtype = dtype_of_onnx(n.int("output_datatype", 1))
    made = of_array(n.outputs[0], weights.astype(dtype.numpy))
    if made is None:
        raise Unsupported(f"the dtype {dtype.name}")
    return made


def _table(count: int, parts: int, back: bool, half: bool) -> Array:
    """What each part of each point gives to the parts of each result: [point, part, result, part]."""
    if back and half:  # from the half that is there: the other one is conjugated, and results are real
        points = np.arange(count // 2 + 1)
        weights = np.where((points == 0) | (2 * points == count), 1.0, 2.0) / count
        angles = 2 * np.pi * ((points[:, None] * np.arange(count)) % count) / count
        both = np.stack([np.cos(angles), -np.sin(angles)], axis=1) * weights[:, None, None]
        return both[:, :parts, :, None]
    results = np.arange(count // 2 + 1 if half else count)
    angles = 2 * np.pi * ((np.arange(count)[:, None] * results) % count) / count * (-1 if back else 1)
    cosine, sine = np.cos(angles), np.sin(angles)
    of_real, of_imaginary = np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)
    return np.stack([of_real, of_imaginary], axis=1)[:, :parts] / (count if back else 1)
