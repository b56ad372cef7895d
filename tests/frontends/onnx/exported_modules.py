"""Small modules of PyTorch, and their exports by both exporters. What imports this needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, groups=4), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(8, 5),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0])


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(17, 8)
        self.head = nn.Linear(8, 17)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        weights = (ids != 0).unsqueeze(-1).to(x.dtype)
        pooled = (x * weights).sum(1) / weights.sum(1).clamp(min=1)
        return torch.log_softmax(self.head(pooled), -1)


class Resampled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return torch.cat([up, nn.functional.pad(x, (1, 1, 1, 1), mode="constant").repeat(1, 1, 2, 2)[:, :, :8, :12]], 1)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.up(x).chunk(2, -1)
        return x + self.down(nn.functional.silu(a) * nn.functional.gelu(b, approximate="tanh"))


class Windows(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        folded = x[:, : t // 2 * 2].reshape(b, t // 2, 2, c)
        mean, std = folded.mean(2), folded.std(2, unbiased=False)
        return torch.where(mean > 0, mean, std).transpose(1, 2).softmax(-1)


class Indexed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        order = torch.arange(x.shape[1], device=x.device)
        mask = order[:, None] >= order[None, :]
        scores = torch.matmul(x, x.transpose(1, 2)).masked_fill(~mask, -1e9)
        return torch.einsum("bij,bjc->bic", scores.softmax(-1), x.flip(1)).argmax(-1)


@dataclass(frozen=True)
class Case:
    """A module, an input of a shape, the names of its dims that a call decides, and the shape of another call."""

    module: Callable[[], nn.Module]
    shape: tuple[int, ...]
    dynamic: dict[int, str]
    other: tuple[int, ...]
    most: int = 0
    """Inputs are integers below this, if it is not 0."""

    def drawn(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.randint(self.most, tuple(shape)) if self.most else torch.randn(tuple(shape))


CASES = {
    "convolutions": Case(Convolutions, (2, 3, 8, 10), {0: "batch"}, (3, 3, 8, 10)),
    "attention": Case(Attention, (2, 5, 16), {0: "batch"}, (3, 5, 16)),
    "recurrent": Case(Recurrent, (2, 5, 6), {0: "batch"}, (3, 5, 6)),
    "words": Case(Words, (2, 5), {0: "batch", 1: "length"}, (3, 7), 17),
    "resampled": Case(Resampled, (2, 3, 4, 6), {0: "batch"}, (3, 3, 4, 6)),
    "gated": Case(Gated, (2, 5, 8), {0: "batch", 1: "length"}, (3, 7, 8)),
    "windows": Case(Windows, (2, 6, 4), {0: "batch"}, (3, 6, 4)),
    "indexed": Case(Indexed, (2, 5, 4), {0: "batch", 1: "length"}, (3, 6, 4)),
}  # fmt: skip


@dataclass(frozen=True)
class Export:
    """A case written by the exporter of TorchScript, or by that of `torch.export`, where it is `traced`."""

    case: Case
    opset: int
    traced: bool

    def write(self, path: str) -> nn.Module:
        """Write the model with drawn weights. Raises what the exporter does."""
        torch.manual_seed(3)
        module, given = self.case.module().eval(), self.case.drawn(self.case.shape)
        options: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "opset_version": self.opset}
        if self.traced:
            dims = {d: torch.export.Dim(name) for d, name in self.case.dynamic.items()}
            options |= {"dynamic_shapes": (dims,), "dynamo": True, "verbose": False}
        else:
            options |= {"dynamic_axes": {"x": self.case.dynamic}, "dynamo": False}
        torch.onnx.export(module, (given,), path, **options)
        return module
