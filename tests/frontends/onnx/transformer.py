"""A small encoder as exporters write it: positions that are cut, masks of numbers, heads by shapes that are computed,
norms and activations in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, VOCABULARY, LONGEST = 16, 2, 37, 32


class Graph:
    """Nodes and weights, by names as PyTorch's exporter gives them."""

    def __init__(self, seed: int) -> None:
        self.rng, self.nodes, self.weights = (
            np.random.default_rng(seed),
            list[onnx.NodeProto](),
            list[onnx.TensorProto](),
        )

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, (0.3 * self.rng.standard_normal(shape)).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.constant(f"ints_{len(self.weights)}", np.array(numbers, np.int64))

    def __call__(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        shown = name or f"/{operator}_{len(self.nodes)}"
        output = f"{shown}_output_0"
        self.nodes.append(helper.make_node(operator, inputs, [output], name=shown, **attributes))
        return output

    def norm(self, x: str, name: str) -> str:
        mean = self("ReduceMean", x, axes=[-1], keepdims=1, name=f"{name}/ReduceMean")
        centred = self("Sub", x, mean, name=f"{name}/Sub")
        square = self("Pow", centred, self.constant(f"{name}.two", np.array(2.0, np.float32)))
        variance = self("ReduceMean", square, axes=[-1], keepdims=1)
        root = self("Sqrt", self("Add", variance, self.constant(f"{name}.eps", np.array(1e-12, np.float32))))
        scaled = self("Mul", self("Div", centred, root), self.weight(f"{name}.weight", HIDDEN))
        return self("Add", scaled, self.weight(f"{name}.bias", HIDDEN), name=f"{name}/Add_1")

    def linear(self, x: str, name: str, inner: int, outer: int) -> str:
        made = self("MatMul", x, self.weight(f"{name}.weight", inner, outer), name=f"{name}/MatMul")
        return self("Add", self.weight(f"{name}.bias", outer), made, name=f"{name}/Add")

    def extent(self, x: str, axis: int) -> str:
        at = self.constant(f"axis_{len(self.weights)}", np.array(axis))
        picked = self("Gather", self("Shape", x), at, axis=0)
        return self("Unsqueeze", picked, self.ints(0))

    def heads(self, x: str, order: list[int]) -> str:
        both = self.extent(x, 0), self.extent(x, 1)
        shape = self("Concat", *both, self.ints(HEADS), self.ints(HIDDEN // HEADS), axis=0)
        return self("Transpose", self("Reshape", x, shape), perm=order)

    def layer(self, x: str, mask: str, name: str) -> str:
        q, k, v = (self.linear(x, f"{name}/attention/{part}", HIDDEN, HIDDEN) for part in ("query", "key", "value"))
        queries, keys = self.heads(q, [0, 2, 1, 3]), self.heads(k, [0, 2, 3, 1])
        scores = self("MatMul", queries, keys, name=f"{name}/attention/MatMul")
        scale = self.constant(f"{name}.scale", np.array((HIDDEN // HEADS) ** 0.5, np.float32))
        masked = self("Add", self("Div", scores, scale), mask)
        weights = self("Softmax", masked, axis=-1, name=f"{name}/attention/Softmax")
        context = self("Transpose", self("MatMul", weights, self.heads(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        shape = self("Concat", self.extent(context, 0), self.extent(context, 1), self.ints(HIDDEN), axis=0)
        merged = self.linear(self("Reshape", context, shape), f"{name}/attention/output", HIDDEN, HIDDEN)
        x = self.norm(self("Add", merged, x), f"{name}/attention/norm")
        wide = self.linear(x, f"{name}/intermediate", HIDDEN, 4 * HIDDEN)
        half = self("Erf", self("Div", wide, self.constant(f"{name}.root", np.array(2**0.5, np.float32))))
        one = self("Add", half, self.constant(f"{name}.one", np.array(1.0, np.float32)))
        gelu = self("Mul", self("Mul", wide, one), self.constant(f"{name}.half", np.array(0.5, np.float32)))
        return self.norm(self("Add", self.linear(gelu, f"{name}/output", 4 * HIDDEN, HIDDEN), x), f"{name}/output/norm")


def encoder(layers: int = 2, seed: int = 0) -> onnx.ModelProto:
    """`ids` and `mask`, [batch, sequence], to `state`, [batch, sequence, 16], and its mean over what is not masked."""
    g = Graph(seed)
    words = g("Gather", g.weight("embeddings.word", VOCABULARY, HIDDEN), "ids", name="/embeddings/word/Gather")
    length = g.extent("ids", 1)
    places = g("Slice", g.constant("positions", np.arange(LONGEST)[None]), g.ints(0), length, g.ints(1))
    x = g("Add", words, g("Gather", g.weight("embeddings.position", LONGEST, HIDDEN), places))
    x = g.norm(x, "/embeddings/norm")
    open_ = g("Unsqueeze", g("Unsqueeze", "mask", g.ints(1)), g.ints(2))
    inverted = g("Sub", g.constant("one", np.array(1.0, np.float32)), g("Cast", open_, to=TensorProto.FLOAT))
    mask = g("Mul", inverted, g.constant("least", np.array(-1e4, np.float32)))
    for k in range(layers):
        x = g.layer(x, mask, f"/layer.{k}")
    kept = g("Cast", g("Expand", g("Unsqueeze", "mask", g.ints(-1)), g("Shape", x)), to=TensorProto.FLOAT)
    total = g("ReduceSum", g("Mul", x, kept), g.ints(1), keepdims=0)
    count = g("Clip", g("ReduceSum", kept, g.ints(1), keepdims=0), g.constant("small", np.array(1e-9, np.float32)))
    g.nodes += [
        helper.make_node("Identity", [x], ["state"]),
        helper.make_node("Div", [total, count], ["pooled"], name="/pooling/Div"),
    ]
    both = ["batch", "sequence"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, both) for name in ("ids", "mask")]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("state", [*both, HIDDEN]), ("pooled", ["batch", HIDDEN]))
    ]
    graph = helper.make_graph(g.nodes, "encoder", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
