"""The node of a model that is computed wrong is named: by a weight, by a step of the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tcpx
from tcpx.cli.command import execute
from tcpx.payload.ops.elementwise import Mul
from tcpx.payload.ops.movement import Fill
from tcpx.payload.rewriter import InsertPoint
from tcpx.transform import declaration
from tcpx.transform.declaration import OP, Arguments, Category, Parameter, Results, Transform, TransformContext
from tests.frontends.onnx.models import model_of
from tests.optional_tools import ONNXRUNTIME

LAYERS = 5
TEXT = (
    "layers (float[batch,16] x) => (float[batch,16] y)\n<"
    + ", ".join(f"float[16,16] w{k} = {{{', '.join(['0'] * 256)}}}" for k in range(LAYERS))
    + ">\n{\n"
    + "\n".join(f"p{k} = MatMul({f'h{k - 1}' if k else 'x'}, w{k})\nh{k} = Tanh(p{k})" for k in range(LAYERS))
    + f"\ny = Neg(h{LAYERS - 1})\n}}"
)
AROUND = "language 1\nschedule s(root: func) {\n  optional outline_repeats(root, least: 2)\nSTEP}\n"


class Skew(Transform):
    """Make the result of an operation a hundredth larger."""

    name = "tilt"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("x", OP),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("x")
        value = op.result
        users = [user for user, _ in value.uses]
        at = InsertPoint.after(op)
        factor = ctx.rewriter.insert(Fill([], [value.type], {"value": 1.01}), at, "factor")
        made = ctx.rewriter.insert(Mul([value, factor.result], [value.type]), InsertPoint.after(factor), "tilted")
        ctx.rewriter.replace_uses(value, made.result, lambda user: user in users)
        return ()


@pytest.fixture
def tilt() -> Iterator[None]:
    """Schedules may say `tilt(x)` for the length of a test."""
    declaration.transforms()
    declaration.register(Skew)
    yield
    del declaration._REGISTRY[Skew.name]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of a model of several layers, whose nodes have names."""
    proto = model_of(TEXT)
    draw = np.random.default_rng(0)
    for tensor in proto.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(draw.standard_normal((16, 16), np.float32), tensor.name))
    for node in proto.graph.node:
        node.name = f"/model/{node.output[0]}/{node.op_type}"
    made = tmp_path / "layers.onnx"
    onnx.save(proto, made)
    return made


@pytest.fixture
def arrays() -> dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal((3, 16), np.float32)}


def schedule(step: str = "") -> tcpx.Schedule:
    return tcpx.parse_schedule(AROUND.replace("STEP", f"  {step}\n" if step else ""))


def test_nothing_is_wrong(path: Path, arrays: dict[str, Any]) -> None:
    found = tcpx.onnx.bisect(tcpx.onnx.load(path), arrays, schedule(), against="onnx", target="generic")
    assert (found.wrong, found.kernels, found.compared, found.diagnostic()) == (None, 1, 2 * LAYERS + 1, None)


@pytest.mark.parametrize("against", ["onnx", pytest.param("ort", marks=ONNXRUNTIME.needed)])
def test_a_wrong_weight(path: Path, arrays: dict[str, Any], against: str) -> None:
    model = tcpx.onnx.load(path)
    wrong = np.array(model.weights["w2"])
    wrong[3, 5] += 0.5
    model.module.constants.put("w2", wrong)
    found = tcpx.onnx.bisect(model, arrays, schedule(), against=against, target="generic")
    assert found.wrong is not None
    assert (found.wrong.operation.name, found.wrong.value, found.kernels) == ("model/p2/MatMul", "p2", 0)
    assert (found.wrong.deviation.wrong, found.wrong.deviation.total) == (3, 48)
    diagnostic = found.diagnostic()
    assert diagnostic is not None
    assert diagnostic.message.startswith("%model/p2/MatMul: the payload computes something else than ")
    assert "/model/p2/MatMul: p2 = MatMul(h1, w2)" in diagnostic.render()
    assert "3 of 48 elements; the largest deviation is 0." in diagnostic.render()


@pytest.mark.usefixtures("tilt")
def test_a_wrong_step(path: Path, arrays: dict[str, Any]) -> None:
    program = schedule('for x in match any op in root where name == "model/h0/Tanh" { tilt(x) }')
    found = tcpx.onnx.bisect(tcpx.onnx.load(path), arrays, program, against="evaluator", target="generic")
    assert found.wrong is not None
    assert found.kernels <= 6
    assert found.wrong.operation.name == "model/h0/Tanh"
    assert found.wrong.function == "layers.model_h1_Tanh"
    assert found.wrong.step is not None
    assert found.wrong.step.step.transform == "tilt"
    diagnostic = found.diagnostic()
    assert diagnostic is not None
    shown = diagnostic.render()
    assert "%model/h0/Tanh of @layers" in shown
    assert "the compiled kernel computes it wrong, from operands that are right" in shown
    assert "<schedule>:4:" in shown
    assert "`tilt(x)`, changes the numbers" in shown


@pytest.mark.usefixtures("tilt")
def test_in_the_shell(path: Path, arrays: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    text = path.with_suffix(".tcps")
    text.write_text(AROUND.replace("STEP", '  for x in match any op in root where name == "model/y/Neg" { tilt(x) }\n'))
    np.save(path.with_name("x.npy"), arrays["x"])
    given = ["bisect", str(path), "-s", str(text), "--target", "generic", "--input", f"x={path.with_name('x.npy')}"]
    assert execute([*given, "--against", "onnx"]) == 1
    shown = capsys.readouterr()
    assert f"{2 * LAYERS + 1} values of the payload compared with those of onnx" in shown.out
    assert "%model/y/Neg: the compiled kernel computes it wrong" in shown.err
    assert "48 of 48 elements; the largest deviation is 0.0" in shown.err
    assert execute(given) == 2
    assert "--input needs --against" in capsys.readouterr().err
    payload = path.with_name("f.tcp")
    payload.write_text(
        "func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %y = tcp.exp(%x) : tensor<8xf32>\n  tcp.return(%y)\n}\n"
    )
    assert execute(["bisect", str(payload), "--against", "evaluator"]) == 0
    assert "the compiled kernel gives what the reference evaluator does" in capsys.readouterr().out
    assert execute(["bisect", str(payload), "--against", "ort"]) == 2
    assert "--against ort needs a model" in capsys.readouterr().err


@pytest.mark.usefixtures("tilt")
def test_a_schedule_that_needs_the_whole(path: Path, arrays: dict[str, Any]) -> None:
    """It names an operation that parts of the model do not have: the whole is compiled, with values on the way."""
    program = schedule(
        'let last = match one op in root where name == "model/y/Neg"\n'
        '  for x in match any op in root where name == "model/p4/MatMul" { tilt(x) }'
    )
    found = tcpx.onnx.bisect(tcpx.onnx.load(path), arrays, program, against="evaluator", target="generic")
    assert found.wrong is not None
    assert found.wrong.operation.name == "model/p4/MatMul"
    assert found.wrong.step is None
    assert found.wrong.notes[0].startswith("the schedule cannot be applied to it by itself: ")
