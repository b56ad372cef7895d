"""The discrete Fourier transform: a contraction with a table of cosines and sines. Complex numbers are pairs."""

from __future__ import annotations

import numpy as np

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.evaluator import Array
from tcpx.payload.types import accumulator_of, shape_of

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
        raise Unsupported(f"a transform of {count} points")
    table = _table(count, int(parts) if isinstance(parts, int) else 2, back, half)
    x, taken = n.value(0), min(extent, table.shape[0])
    x = w.part(x, axis, 0, taken)
    wide = accumulator_of(n.dtype())
    names = [f"d{k}" for k in range(rank)]
    out = [*names[:axis], "to", *names[axis + 1 : -1], "of"]
    matrix = w.constant(f"{w.prefix}.table", np.ascontiguousarray(table[:taken]).astype(wide.numpy))
    made = w.contract(w.cast(x, wide), matrix, names, [names[axis], names[-1], "to", "of"], out, wide)
    return w.reshape(w.cast(made, n.dtype()), shape_of(made.type))


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
