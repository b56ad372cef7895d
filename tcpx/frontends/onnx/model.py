"""A model: what a file of ONNX says, as a payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Final, SupportsIndex

import numpy as np
import onnx

from tcpx.frontends.onnx.errors import BoundedSize, Equation, Finding, OnnxError, OpenEquations, UnsupportedError
from tcpx.frontends.onnx.importing import Import, Imported, Port, Source
from tcpx.frontends.onnx.learned import Bound
from tcpx.frontends.onnx.node import misfit_of
from tcpx.frontends.onnx.reading import checked, parsed, read_model
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module
from tcpx.payload.size_values import SizeValues
from tcpx.payload.sizes import to_text
from tcpx.records import brief

MOST_SPECIALIZED: Final = 4096
"""Elements of an input whose value a model is specialised on."""


class Model(Source):
    """A model that was read: what it is as a payload."""

    def __repr__(self) -> str:
        return brief("Model", self.file, f"of {len(self.proto.graph.node)} node(s)")

    @cached_property
    def imported(self) -> Imported:
        """The import of the graph. Raises OnnxError, and UnsupportedError with all nodes that are not supported."""
        bounds, equations = list[Bound](), list[Equation]()
        while True:
            try:
                return Import(self, bounds, equations).run()
            except OpenEquations as error:
                equations += error.equations
            except BoundedSize as error:
                if any(to_text(size) == to_text(error.size) and most <= error.most for size, most in bounds):
                    found = Finding(self.proto.graph.name, "dims", str(error))
                    raise UnsupportedError.of(self.file, [found]) from error
                bounds.append((error.size, error.most))

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
                f"model.specialized({{{given}}}), or {' '.join(f'--input {name}=FILE.npy' for name in found.needs)}",
            )
        return found.module

    @property
    def needs(self) -> tuple[str, ...]:
        """The inputs whose value has to be known, so far as that was found out."""
        return self.imported.needs

    @property
    def defaults(self) -> tuple[str, ...]:
        """The inputs that have a value, which another one may take the place of."""
        graph = self.proto.graph
        stored = {tensor.name for tensor in (*graph.initializer, *(s.values for s in graph.sparse_initializer))}
        return tuple(port.name for port in self.proto.graph.input if port.name in stored)

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

    def specialized(self, values: Mapping[str, Array] | None = None, sizes: SizeValues | None = None) -> Model:
        """The same model with inputs that are constant, and numbers or other dims for dims. Raises OnnxError."""
        values = values or {}
        known = {port.name: port.type.tensor_type for port in self.proto.graph.input}
        held = {name: np.asarray(array) for name, array in values.items()}
        for name, array in held.items():
            if name not in known:
                raise OnnxError.at(self.file, f"there is no input `{name}`", f"one of {', '.join(sorted(known))}", name)
            if array.size > MOST_SPECIALIZED and name not in self.defaults:
                most = f"{MOST_SPECIALIZED} elements at most"
                raise OnnxError.at(self.file, f"the input `{name}` is too large for a constant", most, str(array.size))
            wanted = misfit_of(known[name], array)
            if wanted:
                found = f"{array.dtype} of shape {array.shape}"
                raise OnnxError.at(self.file, f"the input `{name}` is another array", wanted, found)
        return replace(
            self, values={**self.values, **held}, sizes={**self.sizes, **_numbers(self.proto, self.file, sizes or {})}
        )


def load(
    source: str | Path | bytes | onnx.ModelProto,
    *,
    values: Mapping[str, Array] | None = None,
    sizes: SizeValues | None = None,
    folder: str | Path | None = None,
    state: Mapping[str, str] | bool = False,
    capacity: int | None = None,
) -> Model:
    """Read a model: a path, the bytes of a file, or a ModelProto, whose external data is below `folder`.

    `values` are inputs that are constant, such as shapes; `sizes` says numbers for dims that the model names,
    or which other dim one equals: `{"batch": 1, "K2": "K"}`. `state`
    are inputs, each with the output that is its new value and is put where it lies: `{"h0": "hn"}`. Where that is the
    input with more behind it, by a Concat, the input is a cache with room for `capacity` there, or for as much as a
    call gives, and how much of it is used is an argument of its own, called like that dim. True: all caches. Raises
    OnnxError for what is no model, and for what no model takes; its nodes are imported when `module` is first asked
    for, and names are looked up then.
    """
    store = None
    if isinstance(source, str | Path):
        path = Path(source)
        proto, file, base = read_model(path), str(path), path.parent
        store = path.resolve().parent if path.is_symlink() and folder is None else None
    elif isinstance(source, bytes):
        proto, file, base = parsed(source, Path("<model>")), "<model>", Path()
    else:
        file, base = source.graph.name or "<model>", Path()
        proto = checked(source, Path(file))
    numbers = _numbers(proto, file, sizes or {})
    if capacity is not None and (not state or _count(capacity) < 1):
        found = f"capacity={capacity}{'' if state else ' without state'}"
        raise OnnxError.at(file, "no cache has this capacity", "a number from 1 on, beside `state`", found)
    where = Path(folder) if folder is not None else base
    model = Model(proto, file, where, {}, numbers, state, capacity, store)
    return model.specialized(values) if values else model


def _numbers(proto: onnx.ModelProto, file: str, sizes: SizeValues) -> dict[str, int | str]:
    """The sizes of dims as ints, and the names of dims that others equal. Raises OnnxError."""
    dims = {dim.dim_param for port in proto.graph.input for dim in port.type.tensor_type.shape.dim}
    for name, number in sizes.items():
        is_size = not number.isdecimal() or number in dims if isinstance(number, str) else _count(number) >= 0
        if not is_size:
            required = "an integer, 0 or more, or the name of another dim"
            raise OnnxError.at(file, f"`{name}` has no such size", required, str(number))
    return {name: number if isinstance(number, str) else _count(number) for name, number in sizes.items()}


def _count(number: object) -> int:
    """The integer that an object is; -1 where it is none."""
    return index(number) if isinstance(number, SupportsIndex) else -1


__all__ = ["Model", "Port", "load"]
