"""The rules of operators, one file for each family; importing it declares them."""

from tcpx.frontends.onnx.operators import (
    control,
    elementwise,
    fourier,
    indexing,
    linear,
    movement,
    normalization,
    quantization,
    recurrent,
    reductions,
    refusals,
    resizing,
    windows,
)
from tcpx.frontends.onnx.table import REFUSED, RULES

__all__ = [
    "REFUSED",
    "RULES",
    "control",
    "elementwise",
    "fourier",
    "indexing",
    "linear",
    "movement",
    "normalization",
    "quantization",
    "recurrent",
    "reductions",
    "refusals",
    "resizing",
    "windows",
]
