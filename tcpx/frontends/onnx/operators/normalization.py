"""Operators that normalise: by mean and variance of a batch, an instance, a layer, or neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, product
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.indexing_maps import dims
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, f32, f64


def of_channels(n: Node, value: Value, shape: Sequence[Dim]) -> Value:
    """A number for each channel, dim 1 of a shape, repeated."""
    return n.w.op("broadcast", value, shape=tuple(shape), dims=(1,)) if len(shape) > 1 else n.w.expand(value, shape)


@rule("BatchNormalization")
def batch_normalization(n: Node) -> Result | Sequence[Result]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, by numbers that are given, or with `training_mode` by those
    of the batch, which are mixed with what was before."""
    w, x, shape = n.w, n.value(0), n.ranked(0, 1).shape
    scale, bias, mean, variance = (n.value(k) for k in range(1, 5))
    epsilon, dtype = n.float("epsilon", 1e-5), n.dtype()
    results: list[Result] = []
    if n.int("training_mode", 0):
        axes = [k for k in range(len(shape)) if k != 1]
        own_mean = w.reduce("reduce_mean", x, axes, dtype=dtype_of(mean.type))
        own_variance = w.reduce("reduce_variance", x, axes, dtype=dtype_of(variance.type))
        keep = n.float("momentum", 0.9)
        for before, now in ((mean, own_mean), (variance, own_variance)):
            results.append(w.op("add", w.with_number("mul", before, keep), w.with_number("mul", now, 1 - keep)))
        mean, variance = own_mean, own_variance
    elif n.version < 14 and len(n.outputs) > 1:
        raise Unsupported("batch normalization that trains")
    root = w.unary("sqrt", w.with_number("add", variance, epsilon))
    factor = w.binary("div", w.cast(scale, dtype_of(root.type)), root)
    centred = w.op("sub", x, of_channels(n, w.cast(mean, dtype), shape))
    made = w.op(
        "add",
        w.op("mul", centred, of_channels(n, w.cast(factor, dtype), shape)),
        of_channels(n, w.cast(bias, dtype), shape),
    )
    return [made, *results]


@rule("InstanceNormalization")
def instance_normalization(n: Node) -> Result:
    """Each channel of each element of the batch by its own mean and variance."""
    w, shape = n.w, n.ranked(0, 3).shape
    flat = w.reshape(n.value(0), [shape[0], shape[1], product(n, shape[2:])])
    made = w.op("layer_norm", flat, dims=(2,), epsilon=n.float("epsilon", 1e-5))
    made = w.reshape(made, shape)
    return w.op("add", w.op("mul", made, of_channels(n, n.value(1), shape)), of_channels(n, n.value(2), shape))


@rule("LayerNormalization")
def layer_normalization(n: Node) -> Sequence[Result]:
    """Over the dims from an axis on; with mean and reciprocal of the deviation, where they are asked for."""
    w, x, shape = n.w, n.value(0), n.shape()
    axis = n.axis(len(shape), default=-1)
    along, epsilon = tuple(range(axis, len(shape))), n.float("epsilon", 1e-5)
    made = w.op("layer_norm", x, dims=along, epsilon=epsilon)
    made = w.op("mul", made, w.expand(n.value(1), shape))
    if n.has(2):
        made = w.op("add", made, w.expand(n.value(2), shape))
    results: list[Result] = [made]
    wide = f64 if n.dtype() == f64 else f32
    if n.wants(1) or n.wants(2):
        results.append(w.reduce("reduce_mean", x, along, keep=True, dtype=wide))
    if n.wants(2):
        variance = w.reduce("reduce_variance", x, along, keep=True, dtype=wide)
        results.append(w.unary("rsqrt", w.with_number("add", variance, epsilon)))
    return results


@rule("RMSNormalization")
def rms_normalization(n: Node) -> Result:
    """Over the dims from an axis on."""
    w, x, shape = n.w, n.value(0), n.shape()
    axis = n.axis(len(shape), default=-1)
    made = w.op("rms_norm", x, dims=tuple(range(axis, len(shape))), epsilon=n.float("epsilon", 1e-5))
    return w.cast(w.op("mul", w.cast(made, n.dtype(1)), w.expand(n.value(1), shape)), n.dtype(1))


@rule("LRN")
def lrn(n: Node) -> Result:
    """x / (bias + alpha / size * the sum of squares of neighbouring channels) ** beta."""
    w, x, shape = n.w, n.value(0), n.ranked(0, 2).shape
    size, rank = n.int("size"), len(shape)
    if size < 1:
        raise n.error("the neighbours of a channel", "1 or more", str(size))
    before = (size - 1) // 2
    low, high = ([0] * rank for _ in range(2))
    low[1], high[1] = before, size - 1 - before
    squares = w.pad(w.op("mul", x, x), low, high, 0)
    names = [f"d{k}" for k in range(rank)]
    own = dims(*names)
    read = [*own[:1], own[1] + dims("c")[0], *own[2:]]
    total = w.generic(
        [squares], [*((name, "parallel") for name in names), ("c", "reduction", size)], [read, own], (shape, n.dtype()),
        lambda build, e: build("add", e[1], e[0]), "add",
    )  # fmt: skip
    alpha, beta, bias = n.float("alpha", 1e-4), n.float("beta", 0.75), n.float("bias", 1.0)
    base = w.with_number("add", w.with_number("mul", total, alpha / size), bias)
    return w.op("div", x, w.with_number("pow", base, beta))
