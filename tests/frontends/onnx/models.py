"""Models as text, and what runs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.reference

import tcpx

HEAD = '<ir_version: 10, opset_import: ["" : {opset}]>\n'


def model_of(text: str, opset: int = 21) -> onnx.ModelProto:
    """A model of a graph in ONNX's own text."""
    return onnx.parser.parse_model(HEAD.format(opset=opset) + text)


def loaded(text: str, opset: int = 21, **options: Any) -> tcpx.onnx.Model:
    return tcpx.onnx.load(model_of(text, opset), **options)


def agrees(model: onnx.ModelProto, **arrays: np.ndarray) -> None:
    """The outputs of a compiled kernel, and of the evaluator, are those of ONNX's reference."""
    wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, dict(arrays))
    session = tcpx.onnx.Session(tcpx.onnx.load(model))
    found: Any = session(arrays)
    special = session.specialized(arrays)
    evaluated = tcpx.evaluate(special.module, *(arrays[port.name] for port in special.inputs))
    oracle: Any = evaluated if isinstance(evaluated, tuple) else (evaluated,)
    for ours, theirs, reference in zip(found.values(), oracle, wanted, strict=True):
        assert ours.dtype == reference.dtype
        np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(theirs, reference, rtol=2e-5, atol=1e-6)
