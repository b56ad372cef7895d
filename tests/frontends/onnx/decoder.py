"""A small decoder as exporters write GPT-2: one product for queries, keys and values, which is cut in three, a causal
mask out of a table, and caches of keys and values that are inputs and, with what is new behind them, outputs."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.frontends.onnx.transformer import HEADS, HIDDEN, LONGEST, VOCABULARY, Graph

SIZE = HIDDEN // HEADS


class Decoder(Graph):
    def scalar(self, name: str, number: float) -> str:
        return self.constant(f"{name}.{len(self.weights)}", np.array(number, np.float32))

    def flat(self, x: str, name: str, inner: int, outer: int) -> str:
        """A Gemm of all rows, as of GPT-2's Conv1D."""
        rows = self("Reshape", x, self.ints(-1, inner), name=f"{name}/Reshape")
        weights = self.weight(f"{name}.weight", inner, outer), self.weight(f"{name}.bias", outer)
        made = self("Gemm", rows, *weights, name=f"{name}/Gemm")
        shape = self("Concat", self.extent(x, 0), self.extent(x, 1), self.ints(outer), axis=0)
        return self("Reshape", made, shape, name=f"{name}/Reshape_1")

    def normed(self, x: str, name: str) -> str:
        return self("LayerNormalization", x, self.weight(f"{name}.weight", HIDDEN), self.weight(f"{name}.bias", HIDDEN),
                    axis=-1, epsilon=1e-5, name=f"{name}/LayerNormalization")  # fmt: skip

    def block(self, x: str, past: tuple[str, str] | None, k: int) -> str:
        name = f"/h.{k}"
        wide = self.flat(self.normed(x, f"{name}/ln_1"), f"{name}/attn/c_attn", HIDDEN, 3 * HIDDEN)
        split = f"{name}/attn/Split"
        parts = [f"{split}_output_{j}" for j in range(3)]
        sizes = self.ints(HIDDEN, HIDDEN, HIDDEN)
        self.nodes.append(helper.make_node("Split", [wide, sizes], parts, name=split, axis=2))
        query, key, value = (self.heads(part, [0, 2, 1, 3]) for part in parts)
        if past is not None:
            outputs = [f"present.{k}.{word}" for word in ("key", "value")]
            for old, new, output in zip(past, (key, value), outputs, strict=True):
                self.nodes.append(helper.make_node("Concat", [old, new], [output], name=f"/{output}/Concat", axis=2))
            key, value = outputs
        turned = self("Transpose", key, perm=[0, 1, 3, 2])
        scores = self("MatMul", query, turned, name=f"{name}/attn/MatMul")
        keys = self.extent(key, 2)
        first = self("Sub", keys, self.extent(query, 2))
        rows = self("Slice", "mask", first, keys, self.ints(2))
        allowed = self("Slice", rows, self.ints(0), keys, self.ints(3))
        least = self.scalar("least", float(np.finfo(np.float32).min))
        masked = self("Where", allowed, self("Div", scores, self.scalar("scale", SIZE**0.5)), least)
        weights = self("Softmax", masked, axis=-1, name=f"{name}/attn/Softmax")
        context = self("Transpose", self("MatMul", weights, value), perm=[0, 2, 1, 3])
        shape = self("Concat", self.extent(context, 0), self.extent(context, 1), self.ints(HIDDEN), axis=0)
        merged = self.flat(self("Reshape", context, shape), f"{name}/attn/c_proj", HIDDEN, HIDDEN)
        x = self("Add", x, merged, name=f"{name}/Add")
        y = self.flat(self.normed(x, f"{name}/ln_2"), f"{name}/mlp/c_fc", HIDDEN, 2 * HIDDEN)
        cube = self("Mul", self("Pow", y, self.scalar("three", 3.0)), self.scalar("part", 0.044715))
        tanh = self("Tanh", self("Mul", self("Add", y, cube), self.scalar("root", 0.7978845608)))
        one = self("Add", tanh, self.scalar("one", 1.0))
        act = self("Mul", self("Mul", y, self.scalar("half", 0.5)), one)
        return self("Add", x, self.flat(act, f"{name}/mlp/c_proj", 2 * HIDDEN, HIDDEN), name=f"{name}/Add_1")


def decoder(*, cached: bool, layers: int = 2, seed: int = 0) -> onnx.ModelProto:
    """`ids` [batch, sequence] to `logits` [batch, sequence, 37]; with caches of [batch, 2, past, 8], to those of
    [batch, 2, past + sequence, 8]. A model has the same weights with and without."""
    g = Decoder(seed)
    g.constant("mask", np.tril(np.ones((1, 1, LONGEST, LONGEST), bool)))
    words = g("Gather", g.weight("wte", VOCABULARY, HIDDEN), "ids", name="/wte/Gather")
    zero, one = (g.constant(name, np.array(n)) for name, n in (("zero", 0), ("one", 1)))
    length = g("Gather", g("Shape", "ids"), one, axis=0)
    start, table = zero, g.weight("wpe", LONGEST, HIDDEN)
    if cached:
        start = g("Gather", g("Shape", "past.0.key"), g.constant("two", np.array(2)), axis=0)
    places = g("Unsqueeze", g("Range", start, g("Add", start, length), one), g.ints(0))
    x = g("Add", words, g("Gather", table, places, name="/wpe/Gather"), name="/Add")
    for k in range(layers):
        x = g.block(x, (f"past.{k}.key", f"past.{k}.value") if cached else None, k)
    last = [g.normed(x, "/ln_f"), g.weight("head", HIDDEN, VOCABULARY)]
    g.nodes.append(helper.make_node("MatMul", last, ["logits"], name="/head"))
    real, both = TensorProto.FLOAT, ["batch", "sequence"]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, both)]
    outputs = [helper.make_tensor_value_info("logits", real, [*both, VOCABULARY])]
    for k in range(layers if cached else 0):
        for word in ("key", "value"):
            old, new = ["batch", HEADS, "past", SIZE], ["batch", HEADS, "past + sequence", SIZE]
            inputs.append(helper.make_tensor_value_info(f"past.{k}.{word}", real, old))
            outputs.append(helper.make_tensor_value_info(f"present.{k}.{word}", real, new))
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
