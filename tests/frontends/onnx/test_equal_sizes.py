"""Dims that equal others, dims that the file does not name, and dims that may be 1: what `sizes` says of them."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded, model_of

PRODUCT = "f (float[A, K] x, float[K2, B] w) => (float[A, B] y) { y = MatMul(x, w) }"
PAIRS = [
    (PRODUCT, '"K2": "K"'),
    ("f (float[A, K] x, float[K2, B] w) => (float[A, B] y) { y = Gemm(x, w) }", '"K2": "K"'),
    ("f (float[A, 3] x, float[B, 3] w) => (float[A, 6] y) { y = Concat <axis = 1> (x, w) }", '"B": "A"'),
    ("f (float[A, C] x, float[8] s) => (float[A, C] y) { y = LayerNormalization(x, s) }", '"C": 8'),
    ("f (float[N, 3] x) => (float[3] y) <int64[1] a = {0}> { y = Squeeze(x, a) }", '"N": 1'),
    (
        "f (float[N, 3] x) => (float[A] y) <int64[1] a = {0}, int64 z = {0}, int64 o = {1}> "
        "{ s = Shape(x) d = Gather(s, z) c = Equal(d, o) y = If (c) <then_branch = t () => (float[A] t) "
        "{ t = Squeeze(x, a) }, else_branch = e () => (float[A, B] e) { e = Relu(x) }> }",
        '"N": 1',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), PAIRS)
def test_unequal_dims_become_equal(text: str, said: str) -> None:
    """As if `sizes` said so; in a branch, where `sizes` have to, by the error's fix."""
    name, _, value = said.replace('"', "").partition(": ")
    equal = loaded(text, sizes={name: int(value) if value.isdecimal() else value}).module
    if "If (c)" not in text:
        assert loaded(text).module.text() == equal.text()
        return
    with pytest.raises(tcpx.onnx.OnnxError) as error:
        _ = loaded(text).module
    assert f"sizes={{{said}}}, or --size " in str(error.value)


def test_two_dims_are_one() -> None:
    model = loaded(PRODUCT, sizes={"K2": "K"})
    assert [str(port.type) for port in model.inputs] == ["tensor<[A]x[K]xf32>", "tensor<[K]x[B]xf32>"]
    x, w = np.ones((2, 5), np.float32), np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(tcpx.evaluate(model.module, x, w), x @ w)
    with pytest.raises(tcpx.ArgumentError, match=r"\[K\] = 5 in dim 0"):
        tcpx.evaluate(model.module, x, w[:4])
    numbers = loaded(PRODUCT, sizes={"K2": "K", "K": 5}).inputs
    assert [str(port.type) for port in numbers] == ["tensor<[A]x5xf32>", "tensor<5x[B]xf32>"]
    assert model.specialized(sizes={"K": 5}).inputs == numbers


def test_dims_are_called_as_in_the_file_or_as_in_the_payload() -> None:
    text = "f (float[A, x_] x, float[y_, B] w) => (float[A, B] y) { y = MatMul(x, w) }"
    model = model_of(text)
    for port, index, name in ((0, 1, "unk 12"), (1, 0, "13")):
        model.graph.input[port].type.tensor_type.shape.dim[index].dim_param = name
    for one in ("unk 12", "unk_12"):
        for other in ("13", "_13"):
            inputs = tcpx.onnx.load(model, sizes={one: other}).inputs
            assert str(inputs[0].type) == "tensor<[A]x[_13]xf32>"


def test_equal_dims_are_dims() -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="no dim is called `Q`"):
        _ = loaded(PRODUCT, sizes={"K2": "Q"}).module
    with pytest.raises(tcpx.ArgumentError, match='"K" = "K2" = "K"'):
        _ = loaded(PRODUCT, sizes={"K2": "K", "K": "K2"}).module


def test_dims_without_a_name_are_each_their_own() -> None:
    model = model_of("f (float[N, N] x, float[N] w) => (float[N, N] y) { y = Relu(x) }")
    for port in model.graph.input:
        for dim in port.type.tensor_type.shape.dim:
            dim.dim_param = "?"
    loaded_model = tcpx.onnx.load(model)
    assert [str(port.type) for port in loaded_model.inputs] == ["tensor<[x_0]x[x_1]xf32>", "tensor<[w_0]xf32>"]
    x = np.full((48, 192), -1, np.float32)
    np.testing.assert_array_equal(tcpx.evaluate(loaded_model.module, x, np.zeros(3, np.float32)), 0)


def test_squeeze_without_axes_of_a_dim_that_may_be_1() -> None:
    text = "f (float[N, 1] x) => (float[N] y) { y = Squeeze(x) }"
    module = loaded(text).module
    x = np.arange(3, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(tcpx.evaluate(module, x), x[:, 0])
    with pytest.raises(tcpx.ArgumentError, match=r'sizes=\{"N": 1\}, or --size N=1'):
        tcpx.evaluate(module, x[:1])
    assert np.shape(tcpx.evaluate(loaded(text, sizes={"N": 1}).module, x[:1])) == ()


@pytest.mark.parametrize(
    ("condition", "taken"), [("Greater(d, z)", "tcp.relu"), ("Less(d, o)", "tcp.neg"), ("Equal(d, z)", "tcp.neg")]
)
def test_the_branch_that_the_range_of_a_dim_decides(condition: str, taken: str) -> None:
    text = (
        "f (float[N, 3] x) => (float[A, B] y) <int64 z = {0}, int64 o = {1}> { s = Shape(x) d = Gather(s, z) "
        f"c = {condition} y = If (c) <then_branch = t () => (float[A, B] t) {{ t = Relu(x) }}, "
        "else_branch = e () => (float[A, B] e) { e = Neg(x) }> }"
    )
    assert [op.opcode for op in loaded(text).module.main.body.ops] == [taken, "tcp.return"]


def test_sizes_of_a_payload_may_equal_others() -> None:
    text = "func @f(%x: tensor<[N]xf32>, %y: tensor<[M]xf32>) -> tensor<[N]xf32> symbols [N, M] { tcp.return(%x) }"
    module = tcpx.parse(text)
    x, y = tcpx.random_inputs(module, sizes={"M": "N", "N": 5})
    assert x.shape == y.shape == (5,)
    with pytest.raises(tcpx.ArgumentError, match="a whole number for `M`, or another size that has one"):
        tcpx.random_inputs(module, sizes={"M": "N"})
