"""NumPy with the BLAS that its wheel brings (OpenBLAS)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.tasks import Layer, expression_of, network_of
from tcpx.measure.protocol import Array, Prepared, Task, UnsupportedError


def describe(threads: int) -> Mapping[str, str]:
    """The version of NumPy and of its BLAS."""
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    return {"version": np.__version__, "blas": f"{blas['name']} {blas['version']}", "threads": str(threads)}


def prepare(task: Task) -> Prepared:
    """Products by `matmul`; bias and activations, and expressions, as one writes them."""
    if task.kind == "expression":
        wanted, given = expression_of(task, "numpy", np=np), list(task.arrays().values())
        return Prepared(lambda: np.asarray(wanted(*given)))
    net = network_of(task, ("f32", "f64"))
    if any(layer.activation == "gelu" for layer in net.layers):
        raise UnsupportedError("no gelu: NumPy has no erf")
    x, weight = net.operands()
    if net.is_plain:
        out = np.matmul(x, weight)
        return Prepared(lambda: np.matmul(x, weight, out=out))

    def run() -> Array:
        y = x
        for k, layer in enumerate(net.layers):
            y = activated(layer, y @ (layer.weight if k else weight))
        return y

    return Prepared(run)


def activated(layer: Layer, y: Array) -> Array:
    """Bias and activation, in place where NumPy can."""
    if layer.bias is not None:
        y += layer.bias
    if layer.activation == "relu":
        np.maximum(y, 0, out=y)
    elif layer.activation == "softmax":
        y -= y.max(axis=-1, keepdims=True)
        np.exp(y, out=y)
        y /= y.sum(axis=-1, keepdims=True)
    return y
