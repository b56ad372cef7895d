"""The repository itself: the digits example's data, the packaging, the skip policy."""

from __future__ import annotations

import os
import subprocess
import sys
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


SKIPPING_TESTS = """
import pytest

@pytest.mark.parametrize("k", [1])
def test_skips(k):
    pytest.skip("no GPU here")

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False

def test_passes():
    pass
"""


def run_pytest(folder: Path, allowed: str, test: str, workers: int) -> subprocess.CompletedProcess[str]:
    """Run `test`, beside one test that passes, under this project's conftest and the given list of allowed skips."""
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (folder / "allowed_skips.txt").write_text(f"# comment\n{allowed}\n")
    (folder / "test_it.py").write_text(test)
    (folder / "test_other.py").write_text("def test_passes():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # the conftest imports from `tests`
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("allowed", "status", "workers"),
    [
        ("test_it.py::test_skips*: no * here", 0, 2),
        ("test_it.py::test_skips[*]: no GPU here", 0, 0),
        ("", 1, 2),
        ("test_it.py::test_skips*: another reason", 1, 0),
    ],
)
def test_a_skip_must_be_allowed(tmp_path: Path, allowed: str, status: int, workers: int) -> None:
    run = run_pytest(tmp_path, allowed, SKIPPING_TESTS, workers)
    assert run.returncode == status, run.stdout + run.stderr
    verdict = "allowed" if status == 0 else "NOT ALLOWED"
    assert f"{verdict}: test_it.py::test_skips[1]: no GPU here" in run.stdout
    assert "test_expected_failure: " not in run.stdout


def test_a_skipped_module_must_be_allowed(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "", "import pytest\npytest.importorskip('no_such_module')\n", workers=2)
    assert run.returncode == 1, run.stdout + run.stderr
    assert run.stdout.count("NOT ALLOWED: test_it.py: could not import 'no_such_module'") == 1


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    run = run_pytest(tmp_path, "test_it.py no colon", SKIPPING_TESTS, workers=0)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "allowed_skips.txt:2: required `nodeid-glob: reason-glob`" in run.stderr
