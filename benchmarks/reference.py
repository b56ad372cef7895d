"""What a workload should give, in float64, and how far from it rounding may lead.

Roundings are taken as independent: a sum of k products is then off by at most c sqrt(k) u sum |a| |b| with a chance
that c makes as small as one likes (Higham and Mary, A new approach to probabilistic rounding error analysis, 2019,
theorem 3.1), and the errors of one layer add up in the next as squares do. The bound without chance, k instead of
c sqrt(k), says nothing any more after three layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import erf, sqrt

import numpy as np

from benchmarks.tasks import compiled, network, reference_text
from benchmarks.workloads import Workload

UNITS = (
    {"bf16": 2.0**-8, "float16": 2.0**-11}
    | dict.fromkeys(("f32", "float32"), 2.0**-24)
    | dict.fromkeys(("f64", "float64"), 2.0**-53)
)
"""Half the distance from 1 to the next number."""
FUNCTION_ROUNDINGS = 16
"""Roundings that erf, exp or what is made of them may stand for."""
GELU_SLOPE = 1.13
CONFIDENCE = 5.0
"""c."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The result in float64 and how far an element may be from it."""

    value: np.ndarray
    error: np.ndarray

    def distance(self, found: np.ndarray, dtype: str) -> float:
        """The largest difference in units of what is allowed, the dtype of the result included; NaN and a wrong shape
        are infinitely far."""
        if found.shape != self.value.shape:
            return float("inf")
        wide = _wide(found, dtype)
        allowed = self.error + UNITS.get(dtype, 0.0) * np.abs(self.value) + np.finfo(np.float32).tiny
        with np.errstate(invalid="ignore"):
            distance = np.max(np.abs(wide - self.value) / allowed, initial=0.0)
        return float(distance) if np.isfinite(distance) else float("inf")


def reference(workload: Workload, arrays: Mapping[str, np.ndarray]) -> Reference:
    """The result of a workload on these inputs."""
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    if workload.kind == "min_plus":
        return _min_plus(wide["x"], wide["w"])
    if workload.kind == "expression":
        return _expression(workload, arrays)
    dtypes = {name: made.dtype for name, made in workload.inputs.items()}
    unit = UNITS["f64"] if dtypes["x"] == "f64" else 0.0 if dtypes["x"][1] == "i" else UNITS["f32"]
    net = network(workload.kind, workload.attributes, wide, dtypes, set())
    x, _ = net.operands()
    error = np.zeros_like(x)
    for k, layer in enumerate(net.layers):
        weight = net.operands()[1] if k == 0 else layer.weight
        made = x @ weight
        size = np.abs(x) @ np.abs(weight)
        carried = np.sqrt(error**2 @ weight**2) if k else np.zeros_like(made)
        if layer.bias is not None:
            made, size = made + layer.bias, size + np.abs(layer.bias)
        rounded = CONFIDENCE * sqrt(weight.shape[-2] + 2) * unit * size
        x, error = _activated(layer.activation, made, carried + rounded, unit)
    return Reference(x, error + float(workload.attributes.get("tolerance", 0.0)))


def _activated(name: str, x: np.ndarray, error: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    if name == "none":
        return x, error
    if name == "relu":
        return np.maximum(x, 0), error
    if name == "gelu":
        made = 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))
        return made, GELU_SLOPE * error + FUNCTION_ROUNDINGS * unit * (np.abs(made) + np.abs(x) * unit)
    if name == "softmax":
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        made = powers / powers.sum(axis=-1, keepdims=True)
        relative = np.expm1(2 * error.max(axis=-1, keepdims=True)) + (FUNCTION_ROUNDINGS + x.shape[-1]) * unit
        return made, made * relative + unit * np.abs(x).max(axis=-1, keepdims=True) * made
    raise ValueError(f"required none, relu, gelu or softmax, found {name}")


def _expression(workload: Workload, arrays: Mapping[str, np.ndarray]) -> Reference:
    """NumPy's value in float64; integers stay what they are."""
    given = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}
    modules = {"np": np, "erf": np.vectorize(erf)}
    said = workload.attributes

    def value(text: str) -> np.ndarray:
        return np.asarray(compiled(text, list(given), **modules)(*given.values()))

    made, size = value(reference_text(said)), value(said.get("magnitude", "0.0"))
    unit = said["roundings"] * UNITS["f32"]
    return Reference(made, unit * np.maximum(np.abs(made.astype(np.float64)), size))


def _min_plus(x: np.ndarray, w: np.ndarray) -> Reference:
    made = np.full((x.shape[0], w.shape[1]), np.inf)
    for k in range(x.shape[1]):
        np.minimum(made, x[:, k, None] + w[k], out=made)
    return Reference(made, np.abs(made) * UNITS["f32"])


def _wide(found: np.ndarray, dtype: str) -> np.ndarray:
    """float64; bf16 comes as its bits, the upper half of a float32."""
    if dtype == "bf16":
        return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return found.astype(np.float64)
