"""Operators whose operands decide the shape of the result: of arrays that are known when the model is imported."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

TEXT = "f (float[3] x) => (int64[N] y) <int64[2, 3] w = {{0, 5, 0, 7, 0, 5}}, int64 s = {{2}}> {{ {} }}"


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ("y = NonZero(w)", [[0, 1, 1], [1, 0, 2]]),
        ("y = NonZero(s)", np.empty((0, 1), np.int64)),
        ("y = Unique(w)", [0, 5, 7]),
        ("y = Unique <sorted = 0> (w)", [0, 5, 7]),
        ("u, f, y, c = Unique(w)", [0, 1, 0, 2, 0, 1]),
        ("u, f, i, y = Unique(w)", [3, 2, 1]),
        ("y = Unique <axis = 1> (w)", [[0, 0, 5], [5, 7, 0]]),
        ("y, f = Unique <axis = 1, sorted = 0> (w)", [[0, 5, 0], [7, 0, 5]]),
    ],
)
def test_the_result_is_known(nodes: str, wanted: np.ndarray) -> None:
    found = tcpx.evaluate(loaded(TEXT.format(nodes)).module, np.zeros(3, np.float32))
    np.testing.assert_array_equal(found, wanted)


def test_a_list_that_is_an_input_has_to_be_constant() -> None:
    model = loaded("f (int64[3] x) => (int64[N] y) { y = Unique(x) }")
    assert model.needs == ("x",)
    given = model.specialized({"x": np.array([4, 1, 4])})
    np.testing.assert_array_equal(tcpx.evaluate(given.module), [1, 4])


def test_data_decide_no_shape() -> None:
    with pytest.raises(tcpx.onnx.UnsupportedError, match="NonZero `y`: the shape of its result depends on data"):
        _ = loaded("f (float[2, 3] x) => (int64[2, N] y) { y = NonZero(x) }").module


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("Reshape(x, s)", "0 stands for a dim of the operand"),
        ("Reshape <allowzero = 1> (x, s)", "what -1 stands for is not known beside 0"),
    ],
)
def test_a_reshape_that_leaves_its_shape_open(node: str, message: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=message):
        _ = loaded(f"f (float[6] x) => (float[A, B] y) <int64[2] s = {{-1, 0}}> {{ y = {node} }}").module


INFINITE = np.array([-np.inf, -3, 0, 3, np.inf, np.nan], np.float32)
LARGEST = np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("node", "opset", "first", "last"),
    [
        ("HardSwish(x)", 17, np.nan, np.inf),
        ("Swish(x)", 24, np.nan, np.inf),
        ("Clip(x)", 6, -LARGEST, LARGEST),
        ("Clip(x)", 11, -np.inf, np.inf),
    ],
)
def test_infinities(node: str, opset: int, first: float, last: float) -> None:
    found = tcpx.evaluate(loaded(f"f (float[6] x) => (float[6] y) {{ y = {node} }}", opset).module, INFINITE)
    np.testing.assert_array_equal(np.asarray(found)[[0, 2, 4, 5]], [first, 0, last, np.nan])
