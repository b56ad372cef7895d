"""One import: the inputs and outputs of a graph, and what lies between, as a function of a payload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.caches import State, states_of
from tcpx.frontends.onnx.errors import (
    Equation,
    Finding,
    NotConstant,
    OnnxError,
    OpenEquations,
    Unsupported,
    UnsupportedError,
)
from tcpx.frontends.onnx.graph import Importer, Scope
from tcpx.frontends.onnx.learned import Bound
from tcpx.frontends.onnx.node import dtype_of_onnx, identifier, value_of
from tcpx.frontends.onnx.reading import TensorReader, versions_of
from tcpx.frontends.onnx.symbols import Symbols
from tcpx.frontends.onnx.tidying import shared_first, without_unread
from tcpx.frontends.onnx.values import Tensor, of_array, of_value
from tcpx.frontends.onnx.writing import Equations, Writer
from tcpx.payload.builder import Builder
from tcpx.payload.diagnostics import Location
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import INOUT, NUMBERS, RESULT_NAMES, FuncOp, Module, Value
from tcpx.payload.size_values import SizeValues
from tcpx.payload.sizes import Dim, Symbol, as_symbol
from tcpx.payload.types import TensorType, Type, index, shape_of
from tcpx.payload.value_ranges import RANGES, Declared, range_entries


@dataclass(frozen=True, slots=True)
class Port:
    """An argument of the payload of a model: the name of the input in ONNX, the name in the payload, and its type. How
    much of a cache is used is an argument beside the inputs, an `index`."""

    name: str
    argument: str
    type: Type


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import gives: the payload, or the inputs whose value has to be known first."""

    module: Module | None
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    why: str = ""
    solved: frozenset[str] = frozenset()
    """The dims that are numbers or other sizes because nodes need them to be, as the file and as the payload calls
    them."""


@dataclass(frozen=True)
class Source:
    """A model that was read, and how it is imported. `values` are inputs that are constant in it, `sizes` those of its
    symbols that are numbers or equal another one, `state` the inputs that lie where these outputs do, True: all
    caches, with room for `capacity`."""

    proto: onnx.ModelProto = field(repr=False)
    file: str
    folder: Path
    values: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    sizes: SizeValues = field(default_factory=dict[str, int | str])
    state: Mapping[str, str] | bool = False
    capacity: int | None = None
    store: Path | None = None
    """The folder of the file that the model is a link to, where its external data may be, too: a cache of downloads
    has its files there, and links to them in folders of models."""


class Import:
    """The import of a model. `bounds` are sizes that were found to be no greater than a number by one before,
    `equations` those that were found to have to be equal."""

    def __init__(self, model: Source, bounds: Sequence[Bound], equations: Sequence[Equation]) -> None:
        self.model, self.graph = model, model.proto.graph
        self.reads = TensorReader(model.file, model.folder, model.store)
        self.findings: list[Finding] = []
        self.states = states_of(self.graph, model.state, model.file)
        self.free = [i for i in self.graph.input if i.name not in model.values]
        self.equations = equations
        numbers = {name: state.axis for name, state in self.states.items() if state.axis is not None}
        self.symbols = Symbols(self.free, model.sizes, bounds, equations, numbers)

    def run(self) -> Imported:
        """Import the graph. Raises OnnxError, UnsupportedError, and BoundedSize and OpenEquations for what has to be
        known of sizes."""
        values: dict[str, Tensor | None] = {}
        stored = [*self.graph.initializer, *(s.values for s in self.graph.sparse_initializer)]
        for names in ([t.name for t in stored], [i.name for i in self.graph.input]):
            if len(set(names)) < len(names):
                twice = next(name for name, count in Counter(names).items() if count > 1)
                raise OnnxError.at(self.model.file, f"`{twice}` stands twice", "a name for each value", f"`{twice}`")
        for tensor in self.graph.initializer:
            self._constant(values, tensor)
        for sparse in self.graph.sparse_initializer:
            self._store(values, sparse.values.name, self.reads.sparse(sparse))
        for name, array in self.model.values.items():
            values[name] = of_array(name, array)
        types = {i.name: self._type(i) for i in self.free if i.name not in values}
        numbers = self._capacities(types)
        unknown = self.symbols.unknown
        if unknown:
            known = f"one of {', '.join(self.symbols.asked)}" if self.symbols.asked else "no size: all dims are numbers"
            raise OnnxError.at(self.model.file, f"no dim is called `{unknown[0]}`", known, unknown[0])
        ports = self._ports(numbers, types)
        builder = Builder()
        name = identifier(self.graph.name).replace(".", "_").replace("/", "_").replace("~", "_") or "main"
        arguments = {p.argument: p.type for p in ports}
        with builder.func(name, arguments, self.symbols.declared) as given:
            w = Writer(builder)
            known = self.symbols.conditions
            w.facts, w.quotients, w.equations = known.facts, known.quotients, Equations(self.equations)
            w.place = Location(self.model.file, 1, 1)
            for condition, message, place in known.asserted:
                w.demand(condition, message, place)
            for port, argument in zip(ports[len(numbers) :], given[len(numbers) :], strict=True):
                values[port.name] = self._argument(w, port, argument, types[port.name])
            values.update((name, None) for name, held in types.items() if held is None)
            try:
                results = self._body(w, values)
            except NotConstant as error:
                return self._needing(error, ports)
            builder.returns(*results)
        func = next(iter(builder.module.funcs.values()))
        func.location = Location(self.model.file, 1, 1, text=f"graph {self.graph.name}")
        self._mark(w, func, ports, numbers)
        without_unread(func)
        shared_first(func)
        outputs = tuple(o.name for o in self.graph.output)
        return Imported(builder.finish(), tuple(ports), outputs, solved=self.symbols.solved)

    # ------------------------------------------------------------ inputs

    def _constant(self, values: dict[str, Tensor | None], tensor: onnx.TensorProto) -> None:
        self._store(values, tensor.name, self.reads(tensor))

    def _store(self, values: dict[str, Tensor | None], name: str, array: Array) -> None:
        values[name] = of_array(name, array)
        if values[name] is None:
            self.findings.append(Finding(name, "initializer", f"the dtype {array.dtype}"))

    def _type(self, given: onnx.ValueInfoProto) -> TensorType | None:
        """The type of an input, None of one that is not supported: a finding."""
        kind, held = given.type.WhichOneof("value"), given.type.tensor_type
        try:
            if kind != "tensor_type":
                raise Unsupported(f"the type {kind or 'none'}")
            dtype = dtype_of_onnx(held.elem_type)
            if not held.HasField("shape"):
                raise Unsupported("a shape of unknown rank")
        except Unsupported as error:
            self.findings.append(Finding(given.name, "input", str(error)))
            return None
        state = self.states.get(given.name)
        return TensorType(
            tuple(
                self.symbols.dim(given.name, k, dim, 0 if state is not None and state.axis == k else 1)
                for k, dim in enumerate(held.shape.dim)
            ),
            dtype,
        )

    def _capacities(self, types: Mapping[str, TensorType | None]) -> list[Symbol]:
        """Say how much room caches have; hand out the symbols of how much of them is used."""
        used: list[Symbol] = []
        room: Dim | None = self.model.capacity
        for state in self.states.values():
            held = types.get(state.input)
            if held is None or state.axis is None:
                continue
            symbol = as_symbol(held.shape[state.axis])
            if symbol is None:
                message = f"the cache `{state.input}` has one length"
                raise OnnxError.at(self.model.file, message, f"a dim {state.axis} that a call decides", str(held))
            room = self.symbols.new("capacity") if room is None else room
            state.capacity = room
            if symbol not in used:
                used.append(symbol)
        return used

    def _ports(self, numbers: Sequence[Symbol], types: Mapping[str, TensorType | None]) -> list[Port]:
        """The arguments: first how much of caches is used."""
        ports = [Port(s.name, s.name, index) for s in numbers]
        for name, held in types.items():
            if held is None:
                continue
            state = self.states.get(name)
            shape = [state.capacity if state and state.axis == k else d for k, d in enumerate(held.shape)]
            taken, argument, count = {p.argument for p in ports}, identifier(name), 0
            while argument in taken:
                count += 1
                argument = f"{identifier(name)}.{count}"
            ports.append(Port(name, argument, TensorType(tuple(shape), held.dtype)))
        return ports

    def _argument(self, w: Writer, port: Port, value: Value, held: TensorType | None) -> Tensor:
        """The value of an input: of a cache, what is used of it."""
        state, sources = self.states.get(port.name), frozenset((port.name,))
        if state is not None:
            state.value = value
        if held is None or shape_of(value.type) == held.shape:
            return of_value(port.name, value, sources)
        return of_value(port.name, w.used(value, held.shape, f"{port.argument}.used"), sources)

    # ------------------------------------------------------------ what is computed

    def _body(self, w: Writer, values: dict[str, Tensor | None]) -> list[Value]:
        model, graph = self.model, self.graph
        versions = versions_of(model.proto.opset_import, model.file)
        functions = {(f.domain, f.name): f for f in model.proto.functions}
        importer = Importer(w, model.file, self.reads, functions)
        importer.findings = self.findings
        w.caches = {(s.input, s.result): partial(s.append, w) for s in self.states.values() if s.result}
        importer.run(graph.node, Scope(values, versions, own=set(values)))
        if w.equations.new:
            raise OpenEquations(w.equations.new)
        unknown = importer.unknown
        if self.findings:
            more = [Finding(unknown.node, unknown.operator, str(unknown), unknown.place)] if unknown is not None else []
            found = sorted([*self.findings, *more], key=lambda finding: finding.place.line if finding.place else 0)
            raise UnsupportedError.of(model.file, found)
        if unknown is not None:
            raise unknown
        by_output = {s.output: s for s in self.states.values()}
        results: list[Value] = []
        for output in graph.output:
            tensor = values.get(output.name)
            if tensor is None:
                message = f"nothing computes the output `{output.name}`"
                raise OnnxError.at(model.file, message, "a value of the graph", output.name)
            state = by_output.get(output.name)
            results.append(value_of(w, tensor) if state is None else self._new_value(w, state, tensor))
        return results

    def _new_value(self, w: Writer, state: State, tensor: Tensor) -> Value:
        """The result that lies where an argument does."""
        if state.value is None:
            raise OnnxError.at(self.model.file, f"the state `{state.input}` is constant", "an input", state.input)
        if state.axis is not None:
            return state.value
        old, made = state.value, value_of(w, tensor)
        own = shape_of(old.type)
        if tensor.rank != len(own) or not all(same(a, b) for a, b in zip(tensor.shape, own, strict=True)):
            message = f"`{state.output}` does not fit where `{state.input}` lies"
            raise OnnxError.at(self.model.file, message, f"{shown(own)}, or a Concat of it", shown(tensor.shape))
        return made

    def _mark(self, w: Writer, func: FuncOp, ports: Sequence[Port], numbers: Sequence[Symbol]) -> None:
        """Say what results are called, which arguments are numbers, which are state, and what indices may be."""
        attributes, given = func.attributes, func.args
        places = {p.name: k for k, p in enumerate(ports) if k >= len(numbers)}
        outputs = [o.name for o in self.graph.output]
        states = {s.output for s in self.states.values()}
        taken = {p.argument for p in ports}
        names = ["" if name in states else self._result(identifier(name), taken) for name in outputs]
        if any(names):
            attributes[RESULT_NAMES] = tuple(names)
        ranges = {given.index(value): Declared(*held) for value, held in w.ranges.items() if value in given}
        if ranges:
            attributes[RANGES] = range_entries(ranges)
        if numbers:
            attributes[NUMBERS] = tuple((k, symbol.name) for k, symbol in enumerate(numbers))
        if self.states:
            pairs = ((places[s.input], outputs.index(s.output)) for s in self.states.values())
            attributes[INOUT] = tuple(sorted(pairs))

    def _result(self, name: str, taken: set[str]) -> str:
        """What a result is called: like the output, unless an argument or another result is."""
        while name in taken:
            name = f"{name}.out"
        taken.add(name)
        return name

    def _needing(self, error: NotConstant, ports: Sequence[Port]) -> Imported:
        """The inputs that decide a value that has to be known. Raises UnsupportedError where they are data."""
        held = {p.name: p for p in ports}
        data = [name for name in sorted(error.sources) if name not in held or len(shape_of(held[name].type)) > 1]
        if data or not error.sources:
            found = f"{error}, and depends on {', '.join(data) or 'what the graph computes'}"
            raise UnsupportedError.of(
                self.model.file, [*self.findings, Finding(error.node, error.operator, found, error.place)]
            )
        outputs = tuple(o.name for o in self.graph.output)
        return Imported(None, tuple(ports), outputs, tuple(sorted(error.sources)), str(error))
