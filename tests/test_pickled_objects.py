"""Errors and targets go to other processes, and copies are equal."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
import tcpx.onnx
from tcpx.frontends.onnx.errors import OnnxError, UnsupportedError
from tcpx.interp.navigation import UnknownNameError
from tcpx.payload.diagnostics import Diagnostic, Location, TcpxError

PLACE = Location("f.tcp", 2, 3)
DIAGNOSTIC = Diagnostic("no", required="a", found="b", fix="c")
ERRORS = [
    tcpx.ArgumentError(DIAGNOSTIC),
    tcpx.TargetError("no", required="a", found="b", where="x.yaml"),
    UnknownNameError(DIAGNOSTIC, "m"),
    OnnxError(DIAGNOSTIC, ["N"]),
    UnsupportedError(DIAGNOSTIC, ["N"], []),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors(error: TcpxError) -> None:
    for found in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert vars(found) == vars(error)
    placed = error.with_places(payload=PLACE)
    assert type(placed) is type(error)
    assert (placed.diagnostic.payload, error.diagnostic.payload) == (PLACE, None)
    assert vars(placed) == {**vars(error), "diagnostic": placed.diagnostic}
    assert "f.tcp:2:3" in str(placed)


def test_the_error_of_a_text() -> None:
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse("func @f(")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_targets(tmp_path: Path) -> None:
    for name in ("generic", "x86_avx512+", "sapphire_rapids"):
        target = tcpx.load_target(name)
        found = pickle.loads(pickle.dumps(target))
        assert (found.spec, found.features, found.rows) == (target.spec, target.features, target.rows)
        assert copy.deepcopy(target) is target
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine\nbase: generic.yaml\nl1: 16384\n", encoding="utf-8")
    with pytest.raises(tcpx.TargetError, match="found: mine, whose table is a file"):
        pickle.dumps(tcpx.load_target(mine))


def test_sources() -> None:
    text = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> { %y = tcp.exp(%x) : tensor<4xf32> tcp.return(%y) }"
    source = tcpx.emit(tcpx.parse(text), target="generic")
    found = pickle.loads(pickle.dumps(source))
    assert found == source
    assert found.files == source.files


def copies(value: Any) -> list[Any]:
    return [pickle.loads(pickle.dumps(value)), copy.deepcopy(value)]


@pytest.fixture(scope="module")
def payload() -> tcpx.Module:
    rows = "tensor<[N]x8xf32>"
    body = f"%y = tcp.matmul(%x, %w) : {rows} %z = tcp.softmax(%y) {{dim = 1}} : {rows} tcp.return(%z)"
    return tcpx.parse(f"func @f(%x: {rows}, %w: tensor<8x8xf32>) -> {rows} symbols [N: 1..64] {{ {body} }}")


def test_explanations_and_runs(payload: tcpx.Module) -> None:
    explanation = tcpx.explain(payload, target="generic")
    run = tcpx.apply_schedule(payload, None, target="generic")
    for found in copies(explanation):
        assert tcpx.html_page(found) == tcpx.html_page(explanation)
        assert [step.nest for step in found.steps] == [step.nest for step in explanation.steps]
    for found in copies(run):
        assert (found.module.text(), found.trace.entries[-1].nest) == (run.module.text(), run.trace.entries[-1].nest)


def test_search_spaces(payload: tcpx.Module) -> None:
    space = tcpx.search_space(payload, target="generic")
    defaults: dict[str, Any] = {}
    for variable in space.variables:
        defaults[variable.path] = variable.default_value(defaults)
    for found in copies(space):
        assert [v.path for v in found.variables] == [v.path for v in space.variables]
        for one, other in zip(found.variables, space.variables, strict=True):
            assert one.items(defaults) == other.items(defaults)
            assert one.is_active(defaults) == other.is_active(defaults)
        for one, other in zip(found.constraints, space.constraints, strict=True):
            assert one.holds(defaults) == other.holds(defaults)
            assert one.may_hold({}) == other.may_hold({})


def test_kernels_profiles_and_bound_calls(payload: tcpx.Module) -> None:
    arrays = tcpx.random_inputs(payload, sizes={"N": 5})
    kernel = tcpx.compile(payload, target="generic")
    for found in copies(kernel):
        np.testing.assert_array_equal(found(*arrays), kernel(*arrays))
    profile = tcpx.profile(payload, None, *arrays, target="generic", seconds=0.001)
    assert copies(profile) == [profile, profile]
    for refused in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"pickle `bound.kernel`, and call `kernel.bind\(..\)` where it is loaded"):
            refused(kernel.bind(*arrays))


def test_sessions() -> None:
    helper = import_module("onnx.helper")
    values = [helper.make_tensor_value_info(name, 1, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = np.array([-1, 2, -3, 4], np.float32)
    session = tcpx.onnx.Session(proto, target="generic")
    for given in (session, *copies(session)):
        np.testing.assert_array_equal(given({"x": x})["y"], [0, 2, 0, 4])
    for found in copies(session):  # with its kernel
        np.testing.assert_array_equal(found({"x": x})["y"], [0, 2, 0, 4])
