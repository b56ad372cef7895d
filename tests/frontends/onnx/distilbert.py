"""DistilBERT in PyTorch, with the names that its weights have everywhere. What imports this needs PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from tests.frontends.onnx.exporting import export_encoder as exported

__all__ = ["DistilBert", "exported"]


class Embeddings(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["dim"]
        self.word_embeddings = nn.Embedding(config["vocab_size"], width)
        self.position_embeddings = nn.Embedding(config["max_position_embeddings"], width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], dtype=torch.int64).unsqueeze(0).expand_as(ids)
        return self.LayerNorm(self.word_embeddings(ids) + self.position_embeddings(positions))


class Attention(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width, self.heads = config["dim"], config["n_heads"]
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        size = width // self.heads

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, -1, self.heads, size).transpose(1, 2)

        query = split(self.q_lin(x)) / math.sqrt(size)
        scores = query @ split(self.k_lin(x)).transpose(2, 3)
        closed = (mask == 0).view(batch, 1, 1, length).expand_as(scores)
        scores = scores.masked_fill(closed, torch.finfo(scores.dtype).min)
        context = scores.softmax(-1) @ split(self.v_lin(x))
        return self.out_lin(context.transpose(1, 2).contiguous().view(batch, -1, width))


class FFN(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.lin1 = nn.Linear(config["dim"], config["hidden_dim"])
        self.lin2 = nn.Linear(config["hidden_dim"], config["dim"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin2(nn.functional.gelu(self.lin1(x)))


class Layer(nn.Module):
    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.attention, self.ffn = Attention(config), FFN(config)
        self.sa_layer_norm, self.output_layer_norm = (nn.LayerNorm(config["dim"], eps=1e-12) for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.sa_layer_norm(self.attention(x, mask) + x)
        return self.output_layer_norm(self.ffn(x) + x)


class DistilBert(nn.Module):
    """Token ids and a mask, both [batch, sequence] of int64, to [batch, sequence, dim] of f32."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.transformer = nn.Module()
        self.transformer.layer = nn.ModuleList(Layer(config) for _ in range(config["n_layers"]))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embeddings(ids)
        for layer in self.transformer.layer:
            x = layer(x, mask)
        return x
