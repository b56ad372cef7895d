"""Models of ONNX in the commands: imported, run, and specialised on sizes and values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import onnx
import pytest

import tcpx
from tests.frontends.onnx.models import model_of
from tests.frontends.onnx.transformer import encoder

Command = Callable[..., SimpleNamespace]
TEXT = """tiny (float[batch, 8] x, int64[n] shape) => (float[batch, 4] y)
<float[8, 4] weight = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8,
  1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
  [layer] mm = MatMul(x, weight)
  a = Relu(mm)
  y = Reshape(a, shape)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(TEXT).SerializeToString())
    np.save(tmp_path / "shape.npy", np.array([-1, 4]))
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    return path


def test_import(model: Path, tcpx_command: Command) -> None:
    folder = model.parent / "out"
    done = tcpx_command("import", str(model), "--input", f"shape={model.parent / 'shape.npy'}", "-o", str(folder))
    assert done.status == 0
    assert "in   %x: tensor<[batch]x8xf32>" in done.out
    assert f"wrote {folder / 'model.safetensors'}" in done.out
    text = (folder / "model.tcp").read_text(encoding="utf-8")
    assert '%mm = tcp.matmul(%x, %weight) : tensor<[batch]x4xf32> name "layer"' in text
    module = tcpx.load(folder / "model.tcp")
    assert module.text() == text
    run = tcpx_command("run", str(folder / "model.tcp"), "--random", "0", "--size", "batch=3", "--check")
    assert run.status == 0


def test_equal_layers_are_written_as_one_function(tmp_path: Path, tcpx_command: Command) -> None:
    onnx.save(encoder(3), tmp_path / "model.onnx")
    assert tcpx_command("import", str(tmp_path / "model.onnx"), "-o", str(tmp_path)).status == 0
    module = tcpx.load(tmp_path / "model.tcp")
    assert len(module.funcs) == 2
    assert module.text().count("tcp.call @") == 3
    ids, mask = np.arange(10).reshape(2, 5), np.ones((2, 5), np.int64)
    for ours, theirs in zip(
        tcpx.compile(module)(ids, mask),
        tcpx.compile(tcpx.onnx.load(tmp_path / "model.onnx").module)(ids, mask),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_run(model: Path, tcpx_command: Command) -> None:
    out = model.parent / "y.npy"
    inputs = [word for name in ("x", "shape") for word in ("--input", f"{name}={model.parent / name}.npy")]
    done = tcpx_command("run", str(model), *inputs, "-o", str(out), "--check", "--tolerance", "0")
    assert done.status == 0, done.err
    weight = np.tile(np.arange(1, 9, dtype=np.float32), 4).reshape(8, 4)
    np.testing.assert_array_equal(np.load(out), np.ones((3, 8), np.float32) @ weight)


def test_a_shape_that_nothing_gives(model: Path, tcpx_command: Command) -> None:
    done = tcpx_command("run", str(model), "--random", "0")
    assert done.status == 1
    assert "the model has to know the value of shape" in done.err


def test_a_model_with_nodes_that_are_not_supported(tmp_path: Path, tcpx_command: Command) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_of("f (float[4] x) => (float[4] y) { [coin] y = Bernoulli(x) }"), path)
    done = tcpx_command("import", str(path), "-o", str(tmp_path / "out"))
    assert done.status == 1
    assert "Bernoulli `coin`: random numbers" in done.err
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_model(tmp_path: Path, tcpx_command: Command) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    done = tcpx_command("run", str(path), "--random", "0")
    assert done.status == 1
    assert "a message of the type ModelProto" in done.err
    done = tcpx_command("import", str(tmp_path / "none.onnx"), "-o", str(tmp_path))
    assert done.status == 1
    assert "No such file" in done.err


def test_caches_in_place(tmp_path: Path, tcpx_command: Command) -> None:
    path, out = tmp_path / "model.onnx", str(tmp_path / "out")
    text = "f (float[past, 4] c, float[N, 4] x) => (float y) { [join] y = Concat <axis = 0> (c, x) }"
    onnx.save(model_of(text), path)
    done = tcpx_command("import", str(path), "--state", "--capacity", "32", "-o", out)
    assert done.status == 0
    assert "  in   %past: index\n" in done.out
    assert "%c: inout tensor<32x4xf32>" in (tmp_path / "out" / "model.tcp").read_text()
    done = tcpx_command("import", str(path), "--capacity", "32", "-o", out)
    assert done.status == 2
    assert "required --state beside --capacity" in done.err


HIDDEN = "f (float[N, hidden] x, float[8, 4] w) => (float[N, 4] y) { y = MatMul(x, w) }"
RESIZED = """f (float[N, 3, H, W] x) => (float[N, 3, A, B] y) <int64[2] s = {10, 14}> {
  y = Resize <mode = "linear", keep_aspect_ratio_policy = "not_larger", axes = [2, 3]> (x, , , s)
}"""
WAVES = "f (float[N, L, 1] x) => (float[N, L, 2] y) <int64 a = {1}> { y = DFT(x, , a) }"
PRODUCT = "f (float[A, K] x, float[K2, B] w) => (float[A, B] y) { y = MatMul(x, w) }"
RESHAPED = "f (float[N, M] x) => (float[N, 24] y) <int64[2] s = {-1, 24}> { y = Reshape(x, s) }"
SHAPED = "f (float[N, 6] x, int64[2] s) => (float[A, B] y) { y = Reshape(x, s) }"
MODELS = [
    pytest.param(WAVES, ["N=3"], ["L=8"], {}, "--size L=<number>", id="a transform"),
    pytest.param(RESIZED, ["N=1"], ["H=5", "W=7"], {}, "--size H=<number> --size W=<number>", id="a resize"),
    pytest.param(SHAPED, ["N=4"], [], {"s": np.array([-1, 3])}, "--input s=FILE.npy", id="a shape"),
]
CALLS = [
    ["run", "--random", "0", "--check"],
    ["profile", "--seconds", "0.01"],
    ["bisect"],
    ["bisect", "--against", "onnx"],
]
REST = [["emit", "-o", "OUT"], ["check"], ["explain"], ["freeze", "-o", "OUT.tcps"], ["import", "-o", "OUT"]]


SOLVED = [
    pytest.param(HIDDEN, ["N=3"], "hidden=8", "hidden=9", "[9]", id="a product"),
    pytest.param(PRODUCT, ["A=3", "K=5", "B=2"], "K2=5", "K2=6", "[5]", id="a product of two"),
]


def asked(options: str, given: Sequence[str]) -> list[str]:
    return [word for value in given for word in (options, value)]


@pytest.mark.parametrize("command", [*CALLS, *REST], ids=" ".join)
@pytest.mark.parametrize(("text", "sizes", "numbers", "values", "fix"), MODELS)
def test_each_command_specialises_a_model(
    text: str,
    sizes: list[str],
    numbers: list[str],
    values: dict[str, npt.NDArray[np.int64]],
    fix: str,
    command: list[str],
    tmp_path: Path,
    tcpx_command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(text), "model.onnx")
    for name, value in values.items():
        np.save(f"{name}.npy", value)
    name, *options = command
    words = [name, "model.onnx", *options, *(asked("--size", sizes) if command in CALLS else [])]
    refused = tcpx_command(*words)
    assert refused.status == 1
    assert fix in refused.err
    done = tcpx_command(*words, *asked("--size", numbers), *asked("--input", [f"{name}={name}.npy" for name in values]))
    assert done.status == 0, done.err
    assert done.err == "" or command[0] == "emit"


@pytest.mark.parametrize("command", [CALLS[0], REST[0], REST[-1]], ids=" ".join)
@pytest.mark.parametrize(("text", "sizes", "number", "other", "found"), SOLVED)
def test_each_command_takes_a_size_that_a_node_says(
    text: str,
    sizes: list[str],
    number: str,
    other: str,
    found: str,
    command: list[str],
    tmp_path: Path,
    tcpx_command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(text), "model.onnx")
    name, *options = command
    words = [name, "model.onnx", *options, *asked("--size", sizes)]
    done = tcpx_command(*words, "--size", number)
    assert done.status == 0, done.err
    refused = tcpx_command(*words, "--size", other)
    assert refused.status == 1
    assert "the summed dims differ" in refused.err
    assert found in refused.err


def test_a_specialised_model_runs_again(tmp_path: Path, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(RESHAPED), "model.onnx")
    os.utime("model.onnx", (1, 1))
    for length, rows in ((48, 4), (24, 2), (48, 4), (24, 2)):
        given = ["--random", "0", "--size", f"M={length}", "--size", "N=2"]
        done = tcpx_command("run", "model.onnx", *given)
        assert done.status == 0, done.err
        assert f"out  %y: {rows}x24 float32" in done.out
    done = tcpx_command("run", "model.onnx", "--random", "0", "--size", "N=2", "--size", "M=48", "--size", "Q=1")
    assert done.status == 1
    assert "has no size `Q`" in done.err


@pytest.mark.parametrize("by_kernel", [False, True])
def test_a_model_is_tuned_and_emitted_with_what_it_has_to_know(
    by_kernel: bool, tmp_path: Path, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shaped = HIDDEN.replace(") =>", ", int64[1] s) =>").replace(
        "y = MatMul(x, w)", "z = MatMul(x, w) y = Reshape(z, s)"
    )
    onnx.save(model_of(shaped.replace("float[N, 4] y", "float[A] y")), "model.onnx")
    np.save("s.npy", np.array([-1]))
    given = ["tune", "model.onnx", "--size", "N=3", "--size", "hidden=8", "--input", "s=s.npy", "--target", "generic"]
    options = ["--trials", "1", "--quick", "--plain", "--final", "0", "--storage", "tune.db", "--record", "model.yaml"]
    monkeypatch.setattr("sys.argv", ["tcpx", *given, *options])
    done = tcpx_command(*given, *options, *(["--by-kernel"] if by_kernel else []))
    assert done.status == 0, done.err
    assert "no candidate is right" not in done.out
    if not by_kernel:
        command = "tcpx emit model.onnx --size hidden=8 --input s=s.npy --target generic --tuned model.yaml"
        assert command in done.out
        made = tcpx_command(*command.split()[1:], "-o", "out")
        assert made.status == 0, made.err
        assert "tuned: " in made.out


def test_only_a_model_is_specialised(files: SimpleNamespace, tcpx_command: Command) -> None:
    for words in (["--size", "N=8"], ["--input", "x=x.npy"]):
        for name in ("emit", "check", "explain"):
            done = tcpx_command(name, files.payload, *words)
            assert done.status == 2
            assert f"{words[0]} of this command is for a model, FILE.onnx" in done.err
    done = tcpx_command("check", files.schedule, "--size", "N=8")
    assert (done.status, "--size and --input are for a model" in done.err) == (2, True)


def test_a_size_that_equals_another(tmp_path: Path, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(PRODUCT), "model.onnx")
    sizes = ["--size", "K2=K", "--size", "K=5", "--size", "A=2", "--size", "B=3"]
    done = tcpx_command("run", "model.onnx", "--random", "0", "--check", *sizes)
    assert "in   %w: 5x3 float32" in done.out, done.err
    assert tcpx_command("import", "model.onnx", "-o", "out", "--size", "K2=K").status == 0
    assert "%w: tensor<[K]x[B]xf32>" in Path("out/model.tcp").read_text(encoding="utf-8")
    done = tcpx_command("run", "out/model.tcp", "--random", "0", "--size", "K=5", "--size", "A=K", "--size", "B=A")
    assert "out  %y: 5x5 float32" in done.out, done.err
    assert (
        "required an option for each size: --size H=1 --size W=2, found 'H=1,W=2'"
        in tcpx_command("run", "model.onnx", "--size", "H=1,W=2").err
    )
    assert (
        "required a size such as B=64, or K2=K, found 'K=-1'" in tcpx_command("run", "model.onnx", "--size", "K=-1").err
    )


def test_names_that_the_payload_cannot_have(tmp_path: Path, tcpx_command: Command) -> None:
    model, array = model_of("f (float[3] x) => (float[3] y) { [a] a = Relu(x) y = Neg(a) }"), tmp_path / "o.npy"
    names = {"x": "-o", "a": "a//", "y": "encoder//MatMul/"}
    for named in (*model.graph.input, *model.graph.output):
        named.name = names[named.name]
    for node in model.graph.node:
        node.input[:], node.output[:] = [names[x] for x in node.input], [names[x] for x in node.output]
    onnx.save(model, tmp_path / "model.onnx")
    text = tcpx.onnx.load(model).module.text()
    assert "-> %encoder/MatMul: tensor<3xf32>" in text
    assert tcpx.parse(text).text() == text
    np.save(array, np.array([1, -1, 2], np.float32))
    for given in ([f"--input=-o={array}"], ["--input", f"-o={array}"]):
        done = tcpx_command("run", str(tmp_path / "model.onnx"), *given, "--check")
        assert "out  %encoder/MatMul: 3 float32, -2 .. -0" in done.out, done.err
