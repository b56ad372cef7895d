"""Twelve models of the families of `schedules/models/`, in full size with drawn weights, and four ways in which PyTorch
exports them. What imports this needs PyTorch and transformers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import onnx
import torch
import transformers as t
from torch import nn

IMAGE: Final = (3, 224, 224)
NARROW_LLAMA: Final = {
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
}


class FirstResult(nn.Module):
    """A model of which the result is the first tensor alone. All tokens count."""

    def __init__(self, model: nn.Module, given: str) -> None:
        super().__init__()
        self.model, self.given = model, given

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = {self.given: x}
        if self.given == "input_ids":
            given["attention_mask"] = torch.ones_like(x)
        return self.model(**given, return_dict=False)[0]


class Block(nn.Module):
    """Two windows of 3x3, each with a norm of groups of channels and a sigmoid linear unit."""

    def __init__(self, channels: int, features: int) -> None:
        super().__init__()
        norm, act = nn.GroupNorm, nn.SiLU
        self.parts = nn.Sequential(
            *(nn.Conv2d(channels, features, 3, padding=1), norm(8, features), act()),
            *(nn.Conv2d(features, features, 3, padding=1), norm(8, features), act()),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts(x)


class UNet(nn.Module):
    """Three levels down and up, which are joined along channels."""

    def __init__(self, features: int = 32) -> None:
        super().__init__()
        sizes = [features, 2 * features, 4 * features, 8 * features]
        self.down = nn.ModuleList(Block(c, f) for c, f in zip([3, *sizes], sizes, strict=False))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * f, f, 2, 2) for f in sizes[-2::-1])
        self.join = nn.ModuleList(Block(2 * f, f) for f in sizes[-2::-1])
        self.last = nn.Conv2d(features, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = []
        for block in self.down[:-1]:
            x = block(x)
            levels.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.down[-1](x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([levels.pop(), up(x)], 1))
        return self.last(x)


@dataclass(frozen=True, slots=True)
class FullModel:
    """How a model is made, the name of its operand, and the shape of what it takes after the batch."""

    schedule: str
    make: Callable[[], nn.Module]
    given: str
    shape: tuple[int, ...]
    classes: int = 0
    """Operands are integers below this; 0 says that they are numbers."""


def _tokens(schedule: str, make: Callable[[], nn.Module], classes: int) -> FullModel:
    return FullModel(schedule, make, "input_ids", (32,), classes)


def _image(schedule: str, make: Callable[[], nn.Module]) -> FullModel:
    return FullModel(schedule, make, "pixel_values", IMAGE)


_NO_CACHE: Final = {"use_cache": False}
MODELS: Final = {
    "resnet50": _image("resnet50", lambda: t.ResNetForImageClassification(t.ResNetConfig())),
    "mobilenetv2": _image("mobilenetv2", lambda: t.MobileNetV2ForImageClassification(t.MobileNetV2Config())),
    "efficientnet": _image(
        "efficientnet",
        lambda: t.EfficientNetForImageClassification(
            t.EfficientNetConfig(
                width_coefficient=1.0, depth_coefficient=1.0, image_size=224, hidden_dim=1280, dropout_rate=0.2
            )
        ),
    ),
    "convnext": _image("convnext", lambda: t.ConvNextForImageClassification(t.ConvNextConfig())),
    "unet": FullModel("unet", UNet, "x", (3, 192, 192)),
    "vit": _image("vit", lambda: t.ViTForImageClassification(t.ViTConfig())),
    "wav2vec2": FullModel("audio", lambda: t.Wav2Vec2Model(t.Wav2Vec2Config()), "input_values", (16000,)),
    "bert": _tokens("bert", lambda: t.BertModel(t.BertConfig()), 30522),
    "minilm": _tokens(
        "minilm",
        lambda: t.BertModel(t.BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536)),
        30522,
    ),
    "distilbert": _tokens("bert", lambda: t.DistilBertModel(t.DistilBertConfig()), 30522),
    "gpt2": _tokens("gpt2", lambda: t.GPT2LMHeadModel(t.GPT2Config(**_NO_CACHE)), 50257),
    "llama": _tokens("llama", lambda: t.LlamaForCausalLM(t.LlamaConfig(**NARROW_LLAMA, **_NO_CACHE)), 32000),
}


@dataclass(frozen=True, slots=True)
class Way:
    """A way to export: the exporter, its opset, other names of nodes and values, and the batch: a number or any."""

    dynamo: bool
    opset: int
    prefix: str
    batch: int | None


WAYS: Final = (
    Way(False, 14, "", 1),
    Way(False, 17, "model/", None),
    Way(True, 18, "", 1),
    Way(True, 20, "n_", None),
)


def operand(model: FullModel, batch: int) -> torch.Tensor:
    """Drawn for a batch."""
    shape = (batch, *model.shape)
    return torch.randint(model.classes, shape) if model.classes else torch.randn(shape)


def built(name: str) -> nn.Module:
    """The model, with the same weights each time."""
    torch.manual_seed(3)
    model = MODELS[name]
    made = model.make()
    return (made if model.given == "x" else FirstResult(made, model.given)).eval()


def export(model: nn.Module, name: str, way: Way, folder: Path) -> Path:
    """Write a model as ONNX."""
    path = folder / "model.onnx"
    x = operand(MODELS[name], way.batch or 2)
    options: dict[str, Any] = {}
    if way.batch is None:
        options = (
            {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
            if way.dynamo
            else {"dynamic_axes": {"x": {0: "batch"}, "out": {0: "batch"}}}
        )
    torch.onnx.export(
        model,
        (x,),
        path,
        input_names=["x"],
        output_names=["out"],
        opset_version=way.opset,
        dynamo=way.dynamo,
        **options,
    )
    if way.prefix:
        rename(path, way.prefix)
    return path


def rename(path: Path, prefix: str) -> None:
    """Put a prefix before the name of each node, and of each value that is no operand or result of the model."""
    model = onnx.load(path)
    kept = {"", *(value.name for value in (*model.graph.input, *model.graph.output))}

    def renamed(names: Sequence[str]) -> list[str]:
        return [name if name in kept else prefix + name for name in names]

    for node in model.graph.node:
        node.name = prefix + node.name
        node.input[:], node.output[:] = renamed(node.input), renamed(node.output)
    for constant in model.graph.initializer:
        constant.name = prefix + constant.name
    del model.graph.value_info[:]
    onnx.save(model, path)
