"""ONNX's own tests of nodes and small models, through its own runner: each by the reference evaluator, then by the
compiled kernel."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

import tcpx
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import dtype_of_onnx

LISTED = [Path(__file__).with_name(name) for name in ("not_passing.txt", "not_passing_models.txt")]
SUITES = {
    "node": "OnnxBackendNodeModelTest", "simple": "OnnxBackendSimpleModelTest",
    "pytorch-converted": "OnnxBackendPyTorchConvertedModelTest",
    "pytorch-operator": "OnnxBackendPyTorchOperatorModelTest",
}  # fmt: skip
"""Those that the package ships with its models, by what its loader calls them."""
FAILURES = (tcpx.TcpxError, AssertionError)


@cache
def listed() -> dict[str, str]:
    """The tests that do not pass, each with its reason."""
    found: dict[str, str] = {}
    for path in LISTED:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        entries = [(name, reason) for name, _, reason in (line.partition(": ") for line in lines)]
        assert [name for name, _ in entries] == sorted({name for name, _ in entries}), "sorted, each once"
        assert all(reason for _, reason in entries), "each with a reason"
        assert found.keys().isdisjoint(dict(entries)), "in one of the lists"
        found.update(entries)
    return found


@cache
def models() -> dict[str, onnx.ModelProto]:
    """The models of the tests of nodes that concern us, in the default domain with tensors of supported dtypes, and of
    all tests of the other suites. By the name of the test."""
    found: dict[str, onnx.ModelProto] = {}
    for kind in SUITES:
        with warnings.catch_warnings(action="ignore"):  # of the arithmetic of what is expected
            cases = load_model_tests(kind=kind)
        for case in cases:
            model = case.model if case.model is not None else onnx.load(f"{case.model_dir}/model.onnx")
            if kind != "node" or _concerns_us(model):
                assert case.name not in found, "one test of a name"
                found[case.name] = model
    return found


def _concerns_us(model: onnx.ModelProto) -> bool:
    ports = [*model.graph.input, *model.graph.output]
    return all(opset.domain == "" for opset in model.opset_import) and all(map(_is_supported, ports))


def _is_supported(port: onnx.ValueInfoProto) -> bool:
    if port.type.WhichOneof("value") != "tensor_type":
        return False
    try:
        dtype_of_onnx(port.type.tensor_type.elem_type)
    except Unsupported:
        return False
    return True


def sample(count: int) -> list[str]:
    """Tests that pass, all operators in turn, small models first."""
    rows: dict[str, list[tuple[int, str]]] = {}
    for name, model in models().items():
        if name not in listed() and not name.endswith("_expanded"):
            rows.setdefault(model.graph.node[0].op_type, []).append((_elements(model), name))
    queues = [sorted(row) for _, row in sorted(rows.items())]
    turns = [row[k][1] for k in range(max(map(len, queues))) for row in queues if k < len(row)]
    return turns[:count]


def _elements(model: onnx.ModelProto) -> int:
    shapes = [[d.dim_value for d in p.type.tensor_type.shape.dim] for p in (*model.graph.input, *model.graph.output)]
    return sum(int(np.prod(shape)) for shape in shapes)


@dataclass
class Prepared(BackendRep):
    """A model that is imported for its inputs when it is called. The first call evaluates the payload, and notes it;
    the second one calls its kernel."""

    model: tcpx.onnx.Model
    noted: list[tuple[tcpx.Module, Sequence[Any]]]
    kernels: Iterator[tcpx.Kernel] | None

    def run(self, inputs: Sequence[Any], **kwargs: object) -> tuple[Any, ...]:
        arrays = dict(zip((port.name for port in self.model.proto.graph.input), map(np.asarray, inputs), strict=False))
        model = tcpx.onnx.Session(self.model).specialized(arrays)
        given = [arrays[port.name] for port in model.inputs]
        if self.kernels is None:
            self.noted.append((model.module, given))
            made = tcpx.evaluate(model.module, *given)
        else:
            made = next(self.kernels)(*given)
        return made if isinstance(made, tuple) else (made,)


@dataclass
class TcpxBackend(Backend):
    """What ONNX's runner calls."""

    noted: list[tuple[tcpx.Module, Sequence[Any]]] = field(default_factory=list)
    kernels: Iterator[tcpx.Kernel] | None = None

    def prepare(self, model: onnx.ModelProto, device: str = "CPU", **kwargs: object) -> Prepared:
        return Prepared(tcpx.onnx.load(model), self.noted, self.kernels)

    def supports_device(self, device: str) -> bool:
        return device == "CPU"


@cache
def suite() -> tuple[TcpxBackend, dict[str, Any]]:
    """The runner of ONNX with our backend, and the class of each of its tests, by name."""
    backend = TcpxBackend()
    with warnings.catch_warnings(action="ignore"):
        classes = BackendTest(cast("type[Backend]", backend), __name__).test_cases
    return backend, {name: classes[held] for held in SUITES.values() for name in vars(classes[held])}


def failures(names: Sequence[str]) -> dict[str, str]:
    """What goes wrong in tests, by their names: by the evaluator, or else by kernels, which are compiled together."""
    backend, cases = suite()
    found: dict[str, str] = {}
    right: list[str] = []
    payloads: list[tcpx.Module] = []
    for name in names:
        backend.noted, backend.kernels = [], None
        try:
            getattr(cases[f"{name}_cpu"](f"{name}_cpu"), f"{name}_cpu")()
        except FAILURES as error:
            found[name] = _words(error)
            continue
        right.append(name)
        payloads += [module for module, _ in backend.noted]
    requests = [tcpx.CompileRequest(module, name=f"k{k}") for k, module in enumerate(payloads)]
    backend.kernels = iter(_compiled(requests))
    for name in right:
        try:
            getattr(cases[f"{name}_cpu"](f"{name}_cpu"), f"{name}_cpu")()
        except FAILURES as error:
            found[name] = f"compiled: {_words(error)}"
    return found


def _compiled(requests: list[tcpx.CompileRequest]) -> list[tcpx.Kernel]:
    return tcpx.compile_many(requests) if requests else []


def _words(error: Exception) -> str:
    return re.sub(r"\s+", " ", str(error))[:300]
