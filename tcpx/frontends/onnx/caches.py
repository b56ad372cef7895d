"""State of a model: inputs that an output is the new value of, and caches, to which each call adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import OnnxError
from tcpx.frontends.onnx.node import Node
from tcpx.payload.builder import tile
from tcpx.payload.ir import Value
from tcpx.payload.ops.gml_st import For
from tcpx.payload.predicates import Predicate
from tcpx.payload.sizes import Dim
from tcpx.payload.types import shape_of


@dataclass(eq=False, slots=True)
class State:
    """An input that lies where its new value does, the output. Of a cache, `axis` is the dim along which the output,
    made by `producer`, is the input with more behind; its memory has room for `capacity` there."""

    input: str
    output: str
    axis: int | None = None
    producer: str = ""
    capacity: Dim = 0
    value: Value | None = None
    """The argument, and once the output is imported what becomes of it."""

    def appended(self, n: Node) -> Value:
        """What is behind the cache, written there: the part that is used after it."""
        whole, used = self.value, n.shape()
        axis = n.axis(len(used))
        if whole is None:
            raise AssertionError(f"the cache {self.input} has no argument")
        for k in range(1, len(n.inputs)):
            other = n.ranked(k, len(used), len(used)).shape
            if any(d != axis and not same(a, b) for d, (a, b) in enumerate(zip(used, other, strict=True))):
                raise n.error("dims beside the axis differ", shown(used), shown(other))
        w, new = n.w, n.w.concat(n.values()[1:], axis)
        place = tile([used[axis] if d == axis else 0 for d in range(len(used))], shape_of(new.type))
        with w.builder.loop(For, "step", (0, 1, 1), {"cache": whole}, [f"{w.prefix}.cache"]) as step:
            w.builder.yields(new, step.destinations[0], place)
        step.location = w.place
        self.value = step.results[0]
        total = tuple(d if k != axis else d + shape_of(new.type)[axis] for k, d in enumerate(used))
        w.demand(Predicate.of("<=", total[axis], self.capacity), "the cache is full")
        return w.used(self.value, total, f"{w.prefix}.used")


def states_of(graph: onnx.GraphProto, wanted: Mapping[str, str] | bool, file: str) -> dict[str, State]:
    """The state of a graph by input: these inputs with their outputs, or all caches. Raises OnnxError."""
    inputs = {i.name: i for i in graph.input} if wanted else {}
    producers = {output: node for node in graph.node for output in node.output}
    if wanted is True:
        joined = {o.name: _producer(o.name, producers) for o in graph.output}
        wanted = {
            node.input[0]: output
            for output, node in joined.items()
            if node is not None and node.op_type == "Concat" and node.input[0] in inputs
        }
        if not wanted:
            raise OnnxError.at(file, "no output is an input with more behind it", "a Concat of an input", "none")
    found: dict[str, State] = {}
    for given, output in (wanted or {}).items():
        for name, known, what in ((given, inputs, "input"), (output, {o.name for o in graph.output}, "output")):
            if name not in known:
                raise OnnxError.at(file, f"there is no {what} `{name}`", f"one of {', '.join(sorted(known))}", name)
        node = _producer(output, producers)
        found[given] = State(given, output)
        if node is not None and node.op_type == "Concat" and node.input[0] == given:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            rank = len(inputs[given].type.tensor_type.shape.dim)
            found[given] = State(given, output, axis % max(rank, 1), node.output[0])
    return found


def _producer(name: str, producers: Mapping[str, onnx.NodeProto]) -> onnx.NodeProto | None:
    """The node that computes a value, behind those that only hand it on."""
    node = producers.get(name)
    while node is not None and node.op_type == "Identity":
        node = producers.get(node.input[0])
    return node
