"""A decoder as Llama's in PyTorch: RMSNorm, rotary positions, heads that share keys and values, SwiGLU, and a cache.
What imports this needs PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.frontends.onnx.exporting import OPSET, export


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, self.heads, self.shared = config["hidden_size"], config["heads"], config["key_value_heads"]
        self.size = width // self.heads
        self.q_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(width, self.shared * self.size, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor, past: Any) -> Any:
        batch, length, _ = x.shape

        def split(y: torch.Tensor, heads: int) -> torch.Tensor:
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        query = rotated(split(self.q_proj(x), self.heads), cos, sin)
        key = rotated(split(self.k_proj(x), self.shared), cos, sin)
        key, value = torch.cat([past[0], key], 2), torch.cat([past[1], split(self.v_proj(x), self.shared)], 2)
        keys, values = (self._repeated(y) for y in (key, value))
        scores = query @ keys.transpose(2, 3) / math.sqrt(self.size) + mask
        context = scores.softmax(-1, dtype=torch.float32).to(x.dtype) @ values
        return self.o_proj(context.transpose(1, 2).reshape(batch, length, -1)), (key, value)

    def _repeated(self, y: torch.Tensor) -> torch.Tensor:
        batch, heads, length, size = y.shape
        each = self.heads // heads
        return y[:, :, None].expand(batch, heads, each, length, size).reshape(batch, heads * each, length, size)


class MLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (RMSNorm(config["hidden_size"]) for _ in range(2))
        self.self_attn, self.mlp = Attention(config), MLP(config["hidden_size"], config["intermediate_size"])

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor, past: Any) -> Any:
        held, present = self.self_attn(self.input_layernorm(x), cos, sin, mask, past)
        x = x + held
        return x + self.mlp(self.post_attention_layernorm(x)), present


class Llama(nn.Module):
    """Token ids and their positions, [batch, sequence] of int64, and for each layer caches of keys and values, [batch,
    key_value_heads, past, size], to [batch, sequence, hidden_size] and the caches with what is new behind."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.config = config
        width, size = config["hidden_size"], config["hidden_size"] // config["heads"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["layers"]))
        self.norm = RMSNorm(width)
        self.register_buffer("inv_freq", 1.0 / 10000.0 ** (torch.arange(0, size, 2).float() / size), persistent=False)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.embed_tokens(ids)
        angles = (self.inv_freq[None, :, None] @ positions[:, None, :].to(self.inv_freq.dtype)).transpose(1, 2)
        both = torch.cat((angles, angles), dim=-1)
        cos, sin = both.cos()[:, None], both.sin()[:, None]
        length, total = ids.shape[1], past[0].shape[2] + ids.shape[1]
        mask = torch.full((length, total), torch.finfo(torch.float32).min)
        mask = torch.triu(mask, diagonal=1 + past[0].shape[2])[None, None]
        presents: list[torch.Tensor] = []
        for k, layer in enumerate(self.layers):
            x, present = layer(x, cos, sin, mask, past[2 * k : 2 * k + 2])
            presents += present
        return (self.norm(x), *presents)


def exported(model: Llama, path: str, opset: int = OPSET) -> None:
    """Write a model as ONNX, for any batch, length and cache."""
    config = model.config
    ids = torch.ones(2, 3, dtype=torch.int64)
    both = {0: "batch", 1: "sequence"}
    given, inputs, outputs = [ids, ids], ["input_ids", "position_ids"], ["last_hidden_state"]
    axes: dict[str, dict[int, str]] = dict.fromkeys((*inputs, *outputs), both)
    shape = (2, config["key_value_heads"], 5, config["hidden_size"] // config["heads"])
    for k in range(config["layers"]):
        for word in ("key", "value"):
            given.append(torch.zeros(shape))
            inputs.append(f"past_key_values.{k}.{word}")
            outputs.append(f"present.{k}.{word}")
            axes[inputs[-1]], axes[outputs[-1]] = {0: "batch", 2: "past"}, {0: "batch", 2: "total"}
    export(model, path, given, inputs, outputs, axes, opset)
