"""Reads at fractions of an index, scatters of windows, spectra and determinants: with dims that a call decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest

import tcpx
from tests.frontends.onnx.models import loaded, model_of

RNG = np.random.default_rng(3)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def as_the_reference(text: str, **arrays: np.ndarray) -> None:
    """The evaluator computes what ONNX's reference does."""
    model = model_of(text, 22)
    imported = tcpx.onnx.load(model)
    found: Any = tcpx.evaluate(imported.module, *(arrays[port.name] for port in imported.inputs))
    wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, dict(arrays))
    np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_grid_beyond_the_ends(mode: str, padding: str, aligned: int) -> None:
    node = f'GridSample <mode = "{mode}", padding_mode = "{padding}", align_corners = {aligned}> (x, grid)'
    text = f"f (float[N, C, H, W] x, float[N, A, B, 2] grid) => (float[N, C, A, B] y) {{ y = {node} }}"
    as_the_reference(text, x=draw(2, 3, 5, 4), grid=draw(2, 3, 7, 2) * 1.5)


def test_deformed_windows_of_groups() -> None:
    text = (
        "f (float[N, 4, H, 5] x, float[6, 2, 2, 3] w, float[N, 24, A, B] offset) => (float[N, 6, A, B] y) "
        "{ y = DeformConv <group = 2, offset_group = 2, strides = [2, 1], pads = [1, 1, 1, 1]> (x, w, offset) }"
    )
    sizes = {"A": 3, "B": 5, "H": 4}
    model = model_of(text, 22)
    arrays = {"x": draw(2, 4, 4, 5), "w": draw(6, 2, 2, 3), "offset": draw(2, 24, 3, 5)}
    found: Any = tcpx.evaluate(tcpx.onnx.load(model, sizes=sizes).module, *arrays.values())
    wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, dict(arrays))
    np.testing.assert_allclose(found, wanted[0], rtol=1e-4, atol=1e-4)


def test_regions_need_a_number_of_points() -> None:
    text = (
        "f (float[1, 2, 5, 5] x, float[R, 4] r, int64[R] b) => (float[R, 2, 2, 2] y) {{ y = RoiAlign <{}> (x, r, b) }}"
    )
    with pytest.raises(tcpx.onnx.UnsupportedError, match="`sampling_ratio` is 0"):
        _ = loaded(text.format("output_height = 2, output_width = 2"), 16).module
    x, regions = draw(1, 2, 5, 5), np.array([[0, 0, 4, 4], [-3, 1, 2, 9]], np.float32)
    options = "output_height = 2, output_width = 2, sampling_ratio = 3, spatial_scale = 0.5"
    as_the_reference(text.format(options), x=x, r=regions, b=np.zeros(2, np.int64))


def test_columns_of_any_batch() -> None:
    text = (
        "f (float[N, 12, 6] x) => (float[N, 2, 4, 5] y) <int64[2] image = {4, 5}, int64[2] block = {2, 3}> "
        "{ y = Col2Im <strides = [2, 1], pads = [1, 0, 0, 0]> (x, image, block) }"
    )
    as_the_reference(text, x=draw(3, 12, 6))


def test_frames_of_a_signal_of_any_length() -> None:
    node = "STFT <onesided = 1> (x, step, w)"
    text = f"f (float[N, L, 1] x, float[8] w) => (float[N, F, 5, 2] y) <int64 step = {{3}}> {{ y = {node} }}"
    module = loaded(text, 22).module
    for length in (8, 10, 23):
        as_the_reference(text, x=draw(2, length, 1), w=draw(8))
    with pytest.raises(tcpx.ArgumentError, match="the signal is shorter than a frame"):
        tcpx.evaluate(module, draw(2, 7, 1), draw(8))


def test_determinants() -> None:
    module = loaded("f (float[N, 5, 5] x) => (float[N] y) { y = Det(x) }").module
    x = draw(4, 5, 5)
    x[1] = np.eye(5)[[1, 0, 2, 4, 3]]
    x[2, 3] = x[2, 1]
    x[3] = 0
    found: Any = tcpx.evaluate(module, x)
    np.testing.assert_allclose(found, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-4)


def test_what_is_new_in_a_cache() -> None:
    node = 'TensorScatter <mode = "{}"> (c, u, at)'
    text = f"f (float[N, 5, 2] c, float[N, T, 2] u, int64[N] at) => (float[N, 5, 2] y) {{{{ y = {node} }}}}"
    c, u, at = draw(2, 5, 2), draw(2, 3, 2), np.array([1, 4])
    wanted = c.copy()
    wanted[0, 1:4] = u[0]
    wanted[1, [4, 0, 1]] = u[1]
    np.testing.assert_array_equal(tcpx.evaluate(loaded(text.format("circular"), 24).module, c, u, at), wanted)
    wanted[1] = c[1]
    wanted[1, 4] = u[1, 0]  # what would be behind the end is not written
    np.testing.assert_array_equal(tcpx.evaluate(loaded(text.format("linear"), 24).module, c, u, at), wanted)
    with pytest.raises(tcpx.ArgumentError, match="more is new than the cache has room for"):
        tcpx.evaluate(loaded(text.format("linear"), 24).module, c, draw(2, 6, 2), at)
