"""MaxPool with the indices of the greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

RNG = np.random.default_rng(0)
FORMS = [
    ("D", "kernel_shape = [3], pads = [1, 1], storage_order = 1", (1,)),
    ("D", "kernel_shape = [3], pads = [1, 1], storage_order = 1", (6,)),
    ("D, E", "kernel_shape = [2, 3], pads = [1, 2, 0, 1], strides = [2, 3], dilations = [1, 2]", (3, 5)),
    ("D, E", "kernel_shape = [2, 3], pads = [1, 2, 0, 1], strides = [2, 3], storage_order = 1", (4, 7)),
    ("4, 5", "kernel_shape = [3, 2], strides = [2, 3], ceil_mode = 1, storage_order = 1", (4, 5)),
    ("5, 4", "kernel_shape = [2, 3], strides = [2, 2], auto_pad = 'SAME_UPPER'", (5, 4)),
    ("D, E, F", "kernel_shape = [2, 1, 2], storage_order = 1", (2, 1, 5)),
]


def text(dims: str, attributes: str, dtype: str = "float") -> str:
    attributes = attributes.replace("'", '"')
    return f"f ({dtype}[N, C, {dims}] x) => ({dtype} y, int64 i) {{ y, i = MaxPool <{attributes}> (x) }}"


def wanted(x: np.ndarray, values: np.ndarray, attributes: str) -> np.ndarray:
    """The index of the first element of each window that is its greatest, NaN if there is one."""
    given: dict[str, Any] = eval(f"dict({attributes})")  # noqa: S307 - the attributes above
    kernel: Sequence[int] = given["kernel_shape"]
    rank = len(kernel)
    strides, dilations = (given.get(name, [1] * rank) for name in ("strides", "dilations"))
    pads = given.get("pads", [0] * rank)
    if "auto_pad" in given:
        missing = [(-(-d // s) - 1) * s + k - d for d, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
        pads = [max(0, m) // 2 for m in missing]
    made = np.zeros(values.shape, np.int64)
    for at in np.ndindex(*values.shape):
        for inner in product(*map(range, kernel)):
            rows = zip(at[2:], strides, inner, dilations, pads[:rank], strict=True)
            place = [o * s + i * d - p for o, s, i, d, p in rows]
            if all(0 <= k < n for k, n in zip(place, x.shape[2:], strict=True)):
                element, best = x[(*at[:2], *place)], values[at]
                if element == best or (np.isnan(element) and np.isnan(best)):
                    order = "F" if given.get("storage_order") else "C"
                    image = (at[0] * x.shape[1] + at[1]) * int(np.prod(x.shape[2:]))
                    made[at] = image + np.ravel_multi_index(place, x.shape[2:], order=order)
                    break
    return made


def agrees(found: Any, x: np.ndarray, attributes: str) -> None:
    values, indices = found
    np.testing.assert_array_equal(indices, wanted(x, values, attributes))
    if "storage_order" not in attributes:
        np.testing.assert_array_equal(x.ravel()[indices], values)


@pytest.mark.parametrize(("dims", "attributes", "sizes"), FORMS)
def test_indices(dims: str, attributes: str, sizes: tuple[int, ...]) -> None:
    module = loaded(text(dims, attributes)).module
    for lead in ((1, 1), (2, 3)):
        x = RNG.choice(
            np.array([-np.inf, -1.0, 0.0, 2.0, np.nan], np.float32), (*lead, *sizes), p=[0.4, 0.2, 0.2, 0.1, 0.1]
        )
        for part in (x, np.full_like(x, -np.inf)):
            agrees(tcpx.evaluate(module, part), part, attributes)


def test_compiled() -> None:
    attributes = "kernel_shape = [2, 2], pads = [1, 0, 0, 1], storage_order = 1"
    kernel = tcpx.compile(loaded(text("5, 7", attributes)).module)
    for lead in ((1, 1), (2, 3)):
        x = RNG.choice(np.array([-np.inf, 0.0, np.nan], np.float32), (*lead, 5, 7), p=[0.6, 0.3, 0.1])
        agrees(kernel(x), x, attributes)
