"""A model: what a file of ONNX says, as a payload."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from tcpx.frontends.onnx.errors import BoundedSymbol, Finding, NotConstant, OnnxError, Unsupported, UnsupportedError
from tcpx.frontends.onnx.graph import Importer, Scope
from tcpx.frontends.onnx.node import dtype_of_onnx, identifier, value_of
from tcpx.frontends.onnx.reading import DEFAULT_DOMAINS, TensorReader, parsed, read_model
from tcpx.frontends.onnx.tidying import without_unread
from tcpx.frontends.onnx.values import Tensor, of_array
from tcpx.payload.builder import Builder
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module, Value
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.types import TensorType

MOST_SPECIALIZED: Final = 4096
"""Elements of an input whose value a model is specialised on."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model: the name that ONNX has for it, the name in the payload, and its type."""

    name: str
    argument: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import gives: the payload, or the inputs whose value has to be known first."""

    module: Module | None
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    needs: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Model:
    """A model that was read. `values` are inputs that are constant in it, `sizes` those of its symbols that are
    numbers."""

    proto: onnx.ModelProto = field(repr=False)
    file: str
    folder: Path
    values: Mapping[str, Array] = field(default_factory=dict[str, Array])
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @cached_property
    def imported(self) -> Imported:
        """The import of the graph. Raises OnnxError, and UnsupportedError with all nodes that are not supported."""
        bounds: dict[str, int] = {}
        while True:
            try:
                return _Import(self, bounds).run()
            except BoundedSymbol as error:
                bounds[error.name] = min(error.most, bounds.get(error.name, error.most))

    @property
    def module(self) -> Module:
        """The payload. Raises OnnxError where inputs have to be constant, as shapes, whose value is not known."""
        found = self.imported
        if found.module is None:
            names = ", ".join(found.needs)
            given = ", ".join(f'"{name}": value' for name in found.needs)
            raise OnnxError.at(
                self.file,
                f"the model has to know the value of {names}",
                f"a value for {names}: {found.why}",
                "an input",
                f"model.specialized({{{given}}})",
            )
        return found.module

    @property
    def needs(self) -> tuple[str, ...]:
        """The inputs whose value has to be known, so far as that was found out."""
        return self.imported.needs

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs that are arguments of the payload, in their order."""
        return self.imported.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(output.name for output in self.proto.graph.output)

    @property
    def weights(self) -> Mapping[str, Array]:
        """The arrays of the payload by name."""
        constants = self.module.constants
        return {name: array for name in constants if (array := constants.get(name)) is not None}

    def specialized(self, values: Mapping[str, Array]) -> Model:
        """The same model with inputs that are constant. Raises OnnxError."""
        known = {port.name for port in self.proto.graph.input}
        for name, array in values.items():
            if name not in known:
                raise OnnxError.at(self.file, f"there is no input `{name}`", f"one of {', '.join(sorted(known))}", name)
            size = np.asarray(array).size
            if size > MOST_SPECIALIZED:
                most = f"{MOST_SPECIALIZED} elements at most"
                raise OnnxError.at(self.file, f"the input `{name}` is too large for a constant", most, str(size))
        held = {name: np.asarray(array) for name, array in values.items()}
        return Model(self.proto, self.file, self.folder, {**self.values, **held}, self.sizes)


def load(
    source: str | Path | bytes | onnx.ModelProto,
    *,
    values: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
    folder: str | Path | None = None,
) -> Model:
    """Read a model: a path, the bytes of a file, or a ModelProto, whose external data is below `folder`.

    `values` are inputs that are constant, such as shapes; `sizes` says numbers for dims that the model names. Raises
    OnnxError for what is no model; its nodes are imported when `module` is first asked for.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        proto, file, base = read_model(path), str(path), path.parent
    elif isinstance(source, bytes):
        proto, file, base = parsed(source, Path("<model>")), "<model>", Path()
    else:
        proto, file, base = source, source.graph.name or "<model>", Path()
    model = Model(proto, file, Path(folder) if folder is not None else base, {}, dict(sizes or {}))
    return model.specialized(values) if values else model


class _Import:
    def __init__(self, model: Model, bounds: Mapping[str, int]) -> None:
        self.model, self.bounds = model, bounds
        self.reads = TensorReader(model.file, model.folder)
        self.symbols: dict[str, Symbol] = {}
        self.findings: list[Finding] = []

    def run(self) -> Imported:
        model, graph = self.model, self.model.proto.graph
        values: dict[str, Tensor | None] = {}
        for tensor in graph.initializer:
            self._constant(values, tensor)
        if graph.sparse_initializer:
            self.findings.append(Finding(graph.name, "sparse_initializer", "sparse tensors"))
        ports: list[Port] = []
        for given in graph.input:
            if given.name in values:
                continue
            if given.name in model.values:
                values[given.name] = of_array(given.name, model.values[given.name])
                continue
            port = self._port(given, {p.argument for p in ports})
            values[given.name] = None
            if port is not None:
                ports.append(port)
        builder = Builder()
        symbols = [s for name, s in self.symbols.items() if name not in model.sizes]
        name = identifier(graph.name).replace(".", "_").replace("/", "_").replace("~", "_") or "main"
        with builder.func(name, {p.argument: p.type for p in ports}, symbols) as arguments:
            for port, argument in zip(ports, arguments, strict=True):
                values[port.name] = _argument(port, argument)
            try:
                self._body(builder, values)
            except NotConstant as error:
                return self._needing(error, ports)
        return Imported(builder.finish(), tuple(ports), model.outputs)

    def _body(self, builder: Builder, values: dict[str, Tensor | None]) -> None:
        model, graph = self.model, self.model.proto.graph
        versions = {"" if o.domain in DEFAULT_DOMAINS else o.domain: o.version for o in model.proto.opset_import}
        functions = {(f.domain, f.name): f for f in model.proto.functions}
        importer = Importer(builder, model.file, self.reads, functions)
        importer.findings = self.findings
        importer.run(graph.node, Scope(values, versions))
        if self.findings:
            raise UnsupportedError.of(model.file, self.findings)
        results: list[Value] = []
        for output in graph.output:
            tensor = values.get(output.name)
            if tensor is None:
                message = f"nothing computes the output `{output.name}`"
                raise OnnxError.at(model.file, message, "a value of the graph", output.name)
            results.append(value_of(importer.writer, tensor))
        builder.returns(*results)
        without_unread(next(iter(builder.module.funcs.values())))

    def _needing(self, error: NotConstant, ports: Sequence[Port]) -> Imported:
        """The inputs that decide a value that has to be known. Raises UnsupportedError where they are data."""
        held = {p.name: p for p in ports}
        data = [name for name in sorted(error.sources) if name not in held or len(held[name].type.shape) > 1]
        if data or not error.sources:
            found = f"{error}, and depends on {', '.join(data) or 'what the graph computes'}"
            raise UnsupportedError.of(
                self.model.file, [*self.findings, Finding(error.node, error.operator, found, error.place)]
            )
        return Imported(None, tuple(ports), self.model.outputs, tuple(sorted(error.sources)), str(error))

    def _constant(self, values: dict[str, Tensor | None], tensor: onnx.TensorProto) -> None:
        array = self.reads(tensor)
        values[tensor.name] = of_array(tensor.name, array)
        if values[tensor.name] is None:
            self.findings.append(Finding(tensor.name, "initializer", f"the dtype {array.dtype}"))

    def _port(self, given: onnx.ValueInfoProto, taken: set[str]) -> Port | None:
        """An input of a supported type; of another, a finding."""
        if given.type.WhichOneof("value") != "tensor_type":
            self.findings.append(Finding(given.name, "input", f"the type {given.type.WhichOneof('value') or 'none'}"))
            return None
        held = given.type.tensor_type
        try:
            dtype = dtype_of_onnx(held.elem_type)
        except Unsupported as error:
            self.findings.append(Finding(given.name, "input", str(error)))
            return None
        if not held.HasField("shape"):
            self.findings.append(Finding(given.name, "input", "a shape of unknown rank"))
            return None
        shape = tuple(self._dim(given.name, k, dim) for k, dim in enumerate(held.shape.dim))
        argument, count = identifier(given.name), 0
        while argument in taken:
            count += 1
            argument = f"{identifier(given.name)}.{count}"
        return Port(given.name, argument, TensorType(shape, dtype))

    def _dim(self, name: str, index: int, dim: onnx.TensorShapeProto.Dimension) -> Dim:
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return int(dim.dim_value)
        shown = dim.dim_param or f"{name}_{index}"
        if shown in self.model.sizes:
            return self.model.sizes[shown]
        symbol = re.sub(r"\W", "_", shown, flags=re.ASCII)
        symbol = symbol if symbol[:1].isalpha() or symbol[:1] == "_" else f"_{symbol}"
        return self.symbols.setdefault(shown, Symbol(symbol, 1, self.bounds.get(symbol))).size()


def _argument(port: Port, value: Value) -> Tensor:
    return Tensor(port.name, port.type.shape, port.type.dtype, value=value, sources=frozenset((port.name,)))


__all__ = ["Model", "Port", "load"]
