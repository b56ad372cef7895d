"""The rules of operators, one file for each family; importing it declares them."""

from tcpx.frontends.onnx.operators import (
    attention,
    control,
    elementwise,
    fourier,
    fused,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    quantization,
    recurrent,
    reductions,
    refusals,
    resizing,
    rotary,
    windows,
)
from tcpx.frontends.onnx.table import REFUSED, RULES

__all__ = [
    "REFUSED",
    "RULES",
    "attention",
    "control",
    "elementwise",
    "fourier",
    "fused",
    "grouped",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "quantization",
    "recurrent",
    "reductions",
    "refusals",
    "resizing",
    "rotary",
    "windows",
]
