"""Transposed convolutions are one operation, which is a convolution for each phase."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

Array = npt.NDArray[np.float32]


def scattered(x: Array, w: Array, strides: Sequence[int], pads: Sequence[int], more: Sequence[int]) -> Array:
    """Each element of x adds a window of the result, whose borders are cut off."""
    kernel, spatial = w.shape[2:], x.shape[2:]
    whole = [(n - 1) * s + k + o for n, s, k, o in zip(spatial, strides, kernel, more, strict=True)]
    made = np.zeros((x.shape[0], w.shape[1], *whole), np.float32)
    for place in product(*map(range, spatial)):
        window = [slice(p * s, p * s + k) for p, s, k in zip(place, strides, kernel, strict=True)]
        made[:, :, *window] += np.tensordot(x[:, :, *place], w, 1)
    return made[:, :, *[slice(p, n - p) for p, n in zip(pads, whole, strict=True)]]


CASES = [  # kernel, strides, pads, output_padding
    ((2, 2), (2, 2), (0, 0), (0, 0)),
    ((4, 4), (2, 2), (1, 1), (0, 0)),
    ((6, 3), (2, 3), (2, 0), (0, 0)),
    ((4, 2), (2, 1), (3, 0), (0, 0)),
    ((4, 2), (2, 1), (3, 1), (0, 0)),
    ((3, 3), (2, 2), (1, 1), (1, 1)),
    ((4,), (4,), (0,), (0,)),
    ((2, 2, 4), (2, 2, 2), (0, 0, 1), (0, 0, 0)),
]


@pytest.mark.parametrize(("kernel", "strides", "pads", "more"), CASES)
@pytest.mark.parametrize("first", ["4", "N"])
def test_as_scattered(
    first: str,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    more: Sequence[int],
) -> None:
    spatial = [first, *["5"] * (len(kernel) - 1)]
    attributes = f"strides = {list(strides)}, pads = {[*pads, *pads]}, output_padding = {list(more)}"
    model = loaded(
        f"f (float[2, 3, {', '.join(spatial)}] x, float[3, 2, {', '.join(map(str, kernel))}] w) => (float y) {{ "
        f"y = ConvTranspose <{attributes}> (x, w) }}"
    )
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (2, 3, 4, *[5] * (len(kernel) - 1))).astype(np.float32)
    w = draw.uniform(-1, 1, (3, 2, *kernel)).astype(np.float32)
    assert model.module.text().count("tcp.convolution_transpose(") == 1
    found = tcpx.evaluate(model.module, x, w)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found.astype(np.float32), scattered(x, w, strides, pads, more), rtol=1e-4, atol=1e-5)
