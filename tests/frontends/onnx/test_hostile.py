"""Truncated, mutated and hostile files: each is a model that verifies, or is refused with a place; nothing hangs, and
nothing outside of the folder is opened."""

from __future__ import annotations

import builtins
import os
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnx
import pytest

import tcpx
from tests.frontends.onnx import fused, fused_attention
from tests.frontends.onnx.models import model_of
from tests.frontends.onnx.mutation import damaged
from tests.frontends.onnx.node_tests import models
from tests.fuzz.outcome import refused

TEXTS = (
    """f (float[N, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float y) <int64[2] s = {0, -1}> {
      c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
      p = MaxPool <kernel_shape = [2, 2]> (c)
      a = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 0, 0]> (p)
      y = Reshape(a, s)
    }""",
    """f (float[N, 4, 6] x, float[6] g) => (float y) <int64[3] shape = {0, 2, -1}, int64[1] one = {1}> {
      n = LayerNormalization(x, g)
      h = Reshape(n, shape)
      t = Transpose <perm = [0, 2, 1]> (h)
      m = MatMul(h, t)
      p = Softmax <axis = -1> (m)
      s = ReduceSum(p, one)
      y = Squeeze(s, one)
    }""",
    """f (float[2, 6] x, int64[3] i) => (float y, int64 z)
    <int64[2] pads = {1, 2}, int64[1] a = {0}, float zero = {0.0}> {
      g = Gather <axis = 1> (x, i)
      q = Pad(g, pads, zero, a)
      c, d, u = Split <axis = 1, num_outputs = 3> (q)
      k = Concat <axis = 0> (c, c)
      b = Less(k, zero)
      y = Where(b, k, c)
      z = ArgMax(k)
    }""",
    """f (float[N, M] x) => (float y) <int64[1] first = {0}, int64[1] second = {1}, int64[1] all = {-1}> {
      s = Shape(x)
      n = Slice(s, first, second)
      o = ConstantOfShape(n)
      w = Unsqueeze(o, second)
      r = Add(x, w)
      e = Expand(r, s)
      two = Concat <axis = 0> (second, second)
      t = Tile(e, two)
      f = Reshape(t, all)
      zero = Squeeze(first)
      y = CumSum(f, zero)
    }""",
    """f (float[3, 4] x, bool c) => (float y) <float[1] one = {1.0}> {
      y = If(c) <then_branch = t () => (float[3, 4] a) { a = Einsum <equation = "ij->ij"> (x) },
        else_branch = e () => (float[3, 4] b) { b = Mul(x, one) }>
    }""",
)


def read(content: bytes, file: Path, reached: Counter[str]) -> None:
    file.write_bytes(content)
    model = tcpx.onnx.load(file)
    reached["read"] += 1
    model.imported  # noqa: B018 - imports
    reached["imported"] += 1


def check(sources: Sequence[onnx.ModelProto], numbers: Iterable[int], folder: Path) -> Counter[str]:
    reached: Counter[str] = Counter()
    for number in numbers:
        rng = random.Random(number)
        content = damaged(sources[number % len(sources)], rng)
        act = partial(read, content, folder / "model.onnx", reached)
        started = process_time()
        try:
            error = refused(act)
        except Exception as failure:
            (folder.parent / "failing.onnx").write_bytes(content)
            raise AssertionError(f"model {number}, {folder.parent / 'failing.onnx'}") from failure
        assert process_time() - started < 2, number
        if error is not None:
            reached["unsupported" if isinstance(error, tcpx.onnx.UnsupportedError) else "refused"] += 1
    return reached


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened."""
    found: list[str] = []
    for module, name in ((builtins, "open"), (os, "open")):
        before = getattr(module, name)

        def noting(path: Any, *rest: Any, before: Any = before, **options: Any) -> Any:
            found.append(os.fspath(path) if isinstance(path, str | os.PathLike) else "")
            return before(path, *rest, **options)

        monkeypatch.setattr(module, name, noting)
    return found


def test_mutated_models(tmp_path: Path, opened: list[str]) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    reached = check([model_of(text) for text in TEXTS], range(300), folder)
    assert reached["imported"] >= 20, reached
    assert reached["refused"] >= 100, reached
    assert reached["unsupported"] >= 10, reached
    outside = {path for path in opened if path.startswith("/") and "site-packages" not in path}
    assert all(Path(path).is_relative_to(folder) for path in outside)


LOOPS = """f (float[2] x) => (float[2] outer) <int64 n={256}, bool c={1}> {
  outer = Loop(n, c, x) <body = b (int64 i, bool ci, float[2] s) => (bool co, float[2] inner) {
    co = Identity(ci)
    inner = Loop(n, c, s) <body = a (int64 j, bool cj, float[2] t) => (bool cp, float[2] r) {
      cp = Identity(cj)
      r = Add(t, t)
    }>
  }>
}"""
POWERS = "f (float[N,M] x) => (float[K,L] y) { s0 = Shape(x) %s y = ConstantOfShape(s40) }"


def test_loops_in_loops_and_powers_of_sizes_end_soon() -> None:
    """Each text is short; a limit on one loop, or on one size, would not do."""
    squares = " ".join(f"s{k + 1} = Mul(s{k}, s{k})" for k in range(40))
    for text, required in (
        (LOOPS, "2048 iterations of all loops at most: they are unrolled"),
        (POWERS % squares, "at most 32 factors in a term"),
    ):
        with pytest.raises(tcpx.onnx.OnnxError) as raised:
            _ = tcpx.onnx.load(model_of(text)).module
        assert raised.value.diagnostic.required == required


def test_tensors_that_numpy_cannot_hold() -> None:
    model = model_of("f (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }")
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.zeros(1, np.float32), "w"))
    model.graph.initializer[0].dims[:] = [1] * 65
    with pytest.raises(tcpx.onnx.OnnxError, match="cannot read the tensor `w`"):
        _ = tcpx.onnx.load(model).module
    model.graph.initializer[0].dims[:] = [1]
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    with pytest.raises(tcpx.onnx.OnnxError, match="external data with a `location`"):
        _ = tcpx.onnx.load(model).module


def test_mutated_fused_operators(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    reached = check([case.model() for case in (*fused.CASES, *fused_attention.CASES)], range(300), folder)
    assert reached["imported"] >= 10, reached
    assert reached["refused"] >= 100, reached


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_mutated_node_tests(part: int, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    sources = [model for _, model in sorted(models().items())]
    reached = check(sources, range(part * 500, part * 500 + 500), folder)
    assert reached["imported"] >= 50, reached
    assert reached["refused"] >= 100, reached
