"""What functions take as a payload: a module, a model, or the path of a file."""

from importlib import import_module
from pathlib import Path
from typing import Protocol

from tcpx.payload.diagnostics import unusable_argument
from tcpx.payload.given import path_of
from tcpx.payload.ir import Module

__all__ = ["PayloadLike", "load", "module_of"]


class ModelLike(Protocol):
    """A model that was read, `tcpx.onnx.Model`."""

    @property
    def module(self) -> Module: ...


class ProtoLike(Protocol):
    """A model in memory, `onnx.ModelProto`."""

    @property
    def graph(self) -> object: ...
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - the name that protobuf gives it


PayloadLike = Module | ModelLike | ProtoLike | str | Path | bytes
"""What every function takes that takes a payload: `module_of` converts it."""


def load(path: str | Path) -> Module:
    """The module in a payload file; its constants lie beside it. Of an `.onnx` file that of the model (`tcpx.onnx`).
    Raises ParseError, VerifyError, and OnnxError."""
    path = path_of(path, "a payload")
    if path.suffix == ".onnx":
        model: ModelLike = import_module("tcpx.frontends.onnx").load(path)  # needs an extra
        return model.module
    from tcpx.payload.text.parser import load as load_text  # a run of a known kernel imports no parser

    return load_text(path)


def module_of(payload: PayloadLike) -> Module:
    """The module of what is given as a payload. Raises ArgumentError for anything else, and what `load` raises."""
    if isinstance(payload, Module):
        return payload
    if isinstance(payload, Path) or (isinstance(payload, str) and "\n" not in payload):
        return load(payload)
    if isinstance(payload, bytes) or (hasattr(payload, "graph") and hasattr(payload, "SerializeToString")):
        model: ModelLike = import_module("tcpx.frontends.onnx").load(payload)  # needs an extra
        return model.module
    module = getattr(payload, "module", None)
    if isinstance(module, Module):
        return module
    required = "what `tcpx.load`, `tcpx.parse` or the builder gives, a model, or the path of a file"
    raise unusable_argument("payload", payload, required, "load")
