"""Models of ONNX, read and called: `tcpx.onnx.load`. Needs the extra `onnx`."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from tcpx.api import apply_schedule, compile, parse_schedule
from tcpx.emit_c.kernel import Kernel
from tcpx.frontends.onnx import Finding, Model, OnnxError, Port, UnsupportedError, load
from tcpx.frontends.onnx.reference import RUNTIMES, values_of
from tcpx.interp import ParamValue
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, python_type_of
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Module
from tcpx.payload.safetensors import write_safetensors
from tcpx.payload.text.printer import print_module
from tcpx.records import brief
from tcpx.target import Target
from tcpx.transform.language.embedded import Schedulable
from tcpx.verification.values import EVALUATOR, ValueBisection, bisect_values

__all__ = [
    "Finding",
    "Model",
    "OnnxError",
    "OnnxModel",
    "Port",
    "Session",
    "UnsupportedError",
    "bisect",
    "load",
    "write",
]

OnnxModel = Model | str | Path | bytes | onnx.ModelProto
"""What functions of models take: `model_of` converts it."""
MOST_KERNELS: Final = 16
"""Of a session: one for each combination of values of inputs that have to be constant."""


BLOCKS: Final = """language 2
import "lib/attention.tcps" as attention
schedule blocks(root: func) {
  attention.masks(root)  // of positions, which would be data where they are arguments
  optional outline_repeats(root)
}
"""
"""What makes functions of equal blocks, as the default schedule does."""


def model_of(model: OnnxModel) -> Model:
    """The model that is given, or of the file, the bytes or the ModelProto. Raises ArgumentError for anything else, and
    what `load` raises."""
    match model:
        case Model():
            return model
        case str() | Path() | bytes() | onnx.ModelProto():
            return load(model)
        case _:
            fix = "tcpx.compile(module), whose kernel takes arrays by name" if isinstance(model, Module) else None
            required = "a model that `tcpx.onnx.load` gives, the path of a file, its bytes, or an onnx.ModelProto"
            raise ArgumentError(Diagnostic("this is no model", required=required, found=python_type_of(model), fix=fix))


def write(model: OnnxModel | Module, folder: str | Path) -> tuple[Path, ...]:
    """Write the payload of a model as `model.tcp`, in which equal blocks are one function, and its weights as
    `model.safetensors`, to a folder, which is made if it is missing; `tcpx.load` reads them. Returns the files. Raises
    OnnxError, and OSError where they cannot be written."""
    if "\0" in str(folder):
        required = "a folder, whose path has no NUL character"
        raise ArgumentError(Diagnostic("the model cannot be written", required=required, found=repr(str(folder))))
    text, weights = Path(folder) / "model.tcp", Path(folder) / "model.safetensors"
    payload = model if isinstance(model, Module) else model_of(model).module
    module, constants = apply_schedule(payload, parse_schedule(BLOCKS, "blocks.tcps")).module, payload.constants
    arrays = {name: array for name in constants if (array := constants.get(name)) is not None}
    Path(folder).mkdir(parents=True, exist_ok=True)
    if arrays:
        write_safetensors(weights, arrays)
    source, module.constants.source = module.constants.source, weights.name if arrays else ""
    try:
        text.write_text(print_module(module), encoding="utf-8")
    finally:
        module.constants.source = source
    return (text, weights) if arrays else (text,)


def bisect(
    model: OnnxModel,
    arrays: Mapping[str, Array],
    schedule: Schedulable | None = None,
    *,
    against: str = "ort",
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    on_probe: Callable[[int], None] = lambda count: None,
) -> ValueBisection:
    """Find the node whose result is wrong for these inputs, by name: in the payload, against all values that ONNX
    Runtime (`ort`) or the reference of the package `onnx` (`onnx`) computes, then in the compiled kernel, against the
    reference evaluator; with `evaluator` only there (`tcpx.bisect_values`). Raises OnnxError and ArgumentError."""
    model = model_of(model)
    given = _in_order(model, arrays)
    others = None if against == "evaluator" else values_of(model, arrays, against)
    return bisect_values(
        model.module,
        schedule,
        *(np.asarray(array) for array in given),
        others=others,
        against=RUNTIMES.get(against, EVALUATOR),
        params=params,
        target=target,
        threads=threads,
        on_probe=on_probe,
    )


class Session:
    """A model that is called with arrays by name. It is compiled when it is called first, and again for other values of
    inputs that have to be constant, such as shapes; the last 16 kernels are kept."""

    def __init__(
        self,
        model: OnnxModel,
        schedule: Schedulable | None = None,
        *,
        target: str | Target = "native",
        threads: int = 1,
    ) -> None:
        self.model, self.schedule, self.target, self.threads = model_of(model), schedule, target, threads
        self._needed: tuple[str, ...] = ()
        self._kernels: OrderedDict[tuple[bytes, ...], tuple[Model, Kernel]] = OrderedDict()

    def __repr__(self) -> str:
        return brief("Session", f"of {self.model!r}, {len(self._kernels)} kernel(s)")

    def specialized(self, arrays: Mapping[str, Array]) -> Model:
        """The model with the inputs constant whose value it has to know. Raises OnnxError, and ArgumentError where one
        of them is not given."""
        model = self.model
        while model.needs:
            missing = [name for name in model.needs if name not in arrays]
            if missing:
                raise _missing(missing, arrays)
            model = model.specialized({name: arrays[name] for name in model.needs})
        return model

    def kernel(self, arrays: Mapping[str, Array]) -> tuple[Model, Kernel]:
        """The model for these arrays, and its kernel."""
        key = tuple(_bytes(arrays.get(name)) for name in self._needed)
        if key not in self._kernels:
            model = self.specialized(arrays)
            if len(model.values) != len(self._needed):  # found out now: nothing is kept by fewer of them
                self._needed = tuple(model.values)
                self._kernels.clear()
                key = tuple(_bytes(arrays.get(name)) for name in self._needed)
            made = compile(model.module, self.schedule, target=self.target, threads=self.threads)
            self._kernels[key] = model, made
            if len(self._kernels) > MOST_KERNELS:
                self._kernels.popitem(last=False)
        self._kernels.move_to_end(key)
        return self._kernels[key]

    def __call__(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises OnnxError and ArgumentError."""
        held = {name: np.asarray(array) for name, array in arrays.items()}
        model, kernel = self.kernel(held)
        results = kernel(*_in_order(model, held))
        return dict(zip(model.outputs, results if isinstance(results, tuple) else (results,), strict=True))


def _bytes(array: Array | None) -> bytes:
    return b"" if array is None else str((array.dtype, array.shape)).encode() + np.ascontiguousarray(array).tobytes()


def _in_order(model: Model, arrays: Mapping[str, Array]) -> list[Array]:
    """The arrays of the arguments. Raises ArgumentError where one is not given, or a name is none of the model's."""
    names = [port.name for port in model.inputs]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise _missing(missing, arrays)
    unknown = [name for name in arrays if name not in names and name not in model.values]
    if unknown:
        found = f"`{unknown[0]}`"
        constant = unknown[0] in (port.name for port in model.proto.graph.input)
        fix = f'model.specialized({{"{unknown[0]}": value}})' if constant else None
        message = f"{found} is a constant of the model" if constant else f"the model has no input {found}"
        raise ArgumentError(Diagnostic(message, required=f"arrays for {', '.join(names)}", found=found, fix=fix))
    return [arrays[name] for name in names]


def _missing(names: list[str], arrays: Mapping[str, Array]) -> ArgumentError:
    shown = ", ".join(f"`{name}`" for name in names)
    return ArgumentError(
        Diagnostic(f"nothing is given for {shown}", required=f"an array for {shown}", found=", ".join(arrays) or "none")
    )
