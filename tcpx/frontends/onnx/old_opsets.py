"""Nodes of opsets below 7, rewritten as nodes of opset 7 with the same meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import onnx

from tcpx.frontends.onnx.broadcasting import shown, unequal
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.schemas import schema_of, with_defaults
from tcpx.frontends.onnx.values import Tensor, of_array
from tcpx.plurals import counted

OPSET: Final = 7
Change = Callable[[Node], Node]
CHANGES: Final[dict[str, Change]] = {}
WITHOUT_EFFECT: Final = frozenset(("consumed_inputs", "output_sequence"))
"""Attributes of old opsets alone: a result may take the memory of an operand, or may be left out."""
READ_BY_RULES: Final = frozenset(("Concat", "Reshape", "Split"))
"""Operators whose rules know all versions."""
UNCHANGED: Final = frozenset(
    "Abs AveragePool Ceil Clip Elu Exp Floor GRU HardSigmoid InstanceNormalization LSTM LeakyRelu Log Max Mean Min Neg "
    "RNN Reciprocal Relu Selu Sigmoid Sqrt Sum Tanh".split()
)
"""Operators that lost an attribute without effect, or that got one with a default that is what they did."""


def as_of_opset_7(node: Node, schema: onnx.defs.OpSchema, version: int) -> tuple[Node, onnx.defs.OpSchema]:
    """A node of an opset of the default domain, as one of opset 7 or later. Raises Unsupported, and OnnxError."""
    if version >= OPSET or schema.domain:
        return node, schema
    later = schema_of(schema.name, OPSET)
    if later is not None and later.since_version == schema.since_version:
        return node, schema
    given = with_defaults(schema, node.attributes)
    node = replace(node, attributes={key: held for key, held in given.items() if key not in WITHOUT_EFFECT})
    if schema.name in READ_BY_RULES:
        return node, schema
    change = CHANGES.get(schema.name)
    if later is None or (change is None and schema.name not in UNCHANGED):
        raise Unsupported(f"another operator in opset {version} than from opset {OPSET} on")
    if change is not None:
        node = change(node)
    return replace(node, version=later.since_version), later


def _change(*operators: str) -> Callable[[Change], Change]:
    def declare(found: Change) -> Change:
        for operator in operators:
            CHANGES[operator] = found
        return found

    return declare


def _with(node: Node, changes: Mapping[str, Any], *without: str) -> Node:
    rest = {key: held for key, held in node.attributes.items() if key not in without}
    return replace(node, attributes={**rest, **changes})


def _trailing_ones(node: Node, index: int, count: int) -> Node:
    """The node with dims of 1 after those of an operand."""
    tensor, inputs = node.input(index), list(node.inputs)
    if count and tensor.array is not None:
        inputs[index] = of_array(tensor.name, tensor.array.reshape([*tensor.array.shape, *[1] * count]), tensor.sources)
    elif count:
        shape = (*tensor.shape, *[1] * count)
        value = node.w.reshape(node.value(index), shape)
        inputs[index] = Tensor(tensor.name, shape, tensor.dtype, value=value, sources=tensor.sources)
    return replace(node, inputs=inputs)


@_change("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
def _binary(node: Node) -> Node:
    """The second operand is broadcast only if `broadcast` says so: its dims are those from `axis` on, or the last."""
    own, other = node.shape(0), node.shape(1)
    axis = node.checked_axis(node.int("axis"), len(own)) if node.raw("axis") is not None else len(own) - len(other)
    if not node.int("broadcast", 0):
        if len(own) != len(other) or unequal(own, other):
            raise node.error("without `broadcast`, operands have one shape", shown(own), shown(other))
        axis = 0
    if not 0 <= axis <= len(own) - len(other):
        raise node.error(
            "the second operand has dims of the first", f"{counted(len(own), 'dim')} at most", shown(other)
        )
    return _with(_trailing_ones(node, 1, len(own) - len(other) - axis), {}, "axis", "broadcast")


@_change("Gemm")
def _gemm(node: Node) -> Node:
    """The last operand is broadcast if `broadcast` says so."""
    return _with(node, {}, "broadcast")


@_change("PRelu")
def _prelu(node: Node) -> Node:
    """A list of slopes has one for each channel, dim 1."""
    is_list = node.input(1).rank == 1 and node.shape(1) != (1,)
    return _trailing_ones(node, 1, max(0, node.input(0).rank - 2) if is_list else 0)


@_change("BatchNormalization")
def _batch_normalization(node: Node) -> Node:
    """It trains unless it says otherwise."""
    if not node.int("is_test", 0):
        raise Unsupported("batch normalization that trains: `is_test` is 0")
    return _with(node, {}, "is_test")


@_change("Dropout")
def _dropout(node: Node) -> Node:
    """It trains unless it says otherwise."""
    if not node.int("is_test", 0) and node.float("ratio", 0.5) != 0:
        raise Unsupported("dropout with random numbers: `is_test` is 0")
    return _with(node, {}, "is_test")


@_change("Cast")
def _cast(node: Node) -> Node:
    """The dtype is a word."""
    word = node.text("to")
    if word not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 - an enumeration of Protocol Buffers
        raise node.error("the dtype of a cast", "the name of a dtype, such as FLOAT", word)
    return _with(node, {"to": onnx.TensorProto.DataType.Value(word)})


@_change("Pad")
def _pad(node: Node) -> Node:
    return _with(node, {"pads": node.ints("paddings")}, "paddings")


@_change("LpPool", "GlobalLpPool")
def _lp_pool(node: Node) -> Node:
    """The exponent is a float."""
    exponent = node.float("p", 2.0)
    if not float(exponent).is_integer():
        raise Unsupported(f"the exponent {exponent}")
    return _with(node, {"p": int(exponent)})


@_change("Tile")
def _tile(node: Node) -> Node:
    """One count along one axis."""
    rank = node.input(0).rank
    counts = np.ones(rank, np.int64)
    counts[node.checked_axis(node.integer(2), rank)] = node.integer(1)
    return replace(node, inputs=[node.input(0), of_array(node.input(1).name, counts)])


@_change("Upsample")
def _upsample(node: Node) -> Node:
    """A scale of height and one of width; `bilinear` is `linear` of later opsets."""
    scales = [1.0, 1.0, node.float("height_scale"), node.float("width_scale")]
    mode = node.text("mode", "nearest")
    return _with(
        node, {"scales": scales, "mode": "linear" if mode == "bilinear" else mode}, "height_scale", "width_scale"
    )
