"""Operators of quantized numbers: integers with a scale and a zero point."""

from __future__ import annotations

from tcpx.frontends.onnx.broadcasting import same
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, dtype_of_onnx
from tcpx.frontends.onnx.operators.linear import along, multiplied, shifted
from tcpx.frontends.onnx.operators.windows import convolved
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.sizes import ceildiv
from tcpx.payload.types import ScalarType, f32, shape_of, si32, ui8


def _spread(n: Node, value: Value, index: int) -> Value:
    """A scale or zero point in the shape of x: one, one along an axis, or one for each block along it."""
    shape, own = n.shape(), shape_of(value.type)
    if not own or (len(own) == 1 and same(own[0], 1)):
        return along(n, value, shape, None)
    axis, block = n.axis(len(shape), default=1), n.int("block_size", 0) if "block_size" in n.attributes else 0
    if len(own) == 1 and not block:
        return along(n, value, shape, axis)
    if len(own) != len(shape) or block < 1 or not same(ceildiv(shape[axis], block), own[axis]):
        raise Unsupported(f"a scale of another shape than x or its blocks: {n.input(index)}")
    wide = (*own[: axis + 1], block, *own[axis + 1 :])
    spread = n.w.op("broadcast", value, shape=wide, dims=tuple(k for k in range(len(wide)) if k != axis + 1))
    joined = n.w.reshape(spread, [*own[:axis], own[axis] * block, *own[axis + 1 :]])
    return n.w.slice(joined, [0] * len(shape), shape)


def quantized(n: Node, x: Value, scale: Value, zero: Value | None, dtype: ScalarType) -> Value:
    """round(x / scale) + zero, saturated."""
    w = n.w
    held = w.unary("round", w.op("div", x, scale))
    if zero is None:
        return w.cast(held, dtype)
    narrow = w.with_number("min", w.with_number("max", held, -float(1 << 30)), float(1 << 30))
    whole = w.op("add", w.cast(narrow, si32), zero)
    low, high = (w.fill(int(end), shape_of(x.type), si32) for end in (dtype.minimum, dtype.maximum))
    return w.cast(w.op("min", w.op("max", whole, low), high), dtype)


@rule("QuantizeLinear")
def quantize(n: Node) -> Result:
    """To integers, by scales and zero points."""
    dtype = n.dtype(2) if n.has(2) else dtype_of_onnx(n.int("output_dtype", 0)) if n.raw("output_dtype") else ui8
    if not dtype.is_integer or dtype.bits > 16:
        raise Unsupported(f"the dtype {dtype}")
    zero = n.w.cast(_spread(n, n.value(2), 2), si32) if n.has(2) else None
    wide = dtype_of_onnx(n.int("precision", 0)) if n.raw("precision") else n.dtype(1) if n.dtype(1).is_float else f32
    x, scale = n.w.cast(n.value(0), wide), n.w.cast(_spread(n, n.value(1), 1), wide)
    return quantized(n, x, scale, zero, dtype)


@rule("DequantizeLinear")
def dequantize(n: Node) -> Result:
    """(x - zero) * scale."""
    w, dtype = n.w, n.dtype(1)
    if n.raw("output_dtype"):
        dtype = dtype_of_onnx(n.int("output_dtype"))
    whole = w.cast(n.value(0), si32)
    if n.has(2):
        whole = w.op("sub", whole, w.cast(_spread(n, n.value(2), 2), si32))
    return w.op("mul", w.cast(whole, dtype), w.cast(_spread(n, n.value(1), 1), dtype))


def _requantized(n: Node, total: Value, factors: tuple[int, int], scale: int, zero: int, axis: int) -> Result:
    """A product in si32 as a quantized result."""
    w, shape = n.w, shape_of(total.type)
    a, b, y = (along(n, w.cast(n.value(k), f32), shape, axis) for k in (*factors, scale))
    real = w.op("mul", w.op("mul", w.cast(total, f32), a), b)
    point = along(n, w.cast(n.value(zero), si32), shape, axis)
    return quantized(n, real, y, point, n.dtype(zero))


@rule("QLinearMatMul")
def product_of_quantized(n: Node) -> Result:
    """A product of quantized matrices, quantized."""
    a = shifted(n, n.value(0), n.value(2), n.input(0).rank - 2)
    b = shifted(n, n.value(3), n.value(5), n.input(3).rank - 1)
    total = multiplied(n, a, b, si32)
    return _requantized(n, total, (1, 4), 6, 7, len(shape_of(total.type)) - 1)


@rule("QLinearConv")
def convolution_of_quantized(n: Node) -> Result:
    """A convolution of quantized tensors, quantized."""
    x, weight = shifted(n, n.value(0), n.value(2)), shifted(n, n.value(3), n.value(5), 0)
    total = convolved(n, x, weight, si32)
    if n.has(8):
        total = n.w.op("add", total, n.w.op("broadcast", n.value(8), shape=shape_of(total.type), dims=(1,)))
    return _requantized(n, total, (1, 4), 6, 7, 1)
