"""76 exports of eight small modules by both exporters of PyTorch compute what ONNX Runtime does, at two sizes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.optional_tools import ONNXRUNTIME, ONNXSCRIPT, TORCH

CASES = ("convolutions", "attention", "recurrent", "words", "resampled", "gated", "windows", "indexed")
SCRIPTED = (11, 13, 14, 16, 17, 20)
TRACED = (17, 18, 21, 23)
NOT_WRITTEN = frozenset(("attention-scripted-11", "attention-scripted-13", "indexed-scripted-11", "gated-traced-17"))
"""Operators that the exporter does not have in these opsets, or that it writes as ONNX Runtime does not read them."""
EXPORTS = [
    (case, kind, opset)
    for case in CASES
    for kind, opsets in (("scripted", SCRIPTED), ("traced", TRACED))
    for opset in opsets
    if f"{case}-{kind}-{opset}" not in NOT_WRITTEN
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    TORCH.needed,
    ONNXRUNTIME.needed,
    ONNXSCRIPT.needed,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*Converting a tensor:Warning"),
]


def test_there_are_69_or_more() -> None:
    assert len(EXPORTS) == 76


@pytest.mark.parametrize(("case", "kind", "opset"), EXPORTS)
def test_an_export(case: str, kind: str, opset: int, tmp_path: Path) -> None:
    family: Any = import_module("tests.frontends.onnx.exported_modules")
    path = str(tmp_path / "model.onnx")
    export = family.Export(family.CASES[case], opset, kind == "traced")
    export.write(path)
    runtime: Any = import_module("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    module = tcpx.onnx.load(path).module
    kernel = tcpx.compile(module) if opset in (17, 21) else None
    for shape in (export.case.shape, export.case.other):
        x = export.case.drawn(shape).numpy()
        wanted = session.run(None, {"x": x})[0]
        for found in (tcpx.evaluate(module, x), *([kernel(x)] if kernel is not None else [])):
            ours: Any = found
            assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-5)
