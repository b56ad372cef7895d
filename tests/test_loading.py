"""Every function that takes a payload takes a module, a model, or a path; nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tcpx

X = np.array([[1.0, -2.0, 3.0], [-1.0, 0.5, 2.0]], np.float32)
WANTED = X + X
LOOK = "language 1\nschedule s(root: func) {\n  print(root)\n}\n"


def proto() -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same payload, in every form."""
    folder = tmp_path_factory.mktemp("model")
    path = folder / "double.onnx"
    onnx.save(proto(), path)
    model = tcpx.onnx.load(path)
    tcpx.onnx.write(model, folder)
    return {
        "module": model.module,
        "model": model,
        "path": path,
        "text of a path": str(path),
        "bytes": path.read_bytes(),
        "proto": proto(),
        "payload file": folder / "model.tcp",
    }


def schedule() -> tcpx.Schedule:
    return tcpx.parse_schedule(LOOK)


CALLS: dict[str, Callable[[Any], object]] = {
    "apply_schedule": lambda p: tcpx.apply_schedule(p, schedule(), target="generic").trace.output[0].text,
    "argument_dtypes": tcpx.argument_dtypes,
    "bisect": lambda p: tcpx.bisect(p, schedule(), target="generic", sizes={"N": 1}, run_kernel=False).wrong,
    "check": lambda p: tcpx.check(schedule(), p),
    "emit": lambda p: tcpx.emit(p, schedule(), target="generic").header,
    "evaluate": lambda p: np.asarray(tcpx.evaluate(p, X)).tolist(),
    "explain": lambda p: tcpx.explain(p, schedule(), target="generic").func,
    "fingerprint": tcpx.fingerprint,
    "freeze": lambda p: tcpx.freeze(p, schedule(), target="generic"),
    "loop_nest": tcpx.loop_nest,
    "random_inputs": lambda p: [array.tolist() for array in tcpx.random_inputs(p, 1, sizes={"N": 2})],
    "search_space": lambda p: tcpx.search_space(p, schedule(), target="generic").variables,
    "verify_steps": lambda p: tcpx.verify_steps(p, schedule(), target="generic", sizes={"N": 1}).wrong,
}
FORMS = ("model", "path", "text of a path", "bytes", "proto", "payload file")


@pytest.mark.parametrize("name", CALLS)
def test_every_form_is_the_same_payload(name: str, payloads: dict[str, Any]) -> None:
    wanted = CALLS[name](payloads["module"])
    for form in FORMS:
        assert CALLS[name](payloads[form]) == wanted, form


def test_what_compiles(payloads: dict[str, Any]) -> None:
    path = payloads["path"]
    np.testing.assert_array_equal(tcpx.compile(path, schedule(), target="generic")(X), WANTED)
    request = tcpx.CompileRequest(path, schedule())
    np.testing.assert_array_equal(tcpx.compile_many([request], target="generic")[0](X), WANTED)
    assert tcpx.bisect_values(path, schedule(), X, target="generic").wrong is None
    assert tcpx.profile(path, schedule(), X, seconds=0.001).calls > 0


@pytest.mark.parametrize("form", ["model", "path", "bytes", "proto"])
def test_sessions_and_writing_take_every_form_of_a_model(form: str, payloads: dict[str, Any], tmp_path: Path) -> None:
    model = payloads[form]
    found = tcpx.onnx.Session(model, schedule(), target="generic")({"x": X})
    np.testing.assert_array_equal(found["y"], WANTED)
    (text,) = tcpx.onnx.write(model, tmp_path)
    np.testing.assert_array_equal(tcpx.evaluate(text, X), WANTED)
    bisected = tcpx.onnx.bisect(model, {"x": X}, schedule(), against="evaluator", target="generic")
    assert bisected.wrong is None


def test_a_module_is_written_too(payloads: dict[str, Any], tmp_path: Path) -> None:
    (text,) = tcpx.onnx.write(payloads["module"], tmp_path)
    assert tcpx.fingerprint(text) == tcpx.fingerprint(payloads["module"])


def test_the_folder_of_a_written_model_is_made(payloads: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "of" / "models"
    assert tcpx.onnx.write(payloads["model"], folder) == (folder / "model.tcp",)
    np.testing.assert_array_equal(tcpx.evaluate(folder / "model.tcp", X), WANTED)
    with pytest.raises(FileExistsError):
        tcpx.onnx.write(payloads["model"], folder / "model.tcp")


def test_tune_takes_a_path(payloads: dict[str, Any]) -> None:
    """As far as it asks for the sizes of the payload."""
    with pytest.raises(tcpx.ArgumentError, match="the size `N` of argument `x` is not known"):
        tcpx.tune(payloads["path"], schedule(), target="generic", trials=1)


@pytest.mark.parametrize("name", CALLS)
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(tcpx.ArgumentError) as raised:
        CALLS[name](3)
    assert raised.value.diagnostic.render() == (
        "definite error: this is no payload\n"
        "  required: what `tcpx.load`, `tcpx.parse` or the builder gives, a model, or the path of a file\n"
        "  found: something of the Python type int"
    )


def test_a_text_is_no_path() -> None:
    with pytest.raises(tcpx.ArgumentError) as raised:
        tcpx.fingerprint("func @f() {\n}")
    assert raised.value.diagnostic.fix == "tcpx.parse(text)"


def test_what_is_no_model(payloads: dict[str, Any]) -> None:
    with pytest.raises(tcpx.ArgumentError) as raised:
        tcpx.onnx.Session(payloads["module"])
    assert raised.value.diagnostic.message == "this is no model"
    assert raised.value.diagnostic.fix == "tcpx.compile(module), whose kernel takes arrays by name"
    with pytest.raises(tcpx.ArgumentError, match="this is no model"):
        tcpx.onnx.write(None, ".")  # pyright: ignore[reportArgumentType]
