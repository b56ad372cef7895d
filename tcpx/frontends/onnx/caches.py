"""State of a model: inputs that an output is the new value of, and caches, to which each call adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from tcpx.frontends.onnx.errors import OnnxError
from tcpx.frontends.onnx.reading import DEFAULT_DOMAINS
from tcpx.frontends.onnx.table import GROWING
from tcpx.frontends.onnx.writing import Writer
from tcpx.payload.builder import tile
from tcpx.payload.ir import Value
from tcpx.payload.ops.gml_st import For
from tcpx.payload.sizes import Dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import shape_of


@dataclass(eq=False, slots=True)
class State:
    """An input that lies where its new value does, the output. Of a cache, `axis` is the dim along which the output,
    which a node calls `result`, is the input with more behind; its memory has room for `capacity` there."""

    input: str
    output: str
    axis: int | None = None
    result: str = ""
    capacity: Dim = 0
    value: Value | None = None
    """The argument, and once the output is imported what becomes of it."""

    def append(self, w: Writer, old: Value, new: Value, axis: int) -> Value:
        """What is new, written behind what is used of the cache: the part that is used after it."""
        whole, used = self.value, shape_of(old.type)
        if whole is None:
            raise AssertionError(f"the cache {self.input} has no argument")
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
    caches = _caches(graph) if wanted else {}
    if wanted is True:
        wanted = {state.input: output for output, state in caches.items() if state.input in inputs}
        if not wanted:
            raise OnnxError.at(file, "no output is an input with more behind it", "a Concat of an input", "none")
    found: dict[str, State] = {}
    for given, output in (wanted or {}).items():
        for name, known, what in ((given, inputs, "input"), (output, {o.name for o in graph.output}, "output")):
            if name not in known:
                raise OnnxError.at(file, f"there is no {what} `{name}`", f"one of {', '.join(sorted(known))}", name)
        other = next((state.input for state in found.values() if state.output == output), None)
        if other is not None:
            raise OnnxError.at(file, f"`{output}` cannot lie in two places", "one input", f"`{other}` and `{given}`")
        cache = caches.get(output)
        found[given] = State(given, output)
        if cache is not None and cache.input == given and cache.axis is not None:
            rank = len(inputs[given].type.tensor_type.shape.dim)
            found[given] = State(given, output, cache.axis % max(rank, 1), cache.result)
    return found


def _caches(graph: onnx.GraphProto) -> dict[str, State]:
    """The outputs of a graph that are a value with more behind it, also behind nodes that only hand it on."""
    producers = {output: node for node in graph.node for output in node.output}
    found: dict[str, State] = {}
    for output in graph.output:
        name, node = output.name, producers.get(output.name)
        while node is not None and node.op_type == "Identity":
            name, node = node.input[0], producers.get(node.input[0])
        if node is None:
            continue
        operator = node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"
        dim, operands = GROWING.get(operator, (None, {}))
        index = operands.get(list(node.output).index(name), len(node.input))
        if index < len(node.input):
            axis = dim if dim is not None else next((a.i for a in node.attribute if a.name == "axis"), 0)
            found[output.name] = State(node.input[index], output.name, axis, name)
    return found
