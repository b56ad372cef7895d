"""GPT-2, DistilBERT and a decoder as Llama's, with drawn weights, exported by PyTorch and beside it: at several sizes,
with caches that are handed on, and with caches that are changed in place."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.optional_tools import TORCH

pytestmark = [
    pytest.mark.slow,
    TORCH.needed,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the exporter
    pytest.mark.filterwarnings("ignore:.*Converting a tensor:Warning"),
]

RNG = np.random.default_rng(5)
NARROW = {"n_embd": 32, "n_head": 2, "n_positions": 520, "n_layer": 2, "vocab_size": 61}
GPT2_SMALL = {"n_embd": 768, "n_head": 12, "n_positions": 1024, "n_layer": 12, "vocab_size": 50257}
STEPS = 500


def model_of(name: str, of: str, config: dict[str, int], path: Path, **options: bool) -> Any:
    """A model with drawn weights, written as ONNX."""
    torch, family = import_module("torch"), import_module(f"tests.frontends.onnx.{name}")
    torch.manual_seed(3)
    model = getattr(family, of)(config).eval()
    family.exported(model, str(path), **options)
    return model


def results(model: Any, *arrays: np.ndarray) -> list[np.ndarray]:
    torch = import_module("torch")
    with torch.no_grad():
        found = model(*map(torch.from_numpy, arrays))
    return [part.numpy() for part in (found if isinstance(found, tuple) else (found,))]


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted, rtol=1e-4, atol=1e-4)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check_caches(model: Any, config: dict[str, int], kernel: Any, sizes: list[tuple[int, int, int]]) -> None:
    """Caches as inputs and outputs."""
    heads = config["n_head"]
    for batch, past, length in sizes:
        ids = RNG.integers(0, config["vocab_size"], (batch, length))
        caches = [draw(batch, heads, past, config["n_embd"] // heads) for _ in range(2 * config["n_layer"])]
        for ours, theirs in zip(kernel(ids, *caches), results(model, ids, *caches), strict=True):
            close(ours, theirs)


def check_steps(model: Any, config: dict[str, int], kernel: Any, prompt: int, steps: int, every: int) -> None:
    """A prompt, then token by token on caches that stay where they are."""
    heads, longest = config["n_head"], prompt + steps
    shape = (1, heads, longest, config["n_embd"] // heads)
    caches = [np.zeros(shape, np.float32) for _ in range(2 * config["n_layer"])]
    ids = RNG.integers(0, config["vocab_size"], (1, longest))
    (wanted,) = results(model, ids)
    for start, end in ((0, prompt), *((k, k + 1) for k in range(prompt, longest))):
        logits, *after = kernel(start, ids[:, start:end], *caches)
        assert all(a is b for a, b in zip(after, caches, strict=True))
        if start == 0 or end == longest or start % every == 0:
            close(logits, wanted[:, start:end])


def test_gpt2_of_two_narrow_layers(tmp_path: Path) -> None:
    path = tmp_path / "prefill.onnx"
    model = model_of("gpt2", "GPT2", NARROW, path, cached=False)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    assert kernel.signature.functions == 1
    for batch, length in ((1, 1), (2, 9), (3, 33), (1, 64)):
        ids = RNG.integers(0, 61, (batch, length))
        close(kernel(ids), results(model, ids)[0])
    path = tmp_path / "decode.onnx"
    model = model_of("gpt2", "GPT2", NARROW, path, cached=True)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    check_caches(model, NARROW, kernel, [(1, 1, 1), (2, 9, 3), (1, 63, 1), (3, 33, 1)])
    kernel = tcpx.compile(tcpx.onnx.load(path, state=True).module)
    assert kernel.signature.functions == 1
    assert not [remark for remark in kernel.remarks if not remark.factor]
    check_steps(model, NARROW, kernel, 12, STEPS, 20)


@pytest.mark.timeout(1800)
def test_gpt2_small(tmp_path: Path) -> None:
    """12 layers of 768: prefill of up to 128 tokens, and a token behind 1 to 512."""
    path = tmp_path / "prefill.onnx"
    model = model_of("gpt2", "GPT2", GPT2_SMALL, path, cached=False)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    assert kernel.signature.functions == 1, "all layers are calls of one function"
    for batch, length in ((1, 128), (1, 1), (2, 17)):
        ids = RNG.integers(0, 50257, (batch, length))
        close(kernel(ids), results(model, ids)[0])
    path.unlink()
    path = tmp_path / "decode.onnx"
    model_of("gpt2", "GPT2", GPT2_SMALL, path, cached=True)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    check_caches(model, GPT2_SMALL, kernel, [(1, 1, 1), (1, 64, 1), (1, 512, 1)])


def test_distilbert(tmp_path: Path) -> None:
    """Two layers as wide as those of DistilBERT: the others are the same function."""
    config = {"dim": 768, "n_heads": 12, "hidden_dim": 3072, "n_layers": 2, "vocab_size": 9000}
    path = tmp_path / "model.onnx"
    model = model_of("distilbert", "DistilBert", {**config, "max_position_embeddings": 512}, path)
    kernel = tcpx.compile(tcpx.onnx.load(path).module)
    assert kernel.signature.functions == 1
    for batch, length in ((1, 128), (2, 9), (3, 1), (1, 33)):
        ids, mask = RNG.integers(0, 9000, (batch, length)), np.ones((batch, length), np.int64)
        mask[0, length // 2 + 1 :] = 0
        close(kernel(ids, mask), results(model, ids, mask)[0])


@pytest.mark.parametrize("state", [False, True])
def test_llama(state: bool, tmp_path: Path) -> None:
    """RMSNorm, rotary positions, 8 heads of which 4 share keys and values, SwiGLU."""
    config = {"hidden_size": 256, "heads": 8, "key_value_heads": 2, "intermediate_size": 688, "layers": 2}
    path = tmp_path / "model.onnx"
    model = model_of("llama", "Llama", {**config, "vocab_size": 500}, path)
    kernel = tcpx.compile(tcpx.onnx.load(path, state=state).module)
    assert kernel.signature.functions == 1
    assert not [remark for remark in kernel.remarks if not remark.factor]
    for batch, past, length in ((1, 1, 1), (2, 5, 7), (1, 64, 1), (3, 33, 2), (1, 1, 130)):
        ids = RNG.integers(0, 500, (batch, length))
        places = np.broadcast_to(np.arange(past, past + length), (batch, length)).copy()
        caches = [draw(batch, 2, past, 32) for _ in range(4)]
        wanted = results(model, ids, places, *caches)
        if not state:
            for ours, theirs in zip(kernel(ids, places, *caches), wanted, strict=True):
                close(ours, theirs)
            continue
        wide = [np.concatenate([c, np.zeros((batch, 2, length + 3, 32), np.float32)], 2) for c in caches]
        found: Any = kernel(past, ids, places, *wide)
        close(found[0], wanted[0])
        for ours, theirs in zip(found[1:], wanted[1:], strict=True):
            close(ours[:, :, : past + length], theirs)
