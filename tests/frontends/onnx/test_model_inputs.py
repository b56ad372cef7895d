"""What is given to a model by name: dims with names that are alike, constants that are inputs, unknown names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from onnx import numpy_helper

import tcpx
from tests.frontends.onnx.models import agrees, loaded, model_of

RNG = np.random.default_rng(0)
PRODUCT = "f (float[n, 3] x, float[3, 4] w) => (float[n, 4] y) { y = MatMul(x, w) }"


def _with_a_default() -> tcpx.onnx.Model:
    """Of which the input `w` has a value that a call may replace."""
    proto = model_of(PRODUCT)
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((3, 4), np.float32), "w"))
    return tcpx.onnx.load(proto)


def test_dims_whose_names_are_alike() -> None:
    """`a b` and `a-b` are two dims, and so are a dim that the file calls `x_1` and one without a name."""
    proto = model_of("f (float[P, Q] x, float[R] z) => (float[P, Q] y, float[R] u) { y = Neg(x) u = Neg(z) }")
    for port, names in zip(proto.graph.input, (("a b", ""), ("x_1",)), strict=True):
        for dim, name in zip(port.type.tensor_type.shape.dim, names, strict=True):
            dim.dim_param = name
    for port in proto.graph.output:
        port.type.tensor_type.ClearField("shape")
    assert [s.name for s in tcpx.onnx.load(proto).module.main.symbols] == ["a_b", "x_1_", "x_1"]
    agrees(proto, x=RNG.standard_normal((2, 5)).astype(np.float32), z=RNG.standard_normal(3).astype(np.float32))
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "a-b"
    assert [s.name for s in tcpx.onnx.load(proto).module.main.symbols] == ["a_b", "a_b_", "x_1"]


def test_dims_that_are_called_like_inputs() -> None:
    agrees(
        model_of("f (float[n, x] x, float[x, y] y) => (float[n, y] z) { z = MatMul(x, y) }"),
        x=RNG.standard_normal((2, 5)).astype(np.float32),
        y=RNG.standard_normal((5, 3)).astype(np.float32),
    )


def test_names_that_a_model_does_not_have() -> None:
    session, x = tcpx.onnx.Session(loaded(PRODUCT)), np.ones((2, 3), np.float32)
    with pytest.raises(tcpx.ArgumentError, match="the model has no input `mask`") as error:
        session({"x": x, "w": np.ones((3, 4), np.float32), "mask": x})
    assert error.value.diagnostic.required == "arrays for x, w"
    with pytest.raises(tcpx.onnx.OnnxError, match="no dim is called `m`") as wrong:
        _ = loaded(PRODUCT, sizes={"m": 2}).module
    assert (wrong.value.diagnostic.required, wrong.value.diagnostic.found) == ("one of n", "m")


def test_an_input_with_a_default() -> None:
    """It is a constant; another value of it is said before the model is compiled, and never left out in silence."""
    model, x, w = _with_a_default(), np.ones((2, 3), np.float32), np.full((3, 4), 2, np.float32)
    np.testing.assert_array_equal(tcpx.onnx.Session(model)({"x": x})["y"], np.full((2, 4), 3))
    with pytest.raises(tcpx.ArgumentError, match="`w` is a constant of the model") as error:
        tcpx.onnx.Session(model)({"x": x, "w": w})
    assert error.value.diagnostic.fix == 'model.specialized({"w": value})'
    np.testing.assert_array_equal(tcpx.onnx.Session(model.specialized({"w": w}))({"x": x})["y"], np.full((2, 4), 6))


@pytest.mark.parametrize(
    ("value", "required", "found"),
    [
        (np.ones((3, 4)), "dtype float32", "float64 of shape (3, 4)"),
        (np.ones((4, 3), np.float32), "shape [3, 4]", "float32 of shape (4, 3)"),
        (np.ones(12, np.float32), "shape [3, 4]", "float32 of shape (12,)"),
    ],
)
def test_values_that_are_no_such_input(value: ArrayLike, required: str, found: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="the input `w` is another array") as error:
        _with_a_default().specialized({"w": np.asarray(value)})
    assert (error.value.diagnostic.required, error.value.diagnostic.found) == (required, found)


@pytest.mark.parametrize("number", [-1, 2.5, "3"])
def test_numbers_that_are_no_sizes(number: Any) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="`n` has no such size") as found:
        loaded(PRODUCT, sizes={"n": number})
    assert found.value.diagnostic.found == str(number)


def test_numbers_that_are_no_capacity() -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="no cache has this capacity") as error:
        tcpx.onnx.load(model_of(PRODUCT), capacity=8)
    assert error.value.diagnostic.found == "capacity=8 without state"


def test_dims_that_are_not_broadcast() -> None:
    """The error shows the node."""
    session = tcpx.onnx.Session(loaded("f (float[n] x, float[m] y) => (float z) { [sum] z = Add(x, y) }"))
    with pytest.raises(tcpx.ArgumentError, match="is 1, or as long as what it becomes") as error:
        session({"x": np.ones(2, np.float32), "y": np.ones(3, np.float32)})
    place = error.value.diagnostic.payload
    assert place is not None
    assert place.text == "sum: z = Add(x, y)"
