"""Convolutions and pools along dims whose sizes a call says: the same numbers as at a size that is known."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import loaded

IMAGE = "f (float[N, 3, D] x, float[4, 3, 3] w, float[4, 3, 2] v) => (float y)"
FORMS = {
    "a last window in part": ("y = MaxPool <kernel_shape = [3], strides = [2], ceil_mode = 1> (x)", {7: 3, 8: 4}),
    "none begins in the padding": (
        "y = MaxPool <kernel_shape = [2], strides = [3], pads = [0, 1], ceil_mode = 1> (x)",
        {6: 2, 7: 3, 8: 3},
    ),
    "averages": ("y = AveragePool <kernel_shape = [3], strides = [2], pads = [1, 1], ceil_mode = 1> (x)", {7: 4, 8: 5}),
    "averages with the padding": (
        "y = AveragePool <kernel_shape = [3], strides = [2], pads = [1, 1], ceil_mode = 1, count_include_pad = 1> (x)",
        {7: 4, 8: 5},
    ),
    "padding for as many": (
        'y = AveragePool <kernel_shape = [4], strides = [3], auto_pad = "SAME_LOWER"> (x)',
        {7: 3, 9: 3},
    ),
    "norms": ('y = LpPool <kernel_shape = [3], strides = [2], p = 3, auto_pad = "SAME_UPPER"> (x)', {7: 4, 8: 4}),
    "a convolution": ('y = Conv <strides = [2], auto_pad = "SAME_UPPER"> (x, w)', {7: 4, 8: 4}),
    "back to the size": (
        "z = Conv <strides = [2], pads = [1, 1]> (x, w) y = ConvTranspose <strides = [2]> (z, v)",
        {7: 8, 8: 8},
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_sizes(name: str) -> None:
    text, counts = FORMS[name]
    symbolic, draw = loaded(f"{IMAGE} {{ {text} }}"), np.random.default_rng(0)
    kernel = tcpx.compile(symbolic.module, target="x86_avx2")
    for size, count in counts.items():
        arrays = {
            key: draw.standard_normal(shape, dtype=np.float32)
            for key, shape in (("x", (2, 3, size)), ("w", (4, 3, 3)), ("v", (4, 3, 2)))
        }
        given = [arrays[port.name] for port in symbolic.inputs]
        fixed = loaded(f"{IMAGE} {{ {text} }}", sizes={"D": size, "N": 2})
        wanted = np.asarray(tcpx.evaluate(fixed.module, *(arrays[port.name] for port in fixed.inputs)), np.float32)
        assert wanted.shape[-1] == count
        for found in (tcpx.evaluate(symbolic.module, *given), kernel(*given)):
            np.testing.assert_allclose(np.asarray(found, np.float32), wanted, rtol=2e-5, atol=1e-6)
