"""Small models of the families of `schedules/models/`, as exporters write them: in several opsets, with other names of
nodes, with a batch that is a number or a symbol, in the operators of TorchScript's exporter or in those of dynamo's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True, slots=True)
class Export:
    """How a model is exported. `composed` says that functions are written by their parts, as TorchScript's exporter
    does."""

    composed: bool
    opset: int
    names: str
    batch: int | str


EXPORTS: Final = (
    Export(True, 13, "/layers/{}.{}/out", 1),
    Export(True, 17, "onnx::{}_{}", "batch"),
    Export(False, 20, "val_{1}_{0}", 1),
    Export(False, 21, "node.{}{}", "batch"),
)


class Graph:
    """Writes nodes. A value is its name, in the order [batch, channels, places ..] or [batch, length, features]."""

    def __init__(self, export: Export) -> None:
        self.export, self.nodes, self.stored = export, list[Any](), list[Any]()
        self.draw = np.random.default_rng(3)

    def __call__(self, operation: str, *operands: str, **attributes: Any) -> str:
        name = self.export.names.format(operation, len(self.nodes))
        self.nodes.append(helper.make_node(operation, list(operands), [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = self.export.names.format("constant", len(self.nodes) + 1000 * (len(self.stored) + 1))
        self.stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape: int) -> str:
        size = int(np.prod(shape[1:])) or 1
        return self.constant((self.draw.uniform(-1, 1, shape) / np.sqrt(size)).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def number(self, x: float) -> str:
        return self.constant(np.float32(x))

    def conv(self, x: str, c: int, f: int, k: int, stride: int = 1, groups: int = 1, pad: int | None = None) -> str:
        side = k // 2 if pad is None else pad
        where = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [side] * 4, "group": groups}
        return self("Conv", x, self.weights(f, c // groups, k, k), self.weights(f), **where)

    def relu6(self, x: str) -> str:
        return self("Clip", x, self.number(0), self.number(6))

    def silu(self, x: str) -> str:
        return self("Mul", x, self("Sigmoid", x))

    def gelu(self, x: str) -> str:
        if not self.export.composed:
            return self("Gelu", x)
        wide = self("Add", self("Erf", self("Div", x, self.number(2**0.5))), self.number(1))
        return self("Mul", self("Mul", x, wide), self.number(0.5))

    def reduced(self, x: str, *axes: int, keepdims: int = 1) -> str:
        """The mean along axes, which are an operand since opset 18."""
        if self.export.opset < 18:
            return self("ReduceMean", x, axes=list(axes), keepdims=keepdims)
        return self("ReduceMean", x, self.ints(*axes), keepdims=keepdims)

    def mean(self, x: str) -> str:
        """Over both dims of places, which are left out."""
        if self.export.composed:
            return self("Flatten", self("GlobalAveragePool", x), axis=1)
        return self.reduced(x, -1, -2, keepdims=0)

    def linear(self, x: str, k: int, n: int, rank: int = 3) -> str:
        if rank == 2:
            return self("Gemm", x, self.weights(n, k), self.weights(n), transB=1)
        return self("Add", self("MatMul", x, self.weights(k, n)), self.weights(n))

    def layer_norm(self, x: str, n: int) -> str:
        scale, bias = self.weights(n), self.weights(n)
        if not self.export.composed:
            return self("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        apart = self("Sub", x, self.reduced(x, -1))
        wide = self.reduced(self("Pow", apart, self.number(2)), -1)
        root = self("Sqrt", self("Add", wide, self.number(1e-5)))
        return self("Add", self("Mul", self("Div", apart, root), scale), bias)

    def group_norm(self, x: str, groups: int, channels: int) -> str:
        flat = self("Reshape", x, self.ints(0, groups, -1))
        normed = self("InstanceNormalization", flat, self.constant(np.ones(groups, np.float32)),
                      self.constant(np.zeros(groups, np.float32)), epsilon=1e-5)  # fmt: skip
        back = self("Reshape", normed, self("Shape", x))
        return self("Add", self("Mul", back, self.weights(channels, 1, 1)), self.weights(channels, 1, 1))

    def attention(self, x: str, heads: int, width: int) -> str:
        def split(y: str, order: list[int]) -> str:
            return self("Transpose", self("Reshape", y, self.ints(0, 0, heads, width // heads)), perm=order)

        q, k, v = (self.linear(x, width, width) for _ in range(3))
        scores = self("MatMul", split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]))
        weights = self("Softmax", self("Mul", scores, self.number((width / heads) ** -0.5)), axis=-1)
        joined = self("Transpose", self("MatMul", weights, split(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        return self.linear(self("Reshape", joined, self.ints(0, 0, width)), width, width)

    def layer(self, x: str, width: int) -> str:
        """Attention and a perceptron, with norms before them."""
        y = self("Add", x, self.attention(self.layer_norm(x, width), 2, width))
        inner = self.gelu(self.linear(self.layer_norm(y, width), width, 2 * width))
        return self("Add", y, self.linear(inner, 2 * width, width))


def resnet50(g: Graph, x: str) -> str:
    x = g("MaxPool", g("Relu", g.conv(x, 3, 16, 7, 2)), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stride, c, n in ((1, 16, 32), (2, 32, 32)):
        y = g("Relu", g.conv(g("Relu", g.conv(x, c, 16, 1)), 16, 16, 3, stride))
        x = g("Relu", g("Add", g.conv(y, 16, n, 1), g.conv(x, c, n, 1, stride)))
    return g.linear(g.mean(x), 32, 10, rank=2)


def mobilenetv2(g: Graph, x: str) -> str:
    x = g.relu6(g.conv(x, 3, 16, 3, 2))
    for _ in range(2):
        wide = g.relu6(g.conv(g.relu6(g.conv(x, 16, 48, 1)), 48, 48, 3, groups=48))
        x = g("Add", x, g.conv(wide, 48, 16, 1))
    return g.linear(g.mean(x), 16, 10, rank=2)


def efficientnet(g: Graph, x: str) -> str:
    x = g.silu(g.conv(x, 3, 16, 3, 2))
    for _ in range(2):
        wide = g.silu(g.conv(g.silu(g.conv(x, 16, 48, 1)), 48, 48, 5, groups=48))
        mean = g("GlobalAveragePool", wide) if g.export.composed else g.reduced(wide, 2, 3)
        gate = g("Sigmoid", g.conv(g.silu(g.conv(mean, 48, 4, 1)), 4, 48, 1))
        x = g("Add", x, g.conv(g("Mul", wide, gate), 48, 16, 1))
    return g.linear(g.mean(x), 16, 10, rank=2)


def unet(g: Graph, x: str) -> str:
    top = g.silu(g.group_norm(g.conv(x, 3, 16, 3), 4, 16))
    low = g.silu(g.conv(g("MaxPool", top, kernel_shape=[2, 2], strides=[2, 2]), 16, 32, 3))
    where = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    high = g("Resize", low, "", g.constant(np.array([1, 1, 2, 2], np.float32)), **where)
    return g.conv(g.silu(g.conv(g("Concat", high, top, axis=1), 48, 16, 3)), 16, 3, 3)


def convnext(g: Graph, x: str) -> str:
    x = g.conv(x, 3, 32, 4, 4, pad=0)
    for _ in range(2):
        rows = g("Transpose", g.conv(x, 32, 32, 7, groups=32), perm=[0, 2, 3, 1])
        inner = g.gelu(g.linear(g.layer_norm(rows, 32), 32, 64))
        x = g("Add", x, g("Transpose", g.linear(inner, 64, 32), perm=[0, 3, 1, 2]))
    return g.linear(g.mean(x), 32, 10, rank=2)


def vit(g: Graph, x: str) -> str:
    patches = g("Reshape", g.conv(x, 3, 32, 8, 8, pad=0), g.ints(0, 32, -1))
    x = g("Add", g("Transpose", patches, perm=[0, 2, 1]), g.weights(16, 32))
    for _ in range(2):
        x = g.layer(x, 32)
    return g.linear(g.reduced(x, 1, keepdims=0), 32, 10, rank=2)


def audio(g: Graph, x: str) -> str:
    """Of one channel of 32 x 32: 32 steps of 32 features."""
    signal = g("Reshape", x, g.ints(0, 96, 32))
    for c in (96, 32):
        where = {"kernel_shape": [3], "pads": [1, 1], "strides": [1 if c == 96 else 2]}
        signal = g.gelu(g("Conv", signal, g.weights(32, c, 3), g.weights(32), **where))
    x = g("Transpose", signal, perm=[0, 2, 1])
    for _ in range(2):
        x = g.layer(x, 32)
    return g.layer_norm(x, 32)


def llama(g: Graph, x: str) -> str:
    x = g("Reshape", x, g.ints(0, 96, 32))
    for _ in range(2):
        normed = _rms_norm(g, x, 32)
        x = g("Add", x, g.attention(normed, 2, 32))
        normed = _rms_norm(g, x, 32)
        gate = g.silu(g("MatMul", normed, g.weights(32, 64)))
        x = g("Add", x, g("MatMul", g("Mul", gate, g("MatMul", normed, g.weights(32, 64))), g.weights(64, 32)))
    table = g("Transpose", g.weights(100, 32), perm=[1, 0])
    return g("MatMul", _rms_norm(g, x, 32), table)


def _rms_norm(g: Graph, x: str, n: int) -> str:
    squares = g.reduced(g("Pow", x, g.number(2)), -1)
    return g("Mul", g("Mul", x, g("Reciprocal", g("Sqrt", g("Add", squares, g.number(1e-6))))), g.weights(n))


FAMILIES: Final[Mapping[str, Callable[[Graph, str], str]]] = {
    "resnet50": resnet50,
    "mobilenetv2": mobilenetv2,
    "efficientnet": efficientnet,
    "unet": unet,
    "convnext": convnext,
    "vit": vit,
    "llama": llama,
    "audio": audio,
}


def exported(family: str, export: Export) -> onnx.ModelProto:
    """The model, from x [batch, 3, 32, 32] to one result."""
    g = Graph(export)
    result = FAMILIES[family](g, "x")
    g.nodes.append(helper.make_node("Identity", [result], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [export.batch, 3, 32, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(g.nodes, family, [x], [y], g.stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", export.opset)], ir_version=10)
