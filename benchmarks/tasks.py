"""What the kinds of workloads mean, in NumPy arrays: read by the reference and by the peers. Needs NumPy alone.

`product` is x @ w, with a bias and an activation where the attributes have them, and either operand transposed (in its
last two dims). `mlp` is a chain of such layers, weights `w1`, `b1`, ... `min_plus` is min over k of x[m, k] + w[k, n].
`expression` is what the attributes `numpy`, `jax` and `torch` say in the language of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcpx.measure.protocol import Array, Task, UnsupportedError


@dataclass(frozen=True, slots=True)
class Layer:
    """activation(input @ weight + bias); activation is none, relu, gelu (by erf) or softmax."""

    weight: Array
    bias: Array | None
    activation: str


@dataclass(frozen=True, slots=True)
class Network:
    """Layers one after the other. Operands are as stored: one that is transposed is to be read transposed."""

    x: Array
    layers: tuple[Layer, ...]
    dtypes: tuple[str, str]
    constant_weights: bool
    lhs_transposed: bool = False
    rhs_transposed: bool = False

    @property
    def is_plain(self) -> bool:
        """One layer that is nothing but the product."""
        return len(self.layers) == 1 and self.layers[0].bias is None and self.layers[0].activation == "none"

    def operands(self) -> tuple[Array, Array]:
        """The operands of the first layer as matrices to multiply: views, transposed where they are stored so."""
        weight = self.layers[0].weight
        x = np.swapaxes(self.x, -1, -2) if self.lhs_transposed else self.x
        return x, np.swapaxes(weight, -1, -2) if self.rhs_transposed else weight


def model_inputs(task: Task) -> dict[str, Array]:
    """The inputs of a model of ONNX by their names in the file, in its order."""
    held = task.arrays()
    return {name: held[key] for key, name in task.attributes["names"].items()}


def network_of(task: Task, dtypes: tuple[str, ...] = ("f32",)) -> Network:
    """The network of a task of kind product or mlp whose inputs have one of the dtypes. Raises UnsupportedError."""
    found = {given.name: given.dtype for given in task.inputs}
    if task.kind not in ("product", "mlp"):
        raise UnsupportedError(f"no {task.kind}")
    refused = sorted(set(found.values()) - set(dtypes))
    if refused:
        raise UnsupportedError(f"no {', '.join(refused)}")
    if any(given.strided for given in task.inputs):
        raise UnsupportedError("no strided operands: not written here")
    return network(task.kind, task.attributes, task.arrays(), found, task.constants())


def network(
    kind: str, attributes: Mapping[str, Any], arrays: dict[str, Array], dtypes: dict[str, str], constants: set[str]
) -> Network:
    """The same from its parts."""
    if kind == "mlp":
        count = attributes["layers"]
        activations = [attributes["activation"]] * (count - 1) + [attributes["last"]]
        layers = tuple(Layer(arrays[f"w{k + 1}"], arrays[f"b{k + 1}"], activations[k]) for k in range(count))
        return Network(arrays["x"], layers, (dtypes["x"], dtypes["w1"]), "w1" in constants)
    bias = arrays[attributes["bias"]] if "bias" in attributes else None
    layer = Layer(arrays["w"], bias, attributes.get("activation", "none"))
    transposed = [bool(attributes.get(f"{side}_transposed")) for side in ("lhs", "rhs")]
    return Network(arrays["x"], (layer,), (dtypes["x"], dtypes["w"]), "w" in constants, *transposed)


def expression_of(task: Task, language: str, **modules: object) -> Callable[..., Any]:
    """What a task of kind `expression` computes of its inputs, in their order; `same` is as in NumPy. Raises
    UnsupportedError where the attributes do not say it in this language."""
    text = task.attributes.get(language) if task.kind == "expression" else None
    if text is None:
        raise UnsupportedError(f"no {task.kind}: not written here")
    names = [given.name for given in task.inputs]
    return compiled(reference_text(task.attributes) if text == "same" else text, names, **modules)


def reference_text(attributes: Mapping[str, Any]) -> str:
    """What an expression is in NumPy and `erf`."""
    return attributes["reference"] if "reference" in attributes else attributes["numpy"]


def compiled(text: str, names: list[str], **modules: object) -> Callable[..., Any]:
    """A function of arguments with these names, from the files of this repository."""
    return eval(f"lambda {', '.join(names)}: {text}", modules)  # noqa: S307 - expressions are written beside the workloads
