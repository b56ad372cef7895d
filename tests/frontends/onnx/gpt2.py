"""GPT-2 in PyTorch, with the names that its weights have everywhere. What imports this needs PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.frontends.onnx.exporting import OPSET, export

Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Conv1D(nn.Module):
    """A product whose weight is [inner, outer], as GPT-2 keeps it."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(inner, outer))
        self.bias = nn.Parameter(0.02 * torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:-1], self.weight.shape[1])
        return torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight).view(shape)


class Attention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, longest = config["n_embd"], config["n_positions"]
        self.heads, self.size = config["n_head"], width // config["n_head"]
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        mask = torch.tril(torch.ones(longest, longest, dtype=torch.bool))
        self.register_buffer("bias", mask.view(1, 1, longest, longest), persistent=False)

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(y.shape[0], y.shape[1], self.heads, self.size).transpose(1, 2)

        query, key, value = (split(part) for part in self.c_attn(x).split(x.shape[2], dim=2))
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.size)
        queries, keys = query.shape[2], key.shape[2]
        allowed = self.bias[:, :, keys - queries : keys, :keys]
        scores = torch.where(allowed, scores, torch.full([], torch.finfo(torch.float32).min))
        held = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.c_proj(held.reshape(x.shape)), (key, value)


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.c_fc(x)
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = (nn.LayerNorm(config["n_embd"]) for _ in range(2))
        self.attn, self.mlp = Attention(config), MLP(config["n_embd"])

    def forward(self, x: torch.Tensor, past: Any) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        held, present = self.attn(self.ln_1(x), past)
        x = x + held
        return x + self.mlp(self.ln_2(x)), present


class GPT2(nn.Module):
    """Token ids [batch, sequence] of int64, and for each layer a cache of keys and of values, [batch, heads, past,
    head], to logits [batch, sequence, vocabulary] and the caches with what is new behind."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        width = config["n_embd"]
        self.wte, self.wpe = nn.Embedding(config["vocab_size"], width), nn.Embedding(config["n_positions"], width)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)
        self.h = nn.ModuleList(Block(config) for _ in range(config["n_layer"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = past[0].shape[2] if past else 0
        positions = torch.arange(before, before + ids.shape[1]).unsqueeze(0)
        x = self.wte(ids) + self.wpe(positions)
        presents: list[torch.Tensor] = []
        for k, block in enumerate(self.h):
            x, present = block(x, (past[2 * k], past[2 * k + 1]) if past else None)
            presents += present
        logits = self.ln_f(x) @ self.wte.weight.transpose(0, 1)
        return (logits, *presents) if past else (logits,)


def exported(model: GPT2, path: str, *, cached: bool, opset: int = OPSET) -> None:
    """Write a model as ONNX, for any batch and length: without a cache, or with one (`past_key_values.0.key` to
    `present.0.key`, as exporters call them)."""
    config = model.config
    ids = torch.ones(2, 3, dtype=torch.int64)
    axes: dict[str, dict[int, str]] = {"input_ids": {0: "batch", 1: "sequence"}, "logits": {0: "batch", 1: "sequence"}}
    given, inputs, outputs = [ids], ["input_ids"], ["logits"]
    if cached:
        shape = (2, config["n_head"], 5, config["n_embd"] // config["n_head"])
        for k in range(config["n_layer"]):
            for word in ("key", "value"):
                given.append(torch.zeros(shape))
                inputs.append(f"past_key_values.{k}.{word}")
                outputs.append(f"present.{k}.{word}")
                axes[inputs[-1]], axes[outputs[-1]] = {0: "batch", 2: "past"}, {0: "batch", 2: "total"}
    export(model, path, given, inputs, outputs, axes, opset)
