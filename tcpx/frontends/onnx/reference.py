"""What other implementations compute for a model: ONNX Runtime, and the reference of the package `onnx`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import onnx

from tcpx.frontends.onnx.errors import OnnxError
from tcpx.frontends.onnx.model import Model
from tcpx.frontends.onnx.node import identifier
from tcpx.frontends.onnx.reading import TensorReader
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.evaluator import Array

RUNTIMES: Final[Mapping[str, str]] = {"ort": "ONNX Runtime", "onnx": "the reference of ONNX"}


def values_of(model: Model, arrays: Mapping[str, Array], against: str) -> dict[str, Array]:
    """All values of the graph for these inputs, by their names in the payload. `against` is one of `RUNTIMES`; `ort`
    needs the package `onnxruntime`. Raises ArgumentError, and OnnxError where it does not run the model."""
    if against not in RUNTIMES:
        required = f"one of {', '.join(RUNTIMES)}"
        raise ArgumentError(Diagnostic(f"nothing is known of `{against}`", required=required, found=against))
    if against == "ort" and find_spec("onnxruntime") is None:
        raise ArgumentError(
            Diagnostic(
                "ONNX Runtime is not installed",
                required="the package onnxruntime",
                found="no such package",
                fix="pip install onnxruntime, or --against onnx",
            )
        )
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    reads = TensorReader(model.file, model.folder, model.store)
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(reads(tensor)), tensor.name))
    onnx.load_external_data_for_model(proto, str(model.folder))
    known = {output.name for output in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    given = {**model.values, **arrays}
    feeds = {port.name: given[port.name] for port in proto.graph.input if port.name in given}
    wanted = [output.name for output in proto.graph.output]
    try:
        found = _run(proto, wanted, feeds, against)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise OnnxError.at(model.file, f"{RUNTIMES[against]} does not run the model", "results", said[:400]) from error
    arrays_found = zip(wanted, found, strict=True)
    return {identifier(name): array for name, array in arrays_found if isinstance(array, np.ndarray)}


def _run(proto: onnx.ModelProto, wanted: list[str], feeds: Mapping[str, Array], against: str) -> list[Any]:
    if against == "onnx":
        evaluator: Any = import_module("onnx.reference").ReferenceEvaluator(proto)
        return evaluator.run(wanted, dict(feeds))
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(wanted, dict(feeds))


__all__ = ["RUNTIMES", "values_of"]
