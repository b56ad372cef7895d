"""Causal attention in PyTorch, as models write it. What imports this needs PyTorch."""

from __future__ import annotations

import torch
from torch import nn

LONGEST, SCALE = 64, 8**0.5


class Library(nn.Module):
    """`scaled_dot_product_attention`, which knows that it is causal."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Truth(nn.Module):
    """The same by a mask of truth values, from positions."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        at = torch.arange(q.shape[2])
        mask = at[None, :] <= at[:, None]
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None])


class Buffer(nn.Module):
    """A triangle that is a buffer, as in GPT-2: of numbers and -inf, or of truth values and the least number."""

    def __init__(self, truth: bool) -> None:
        super().__init__()
        rows = torch.tril(torch.ones(LONGEST, LONGEST, dtype=torch.bool if truth else torch.float32))
        self.register_buffer("bias", rows.view(1, 1, LONGEST, LONGEST))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n = q.shape[2]
        scores = q @ k.transpose(-1, -2) / SCALE
        kept = self.bias[:, :, :n, :n]
        if kept.dtype == torch.bool:
            scores = torch.where(kept, scores, torch.full([], torch.finfo(scores.dtype).min))
        else:
            scores = scores.masked_fill(kept == 0, float("-inf"))
        return scores.softmax(-1) @ v


class Added(nn.Module):
    """The least number, added above the diagonal."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n = q.shape[2]
        mask = torch.full((n, n), torch.finfo(q.dtype).min).triu(1)
        return (q @ k.transpose(-1, -2) / SCALE + mask).softmax(-1) @ v


MODELS = {
    "library": Library,
    "truth": Truth,
    "buffer of numbers": lambda: Buffer(False),
    "buffer of truth": lambda: Buffer(True),
    "added": Added,
}


def exported(model: nn.Module, path: str) -> None:
    """Write a model of queries, keys and values [B, 3, S, 8] as ONNX."""
    given = torch.zeros(2, 3, 9, 8)
    axes = {0: "B", 2: "S"}
    torch.onnx.export(
        model.eval(),
        (given, given, given),
        path,
        input_names=list("qkv"),
        output_names=["o"],
        dynamic_axes=dict.fromkeys("qkvo", axes),
        opset_version=17,
        dynamo=False,
    )
