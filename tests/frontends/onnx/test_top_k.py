"""TopK: values and indices, of few elements and of all of an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

RNG = np.random.default_rng(0)
SHAPES = ((1, 2), (3, 3), (4, 17))
NUMBERS: dict[str, np.ndarray] = {
    "float": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1e-45], np.float32),
    "double": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -5e-324]),
    "float16": np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5], np.float16),
    "int8": np.array([-128, 127, 0, -1], np.int8),
    "int64": np.array([-(2**63), 2**63 - 1, 0, -1], np.int64),
    "uint64": np.array([0, 1, 2**63, 2**64 - 1], np.uint64),
}


def text(dtype: str, largest: int) -> str:
    return f"""f ({dtype}[N, M] x) => ({dtype} v, int64 i, {dtype} w, int64 j)
    <int64[1] k = {{2}}, int64[1] one = {{1}}> {{
      v, i = TopK <axis = 1, largest = {largest}> (x, k)
      w, j = TopK <axis = -2, largest = {largest}> (x, one)
    }}"""


def top(x: np.ndarray, count: int, axis: int, largest: int) -> list[np.ndarray]:
    """As the reference of ONNX computes it: NaN is the greatest number, and of equal ones the first comes first."""
    place = np.indices(x.shape)[axis]
    order = np.lexsort((-place if largest else place, x), axis=axis)
    at = np.take(np.flip(order, axis) if largest else order, range(count), axis)
    return [np.take_along_axis(x, at, axis), at]


def agrees_with_numpy(found: Any, x: np.ndarray, largest: int) -> None:
    wanted = [*top(x, 2, 1, largest), *top(x, 1, 0, largest)]
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_a_few_elements(dtype: str, largest: int) -> None:
    module = loaded(text(dtype, largest)).module
    for shape in SHAPES:
        for numbers in (NUMBERS[dtype], NUMBERS[dtype][:1], NUMBERS[dtype][:2]):
            x = RNG.choice(numbers, shape)
            agrees_with_numpy(tcpx.evaluate(module, x), x, largest)


def test_compiled() -> None:
    kernel = tcpx.compile(loaded(text("float", 0)).module)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    for shape in SHAPES:
        x = RNG.choice(NUMBERS["float"], shape)
        agrees_with_numpy(kernel(x), x, 0)
    with pytest.raises(tcpx.ArgumentError, match="an axis has the 2 elements asked for"):
        kernel(np.zeros((3, 1), np.float32))


@pytest.mark.parametrize(
    ("extent", "count", "message"),
    [
        ("3", 4, "the number of elements"),
        ("3", -1, "the number of elements"),
    ],
)
def test_what_is_refused(extent: str, count: int, message: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=message):
        _ = loaded(
            f"f (float[{extent}] x) => (float v, int64 i) <int64[1] k = {{{count}}}> {{ v, i = TopK(x, k) }}"
        ).module


def test_none_of_the_elements() -> None:
    module = loaded(
        "f (float[3, N] x) => (float v, int64 i) <int64[1] k = {0}> { v, i = TopK <axis = 0> (x, k) }"
    ).module
    found: Any = tcpx.evaluate(module, np.zeros((3, 5), np.float32))
    assert [array.shape for array in found] == [(0, 5), (0, 5)]


def test_as_many_as_a_size_says() -> None:
    """All of an axis, as exporters write a sort; and as many as another input is long."""
    module = loaded("""f (float[N, M] x, float[K] y) => (float v, int64 i, float w, int64 j) {
      shape = Shape <start = 1> (x)
      v, i = TopK <axis = 1, largest = 0> (x, shape)
      count = Shape (y)
      w, j = TopK <axis = 0> (x, count)
    }""").module
    for rows, columns, count in ((3, 5, 2), (2, 70, 1), (70, 2, 70)):
        x = RNG.choice(NUMBERS["float"], (rows, columns))
        wanted = [*top(x, columns, 1, 0), *top(x, count, 0, 1)]
        for ours, theirs in zip(tcpx.evaluate(module, x, np.zeros(count, np.float32)), wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(tcpx.ArgumentError, match="elements asked for"):
        tcpx.evaluate(module, np.zeros((3, 2), np.float32), np.zeros(4, np.float32))
