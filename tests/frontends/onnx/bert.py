"""BERT in PyTorch, with the names that its weights have everywhere. What imports this needs PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.frontends.onnx.exporting import export_encoder as exported

__all__ = ["Bert", "Layer", "exported"]


class Embeddings(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["hidden_size"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], width)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], width)
        self.token_type_embeddings = nn.Embedding(config["type_vocab_size"], width)
        self.LayerNorm = nn.LayerNorm(width, eps=config["layer_norm_eps"])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1]).unsqueeze(0)
        types = self.token_type_embeddings(torch.zeros_like(ids))
        return self.LayerNorm(self.word_embeddings(ids) + types + self.position_embeddings(positions))


class SelfAttention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, self.heads = config["hidden_size"], config["num_attention_heads"]
        self.size = width // self.heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(y.shape[0], y.shape[1], self.heads, self.size).transpose(1, 2)

        query, key, value = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.size) + mask
        held = (scores.softmax(-1) @ value).transpose(1, 2)
        return held.reshape(x.shape)


class Output(nn.Module):
    def __init__(self, inner: int, config: dict[str, Any]) -> None:
        super().__init__()
        self.dense = nn.Linear(inner, config["hidden_size"])
        self.LayerNorm = nn.LayerNorm(config["hidden_size"], eps=config["layer_norm_eps"])

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.attention = nn.Module()
        self.attention.self = SelfAttention(config)
        self.attention.output = Output(config["hidden_size"], config)
        self.intermediate = nn.Module()
        self.intermediate.dense = nn.Linear(config["hidden_size"], config["intermediate_size"])
        self.output = Output(config["intermediate_size"], config)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attention.output(self.attention.self(x, mask), x)
        return self.output(nn.functional.gelu(self.intermediate.dense(x)), x)


class Bert(nn.Module):
    """Token ids and a mask, both [batch, sequence] of int64, to [batch, sequence, hidden] of f32."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = nn.Module()
        self.encoder.layer = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embeddings(ids)
        added = (1.0 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        for layer in self.encoder.layer:
            x = layer(x, added)
        return x
