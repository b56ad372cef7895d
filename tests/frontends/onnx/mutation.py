"""Models of ONNX with faults: bytes that are cut or changed, and messages that say something else."""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import helper

from tcpx.frontends.onnx.operators import RULES

NUMBERS = (0, 1, -1, 2, 3, 7, -5, 255, 1 << 31, -(1 << 31), (1 << 62), -(1 << 63), 1 << 40)
DTYPES = tuple(onnx.TensorProto.DataType.values())
PATHS = ("../../etc/passwd", "/etc/passwd", "..", ".", "", "a\0b", "/dev/zero", "x" * 5000)
Fault = Callable[[onnx.ModelProto, random.Random], None]


def damaged(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """The bytes of a model with one to three faults."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if rng.random() < 0.7:
        for _ in range(rng.randint(1, 3)):
            rng.choice(FAULTS)(copy, rng)
    content = bytearray(copy.SerializeToString())
    if rng.random() < 0.4:
        for _ in range(rng.randint(1, 8)):
            content[rng.randrange(len(content))] = rng.randrange(256)
    if rng.random() < 0.2:
        del content[rng.randrange(len(content)) :]
    return bytes(content)


def _node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto:
    return rng.choice(model.graph.node) if model.graph.node else model.graph.node.add()


def _operator(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    node.domain, _, node.op_type = rng.choice(sorted(RULES)).rpartition(".")
    if node.domain:
        model.opset_import.append(helper.make_opsetid(node.domain, 1))


def _operand(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    names = [p.name for p in (*model.graph.input, *model.graph.initializer)] + [
        o for n in model.graph.node for o in n.output
    ]
    if node.input and rng.random() < 0.7:
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nowhere"])
    else:
        node.input.append(rng.choice([*names, ""]))


def _lost_operand(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if node.input:
        del node.input[rng.randrange(len(node.input))]


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    held = (
        rng.choice(NUMBERS),
        [rng.choice(NUMBERS) for _ in range(rng.randint(1, 5))],
        rng.choice((0.5, -1e30, 1e-30)),
        "word",
    )
    if node.attribute and rng.random() < 0.7:
        name = rng.choice(node.attribute).name
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)
    else:
        name = rng.choice(
            ("axis", "axes", "to", "perm", "keepdims", "pads", "strides", "kernel_shape", "epsilon", "group")
        )
    node.attribute.append(helper.make_attribute(name, rng.choice(held)))


def _dim(model: onnx.ModelProto, rng: random.Random) -> None:
    port = rng.choice([*model.graph.input, *model.graph.output])
    dims = port.type.tensor_type.shape.dim
    if not dims or rng.random() < 0.2:
        dims.add().dim_param = rng.choice(("N", "batch", "0", "", "a b", "é"))
    elif rng.random() < 0.5:
        rng.choice(dims).dim_value = rng.choice(NUMBERS)
    else:
        rng.choice(dims).dim_param = rng.choice(("N", "M + 1", "%x", "]"))


def _dtype(model: onnx.ModelProto, rng: random.Random) -> None:
    rng.choice([*model.graph.input, *model.graph.output]).type.tensor_type.elem_type = rng.choice(DTYPES)


def _tensor(model: onnx.ModelProto, rng: random.Random) -> None:
    tensor = rng.choice(model.graph.initializer) if model.graph.initializer else model.graph.initializer.add()
    if tensor.dims and rng.random() < 0.5:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
    elif rng.random() < 0.5:
        tensor.data_type = rng.choice((*DTYPES, 99))
    else:
        tensor.raw_data = bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 8, 24))))


def _elsewhere(model: onnx.ModelProto, rng: random.Random) -> None:
    tensor = rng.choice(model.graph.initializer) if model.graph.initializer else model.graph.initializer.add()
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key in ("location", "offset", "length"):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, rng.choice(PATHS) if key == "location" else str(rng.choice(NUMBERS))


def _calls_itself(model: onnx.ModelProto, rng: random.Random) -> None:
    ports = [p.name for p in model.graph.input]
    body = [
        helper.make_node("again", ["x"], ["y"], domain="own"),
        helper.make_node("again", ["y"], ["z"], domain="own"),
    ]
    model.functions.append(helper.make_function("own", "again", ["x"], ["z"], body, [helper.make_opsetid("own", 1)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(helper.make_node("again", ports[:1], ["endless"], domain="own"))


def _opset(model: onnx.ModelProto, rng: random.Random) -> None:
    model.opset_import[0].version = rng.choice((*NUMBERS, 9, 11, 13, 18))


FAULTS: tuple[Fault, ...] = (
    *(_operator, _operand, _lost_operand, _attribute, _dim, _dtype, _tensor, _elsewhere, _calls_itself, _opset),
    *(_operator, _operand, _attribute, _attribute, _tensor),
)
