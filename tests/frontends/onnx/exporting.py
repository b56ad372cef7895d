"""Models of PyTorch as files of ONNX. What imports this needs PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

OPSET = 17


def export(
    model: nn.Module,
    path: str,
    given: Sequence[torch.Tensor],
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Mapping[str, Mapping[int, str]],
    opset: int = OPSET,
) -> None:
    """Write a model; `axes` names the dims that are not those of the arrays `given`."""
    torch.onnx.export(
        model.eval(),
        tuple(given),
        path,
        input_names=[*inputs],
        output_names=[*outputs],
        dynamic_axes={**axes},
        opset_version=opset,
        dynamo=False,
    )


def export_encoder(model: nn.Module, path: str, opset: int = OPSET) -> None:
    """Write a model of `ids` and `mask`, both [batch, sequence], for any batch and length."""
    given = torch.ones(2, 9, dtype=torch.int64)
    axes = {0: "batch", 1: "sequence"}
    export(model, path, [given, given], ["ids", "mask"], ["out"], dict.fromkeys(("ids", "mask", "out"), axes), opset)
