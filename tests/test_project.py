"""The repository itself: the digits example's data, the packaging."""

from __future__ import annotations

import tomllib
from importlib import metadata, resources
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "examples" / "digits"
LABEL_COUNTS = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
PARAMETER_SHAPES = {"w1": (64, 256), "b1": (256,), "w2": (256, 128), "b2": (128,), "w3": (128, 10), "b3": (10,)}


def test_digits_data_is_whole() -> None:
    with np.load(DIGITS / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    assert images.shape == (1797, 64)
    assert images.dtype == np.uint8
    assert (images.min(), images.max()) == (0, 16)
    assert labels.dtype == np.uint8
    assert np.bincount(labels).tolist() == LABEL_COUNTS


def test_digits_data_carries_its_licence() -> None:
    text = (DIGITS / "DATA_LICENSE.md").read_text(encoding="utf-8")
    for required in ("Alpaydin", "Kaynak", "CC BY 4.0", "BSD 3-Clause"):
        assert required in text


def held_out() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """The rows that train.py left out: pixels / 16, and labels."""
    with np.load(DIGITS / "digits.npz") as data:
        return (data["images"] / np.float32(16)).astype(np.float32)[::5], data["labels"][::5]


def numpy_forward(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    with np.load(DIGITS / "weights.npz") as stored:
        w = dict(stored)
    h = np.maximum(x @ w["w1"] + w["b1"], 0)
    h = np.maximum(h @ w["w2"] + w["b2"], 0)
    powers = np.exp(h @ w["w3"] + w["b3"])
    return powers / powers.sum(axis=1, keepdims=True)


def test_weights_have_the_documented_shapes() -> None:
    with np.load(DIGITS / "weights.npz") as stored:
        assert {name: stored[name].shape for name in stored.files} == PARAMETER_SHAPES
        assert all(stored[name].dtype == np.float32 for name in stored.files)


def test_weights_classify_held_out_rows() -> None:
    x, labels = held_out()
    assert np.mean(np.argmax(numpy_forward(x), axis=1) == labels) >= 0.97


@pytest.mark.parametrize("rows", [0, 1, 7, 360])
def test_digits_payload_computes_what_numpy_does(rows: int) -> None:
    path = DIGITS / "digits.tcp"
    module = parse(path.read_text(encoding="utf-8"), str(path), DIGITS)
    x = held_out()[0][:rows]
    (y,) = evaluate_func(module, module.main, [x])
    np.testing.assert_allclose(np.asarray(y, np.float32), numpy_forward(x), rtol=0, atol=2e-6)


def test_version_is_declared_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == tcpx.__version__ == metadata.version("tcpx")


def test_schedule_library_is_installed_inside_the_package() -> None:
    shipped = {p.relative_to(ROOT / "schedules").as_posix() for p in (ROOT / "schedules").rglob("*.tcps")}
    installed = resources.files("tcpx.schedules")
    assert shipped
    assert all(installed.joinpath(name).is_file() for name in shipped)
