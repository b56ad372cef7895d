"""Operators of opsets below 7: what they mean there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tcpx
from tests.frontends.onnx.models import loaded

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7
B = np.arange(3, dtype=np.float32) + 2
SLOPES = np.outer([1, 2], B).astype(np.float32)
CASES = [
    (6, "x, float[3] b", "Add <axis = 1, broadcast = 1> (x, b)", X + B[:, None]),
    (6, "x, float[2, 3] b", "Mul <axis = 0, broadcast = 1> (x, b)", X * SLOPES[..., None]),
    (1, "x, float[1] b", "Sub <broadcast = 1> (x, b)", X - 2),
    (6, "x, float[1] b", "PRelu (x, b)", np.where(X < 0, X * 2, X)),
    (6, "x, float[3] b", "PRelu (x, b)", np.where(X < 0, X * B[:, None], X)),
    (1, "x", "Relu <consumed_inputs = [0]> (x)", np.maximum(X, 0)),
    (1, "x", "Cast <to = \"INT32\"> (x)", X.astype(np.int32)),
    (1, "x", "Pad <paddings = [0, 1, 0, 0, 0, 2]> (x)", np.pad(X, ((0, 0), (1, 0), (0, 2)))),
    (1, "x", "Tile (x, count, axis)", np.tile(X, (1, 2, 1))),
    (1, "x", "Reshape <shape = [0, -1]> (x)", X.reshape(2, 12)),
    (1, "x", "Concat (x, x)", np.concatenate([X, X], 1)),
    (6, "x", "Dropout <is_test = 1> (x)", X),
    (6, "x", "Dropout <ratio = 0.0> (x)", X),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "inputs", "node", "wanted"), CASES, ids=[case[2] for case in CASES])
def test_an_old_operator(opset: int, inputs: str, node: str, wanted: np.ndarray) -> None:
    text = f"f (float[2, 3, 4] {inputs}) => (float[N] y) <int64 count = {{2}}, int64 axis = {{1}}> {{ y = {node} }}"
    module = loaded(text, opset).module
    given = [X, SLOPES if "[2, 3]" in inputs else B][: len(module.main.args)]
    if "float[1] b" in inputs:
        given[1] = B[:1]
    np.testing.assert_array_equal(tcpx.evaluate(module, *given), wanted)


def test_batch_normalization_that_says_it_does_not_train() -> None:
    text = "f (float[2, 3] x, float[3] s) => (float[2, 3] y) {{ y = BatchNormalization <{}> (x, s, s, s, s) }}"
    x = X[:, :, 0]
    found: Any = tcpx.evaluate(loaded(text.format("is_test = 1"), 6).module, x, B)
    np.testing.assert_allclose(found, (x - B) / np.sqrt(B + 1e-5) * B + B, rtol=1e-6)
    with pytest.raises(tcpx.onnx.UnsupportedError, match="that trains: `is_test` is 0"):
        _ = loaded(text.format("epsilon = 0.1"), 6).module


def test_operands_of_other_shapes_need_the_attribute() -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="without `broadcast`, operands have one shape") as error:
        _ = loaded("f (float[2, 3] x, float[3] b) => (float[2, 3] y) { y = Add(x, b) }", 6).module
    assert (error.value.diagnostic.required, error.value.diagnostic.found) == ("[2, 3]", "[3]")


def test_an_upsampling_by_height_and_width() -> None:
    node = helper.make_node("Upsample", ["x"], ["y"], height_scale=2.0, width_scale=3.0)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "f", [x], [y]), opset_imports=[helper.make_opsetid("", 1)])
    found = tcpx.evaluate(tcpx.onnx.load(model).module, X[None])
    np.testing.assert_array_equal(found, X[None].repeat(2, 2).repeat(3, 3))
