"""magika (1.0.3), which says of what kind a file is: its own model, as tf2onnx writes it, beside ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.kernel_cache import kernel_cache
from tests.optional_tools import MAGIKA, ONNXRUNTIME

pytestmark = [pytest.mark.slow, MAGIKA.needed]

SHA256 = "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c"
PART, BLOCK, PADDING = 1024, 4096, 256
REPOSITORY = Path(__file__).parents[3]
FILES = {
    "README.md": "markdown", "pyproject.toml": "toml", "Makefile": "makefile", "tcpx/api.py": "python",
    "docs/language.md": "markdown", "tests/conftest.py": "python",
}  # fmt: skip


def folder() -> Path:
    found = find_spec("magika")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "models" / "standard_v3_3"


def features(content: bytes) -> np.ndarray:
    """The first and the last 1024 bytes, without blanks at both ends, filled up with 256."""
    first, last = content[:BLOCK].lstrip()[:PART], content[-BLOCK:].rstrip()[-PART:]
    made = np.full(2 * PART, PADDING, np.int32)
    made[: len(first)] = np.frombuffer(first, np.uint8)
    made[2 * PART - len(last) :] = np.frombuffer(last, np.uint8)
    return made


@pytest.fixture(scope="module")
def kernel() -> Any:
    path = folder() / "model.onnx"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == SHA256
    with kernel_cache():
        return tcpx.compile(tcpx.onnx.load(path).module)


def test_kinds_of_files(kernel: Any) -> None:
    labels = json.loads((folder() / "config.min.json").read_text(encoding="utf-8"))["target_labels_space"]
    found = kernel(np.stack([features((REPOSITORY / name).read_bytes()) for name in FILES]))
    assert [labels[k] for k in np.argmax(found, 1)] == list(FILES.values())
    (of_model,) = kernel(features((folder() / "model.onnx").read_bytes())[None])
    assert labels[int(np.argmax(of_model))] == "onnx"


@ONNXRUNTIME.needed
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_beside_onnx_runtime(batch: int, kernel: Any) -> None:
    runtime: Any = import_module("onnxruntime").InferenceSession(str(folder() / "model.onnx"))
    rng = np.random.default_rng(batch)
    files = sorted(path for path in (REPOSITORY / "tests").glob("**/*.py") if path.stat().st_size > 8)
    chosen = [features(files[k].read_bytes()) for k in rng.integers(0, len(files), batch)]
    given = np.stack(chosen)
    given[-1, 100:900] = rng.integers(0, 256, 800)
    (wanted,) = runtime.run(None, {"bytes": given})
    np.testing.assert_allclose(kernel(given), wanted, rtol=1e-4, atol=1e-6)
