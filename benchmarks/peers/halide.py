"""Halide with a hand schedule: a register tile of 6 rows and 4 vectors, panels of the right operand packed for it,
bias and activation where the tile is stored, panels in parallel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import version

import halide as hl
import numpy as np

from benchmarks.tasks import Layer, Network, network_of
from tcpx.measure.protocol import Prepared, Task, UnsupportedError

VECTORS, ROWS = 4, 6
PACKED_ROWS = 32
"""From so many rows on the right operand is packed."""


def describe(threads: int) -> Mapping[str, str]:
    """The version and the target; Halide reads the number of threads from the environment when it first needs it."""
    os.environ["HL_NUM_THREADS"] = str(threads)
    return {"version": version("halide"), "target": str(hl.get_host_target()), "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """One pipeline per layer."""
    net = network_of(task)
    if any(layer.activation in ("gelu", "softmax") for layer in net.layers):
        raise UnsupportedError("no gelu or softmax: not written here")
    held = net.x
    steps = []
    for k, layer in enumerate(net.layers):
        m = held.shape[-1 if net.lhs_transposed and k == 0 else -2]
        n = layer.weight.shape[-2 if net.rhs_transposed else -1]
        out = np.zeros((*held.shape[:-2], m, n), np.float32)
        arrays = [held, layer.weight, *([] if layer.bias is None else [layer.bias]), out]
        steps.append(
            (_pipeline(net, layer, k == 0 and net.lhs_transposed, out.shape), [hl.Buffer(a) for a in arrays], arrays)
        )
        held = out

    def run() -> np.ndarray:
        for pipeline, buffers, _ in steps:
            pipeline(*buffers)
        return held

    return Prepared(run)


def _pipeline(net: Network, layer: Layer, lhs_transposed: bool, shape: tuple[int, ...]) -> hl.Callable:
    """The product of one layer; dims are innermost first, as Halide has them."""
    *batch, m, n = shape
    depth = layer.weight.shape[-1 if net.rhs_transposed else -2]
    i, j, b = hl.Var("i"), hl.Var("j"), hl.Var("b")
    left = hl.ImageParam(hl.Float(32), 2 + len(batch), "left")
    right = hl.ImageParam(hl.Float(32), 2 + len(batch), "right")
    bias = hl.ImageParam(hl.Float(32), 1, "bias")
    outer = [b] if batch else []
    r = hl.RDom([(0, depth)])

    panel = hl.Func("panel")
    kk = hl.Var("kk")
    panel[j, kk, *outer] = right[(kk, j, *outer) if net.rhs_transposed else (j, kk, *outer)]
    product = hl.Func("product")
    product[j, i, *outer] = 0.0
    product[j, i, *outer] += left[(i, r.x, *outer) if lhs_transposed else (r.x, i, *outer)] * panel[j, r.x, *outer]
    out = hl.Func("out")
    value = product[j, i, *outer]
    if layer.bias is not None:
        value = value + bias[j]
    out[j, i, *outer] = hl.max(value, 0.0) if layer.activation == "relu" else value

    lanes = next((size for size in (16, 8, 4, 2) if n >= size), 1)
    width, rows = max(lanes, min(VECTORS, n // lanes) * lanes), min(ROWS, m)
    jo, io, ji, ii = hl.Var("jo"), hl.Var("io"), hl.Var("ji"), hl.Var("ii")
    out.tile(j, i, jo, io, ji, ii, width, rows, hl.TailStrategy.ShiftInwards)
    out.reorder(ji, ii, io, jo, *outer).vectorize(ji, lanes).unroll(ii)
    product.compute_at(out, io).bound_extent(j, width).bound_extent(i, rows)
    product.vectorize(j, lanes).unroll(j).unroll(i)
    product.update().reorder(j, i, r.x).vectorize(j, lanes).unroll(j).unroll(i)
    if m >= PACKED_ROWS or net.rhs_transposed:
        panel.compute_at(out, jo).vectorize(j, lanes).unroll(j)
    out.parallel(b if batch else jo)
    arguments = [left, right, *([] if layer.bias is None else [bias])]
    return out.compile_to_callable(arguments, hl.get_host_target())
