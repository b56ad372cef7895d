"""Models that break a rule of ONNX, also those that come as a message and not as a file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tcpx
from tcpx.frontends.onnx.operators import RULES
from tcpx.payload.diagnostics import Kind
from tests.frontends.onnx.models import model_of


def _twice(kind: str) -> onnx.ModelProto:
    """In which two things have one name."""
    model = model_of("f (float[n] x, float[n] z) => (float[n] y) <float w = {1}> { y = Add(x, w) }")
    match kind:
        case "node":
            model.graph.node.append(helper.make_node("Neg", ["x"], ["y"]))
        case "input":
            model.graph.input[1].name = "x"
        case _:
            model.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "w"))
    return model


def _opsets(*versions: int) -> onnx.ModelProto:
    model = model_of("f (float[n] x) => (float[n] y) { y = Dropout(x) }")
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid("", version) for version in versions)
    return model


NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(
    ("made", "message", "found"),
    [
        (lambda: _twice("node"), "computes a value that is there already", "`y`"),
        (lambda: _twice("input"), "`x` stands twice", "`x`"),
        (lambda: _twice("initializer"), "`w` stands twice", "`w`"),
        (lambda: _opsets(5), "dropout with random numbers: `is_test` is 0", "1 other node(s)"),
        (lambda: _opsets(NEWEST + 1), "cannot read the model", f"opset {NEWEST + 1}"),
        (lambda: _opsets(21, 13), "cannot read the model", "opsets 21 and 13"),
        (onnx.ModelProto, "cannot read the model", "no graph"),
    ],
    ids=("a node", "an input", "a weight", "old", "new", "two opsets", "nothing"),
)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_refused(made: Callable[[], onnx.ModelProto], as_bytes: bool, message: str, found: str) -> None:
    model = made()
    with pytest.raises(tcpx.onnx.OnnxError, match=message) as error:
        _ = tcpx.onnx.load(model.SerializeToString() if as_bytes else model).module
    assert error.value.diagnostic.found == found


def test_operators_that_are_the_same_since_an_old_opset() -> None:
    model = model_of("f (bool[n] x) => (bool[n] y) { y = Not(x) }", opset=5)
    assert [op.opcode for op in tcpx.onnx.load(model).module.main.body.ops] == ["tcp.not", "tcp.return"]


def test_a_rule_that_fails_in_silence_is_a_bug_that_names_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(node: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setitem(RULES, "Neg", rule)
    with pytest.raises(tcpx.onnx.OnnxError) as caught:
        _ = tcpx.onnx.load(model_of("f (float[n] x) => (float[n] y) { y = Neg(x) }")).module
    diagnostic = caught.value.diagnostic
    assert diagnostic.kind is Kind.INTERNAL
    assert diagnostic.message.startswith("the rule of Neg failed in a way it does not explain, at `")
    assert diagnostic.found == "IndexError: list index out of range"
    assert diagnostic.payload is not None
