"""tcpx import and tcpx run of models of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
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
    onnx.save(model_of("f (float[4] x) => (float[4] y) { [angle] y = Atan(x) }"), path)
    done = tcpx_command("import", str(path), "-o", str(tmp_path / "out"))
    assert done.status == 1
    assert "Atan `angle`: the operation set has no inverse of this function" in done.err
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
