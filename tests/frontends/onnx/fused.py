"""Operators that ONNX Runtime's optimizer writes: models of one node, and what each means, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import erf
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

DOMAIN = "com.microsoft"
Array = np.ndarray
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A node, its operands by their places, None for what is left out; the results that it has to have, None for those
    that are not asked for; which operands are stored, and which extents are symbols in a second model."""

    name: str
    operator: str
    operands: Sequence[Array | None]
    wanted: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stored: Sequence[int] = ()
    symbols: Mapping[int, str] = field(default_factory=dict[int, str])
    domain: str = DOMAIN
    opset: int = 17
    runtime: bool = True
    """Whether ONNX Runtime computes it, on CPUs."""

    def model(self, symbolic: bool = False) -> onnx.ModelProto:
        """A model of the node alone."""
        names = [f"x{k}" if x is not None else "" for k, x in enumerate(self.operands)]
        held = [(k, x) for k, x in enumerate(self.operands) if x is not None]
        free = [(k, x) for k, x in held if k not in self.stored]
        symbols = self.symbols if symbolic else {}
        inputs = [
            helper.make_tensor_value_info(
                names[k], helper.np_dtype_to_tensor_dtype(x.dtype), [symbols.get(d, d) for d in x.shape]
            )
            for k, x in free
        ]
        results = [f"y{k}" if y is not None else "" for k, y in enumerate(self.wanted)]
        outputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(y.dtype), None)
            for name, y in zip(results, self.wanted, strict=True)
            if y is not None
        ]
        node = helper.make_node(self.operator, names, results, "node", domain=self.domain, **self.attributes)
        weights = [numpy_helper.from_array(x, names[k]) for k, x in held if k in self.stored]
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(DOMAIN, 1)]
        graph = helper.make_graph([node], "fused", inputs, outputs, weights)
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    @property
    def arguments(self) -> dict[str, Array]:
        """The operands that are inputs of the model, by name."""
        held = enumerate(self.operands)
        return {f"x{k}": x for k, x in held if x is not None and k not in self.stored}


def draw(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def f32(x: Array) -> Array:
    return x.astype(np.float32)


def wide(x: Array) -> Array:
    return x.astype(np.float64)


def int32(*numbers: object) -> Array:
    return np.array(numbers, np.int32)


# ------------------------------------------------------------ what they mean


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def tanh_gelu(x: Array) -> Array:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def layer_norm(x: Array, gamma: Array, beta: Array | float, epsilon: float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma + beta


def rms_norm(x: Array, gamma: Array, epsilon: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


# ------------------------------------------------------------ activations, norms, products

B, S, H = 3, 5, 7
SIZES = {B: "batch", S: "length"}


def elementwise() -> list[Case]:
    x, bias = draw(B, S, H), draw(H)
    both, pair = x + bias, draw(B, S, 2 * H)
    wider = draw(2 * H)
    left, right = np.split(pair + wider, 2, -1)
    skip = draw(B, S, H)

    def of(operator: str, operands: Sequence[Array], wanted: Array, name: str = "", **attributes: Any) -> Case:
        return Case(name or operator, operator, operands, [f32(wanted)], attributes, symbols=SIZES)

    return [
        of("Gelu", [x], gelu(x)),
        of("FastGelu", [x], tanh_gelu(x)),
        of("FastGelu", [x, bias], tanh_gelu(both), "FastGelu of a sum"),
        of("BiasGelu", [x, bias], gelu(both)),
        of("QuickGelu", [x], x / (1 + np.exp(-0.5 * x)), alpha=0.5),
        of("QuickGelu", [x], x / (1 + np.exp(-1.702 * x)), "QuickGelu as usual"),
        Case("BiasSplitGelu", "BiasSplitGelu", [pair, wider], [f32(left * gelu(right))], runtime=False),
        Case("BiasAdd", "BiasAdd", [x, bias, skip], [x + bias + skip], runtime=False),
    ]


def norms() -> list[Case]:
    x, skip, gamma, beta, bias = draw(B, S, H), draw(B, S, H), draw(H), draw(H), draw(H)
    both, all_ = wide(x) + skip, wide(x) + skip + bias
    skipped, simple = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
    found = [
        Case("a sum", skipped, [x, skip, gamma, beta], [f32(layer_norm(both, gamma, beta, 1e-12))], symbols=SIZES),
        Case(
            "a sum with bias, which is a result",
            skipped,
            [x, skip, gamma, beta, bias],
            [f32(layer_norm(all_, gamma, beta, 1e-3)), None, None, f32(all_)],
            {"epsilon": 1e-3},
        ),
        Case(
            "a sum without beta, of positions",
            skipped,
            [x, skip[0], gamma, None, bias],
            [f32(layer_norm(wide(x) + skip[0] + bias, gamma, 0, 1e-12))],
            symbols=SIZES,
        ),
        Case(
            "a sum by its mean of squares",
            simple,
            [x, skip, gamma, bias],
            [f32(rms_norm(all_, gamma, 1e-12)), None, None, f32(all_)],
            symbols=SIZES,
        ),
        Case(
            "mean of squares",
            "SimplifiedLayerNormalization",
            [x, gamma],
            [f32(rms_norm(x, gamma, 1e-4)), f32(1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-4))],
            {"epsilon": 1e-4},
            symbols=SIZES,
            domain="",
        ),
        Case(
            "of an older opset",
            "LayerNormalization",
            [x, gamma, beta],
            [f32(layer_norm(wide(x), gamma, beta, 1e-5))],
            domain="",
            opset=12,
        ),
    ]
    statistics = both.mean(-1, keepdims=True), 1 / np.sqrt(both.var(-1, keepdims=True) + 1e-3)
    wanted = [f32(layer_norm(both, gamma, 0, 1e-3)), *map(f32, statistics)]
    return [
        *found,
        Case("a sum, mean and deviation", skipped, [x, skip, gamma], wanted, {"epsilon": 1e-3}, runtime=False),
    ]


def embeddings() -> list[Case]:
    words, places, kinds, gamma, beta = draw(11, H), draw(9, H), draw(2, H), draw(H), draw(H)
    ids, segments = (RNG.integers(0, most, (B, S)).astype(np.int32) for most in (11, 2))
    mask = int32([1, 1, 1, 0, 0], [1] * 5, [1, 0, 0, 0, 0])
    at = RNG.integers(0, 9, (1, S)).astype(np.int32)
    whole = wide(words)[ids] + places[:S] + kinds[segments]
    plain = wide(words)[ids] + places[at]
    operator, stored = "EmbedLayerNormalization", (2, 3, 4, 5, 6)
    return [
        Case(
            "with segments and a mask", operator, [ids, segments, words, places, kinds, gamma, beta, mask],
            [f32(layer_norm(whole, gamma, beta, 1e-12)), mask.sum(1, dtype=np.int32), f32(whole)],
            stored=stored, symbols=SIZES,
        ),
        Case(
            "with positions", operator, [ids, None, words, places, None, gamma, beta, None, at],
            [f32(layer_norm(plain, gamma, beta, 1e-3)), np.zeros(B, np.int32)],
            {"epsilon": 1e-3}, stored, SIZES,
        ),
    ]  # fmt: skip


def products() -> list[Case]:
    a, b = draw(2, 3, 5, 7), draw(2, 3, 7, 4)
    found: list[Case] = []
    for left in (0, 1):
        for right in (0, 1):
            operands = [np.ascontiguousarray(x.swapaxes(2, 3)) if t else x for x, t in ((a, left), (b, right))]
            given = {"transA": left, "transB": right, "alpha": 0.3}
            name = f"product {left}{right}"
            found.append(Case(name, "FusedMatMul", operands, [f32(wide(a) @ b * 0.3)], given, symbols={5: "rows"}))
            moved = [np.ascontiguousarray(np.moveaxis(x, 2, 0)) if t else x for x, t in ((a, left), (b, right))]
            given = {"transBatchA": left, "transBatchB": right}
            found.append(Case(f"{name} of batches", "FusedMatMul", moved, [f32(wide(a) @ b)], given))
    return found


CASES = [case for family in (elementwise, norms, embeddings, products) for case in family()]
