"""Truncated, mutated and hostile files: each is a model that verifies, or is refused with a place; nothing hangs, and
nothing outside of the folder is opened."""

from __future__ import annotations

import builtins
import os
import random
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tcpx
from tests.frontends.onnx import fused, fused_attention
from tests.frontends.onnx.models import agrees, model_of
from tests.frontends.onnx.mutation import damaged
from tests.frontends.onnx.node_tests import models
from tests.fuzz.outcome import refused

MOST_CALLS = 4_000_000
"""Of functions of Python for a small model; the most is 2.4 million."""
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


@contextmanager
def few_calls() -> Generator[None]:
    """At most so many functions of Python are called within, whatever machine this is."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        del frame, argument
        count += event == "call"

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        assert count <= MOST_CALLS


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
        try:
            error = refused(act)
        except Exception as failure:
            (folder.parent / "failing.onnx").write_bytes(content)
            raise AssertionError(f"model {number}, {folder.parent / 'failing.onnx'}") from failure
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
    co = Less(i, n)
    inner = Loop(n, c, s) <body = a (int64 j, bool cj, float[2] t) => (bool cp, float[2] r) {
      cp = Less(j, n)
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


def _chain(*steps: tuple[str, str, str, str], count: int = 40) -> onnx.ModelProto:
    """A tensor of a computed length: steps `(operator, operand, operand, result)` repeated, of the sizes `a` and `b` of
    the operand and the number 7, `c`. `p` is the `r` of the steps before, and `a` at first."""
    nodes = [helper.make_node("Shape", ["x"], ["s"])]
    nodes += [helper.make_node("Gather", ["s", f"at{k}"], [name]) for k, name in enumerate("ab")]
    for k in range(count):
        names = {"p": f"r{k - 1}" if k else "a", "r": f"r{k}", **{word: f"{word}{k}" for word in "tuv"}}
        for operator, *words in steps:
            x, y, z = (names.get(word, word) for word in words)
            nodes.append(helper.make_node(operator, [x, y], [z], f"{operator}{k}"))
    nodes.append(helper.make_node("ConstantOfShape", [f"r{count - 1}"], ["y"]))
    given = {"at0": 0, "at1": 1, "c": 7}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, ["N", "M"])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array([number]), name) for name, number in given.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _wide(text: str) -> onnx.ModelProto:
    """An operand of eight dims, each of them a sum of 26 others."""
    names = "abcdefghijklmnopqrstuvwxyz"
    model = model_of(f"f (float[{', '.join(names)}] z, float[n] x) => (float y) <int64[1] s = {{-1}}> {{ {text} }}")
    shape = model.graph.input[1].type.tensor_type.shape
    del shape.dim[:]
    for _ in range(8):
        shape.dim.add().dim_param = " + ".join(names)
    return model


def _functions(depth: int, calls: int) -> onnx.ModelProto:
    """A function that calls one several times, which does so too."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("d", 1)]
    functions: list[onnx.FunctionProto] = []
    for k in range(depth):
        name, values = f"f{k - 1}" if k else "Neg", ["x", *(f"t{j}" for j in range(calls - 1)), "y"]
        nodes = [helper.make_node(name, [x], [y], domain="d" if k else "") for x, y in pairwise(values)]
        functions.append(helper.make_function("d", f"f{k}", ["x"], ["y"], nodes, opsets))
    ports = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="d")], "g", ports[:1], ports[1:])
    return helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10)


def _large_bodies() -> onnx.ModelProto:
    """Two loops of 8 and 200 iterations within one another, whose numbers decide the conditions, and 40 nodes in the
    inner one."""
    nodes = "\n".join(f"t{k} = Neg({f't{k - 1}' if k else 's'})" for k in range(40))
    return model_of(f"""f (float[2] x) => (float[2] y) <int64 n = {{8}}, int64 m = {{200}}, bool c = {{1}}> {{
      y = Loop(n, c, x) <body = outer (int64 i, bool d, float[2] q) => (bool e, float[2] r) {{
        e = Less(i, n)
        r = Loop(m, c, q) <body = inner (int64 j, bool k, float[2] s) => (bool l, float[2] t39) {{
          l = Less(j, m)
          {nodes}
        }}>
      }}>
    }}""")


LONG = "the size expression is too long"
SMALL_AND_LONG: dict[str, tuple[onnx.ModelProto, str]] = {
    "loops": (_large_bodies(), "Loop `y` is too long when unrolled"),
    "functions": (_functions(15, 3), "the bodies of functions have too many nodes"),
    "products": (_chain(("Add", "a", "b", "t"), ("Mul", "p", "t", "r")), f"Mul `Mul2.`: {LONG}"),
    "maxima": (_chain(("Mul", "p", "b", "t"), ("Mul", "p", "c", "u"), ("Max", "t", "u", "r")), f"Max `Max.`: {LONG}"),
    "minima": (_chain(("Add", "p", "b", "t"), ("Mul", "p", "c", "u"), ("Min", "t", "u", "r")), f"Min `Min.`: {LONG}"),
    "quotients": (
        _chain(("Add", "p", "b", "t"), ("Div", "t", "c", "u"), ("Add", "p", "u", "r")),
        f"Add `Add.`: {LONG}",
    ),
    "rests": (
        _chain(("Add", "p", "b", "t"), ("Mul", "p", "b", "u"), ("Mod", "u", "t", "v"), ("Add", "b", "v", "r")),
        "ConstantOfShape `y`: operand 0 .* has to be constant",
    ),
    "a Size": (_wide("y = Size(x)"), f"Size `y`: {LONG}"),
    "a Reshape": (_wide("y = Reshape(x, s)"), f"Reshape `y`: {LONG}"),
    "a Flatten": (_wide("y = Flatten(x)"), f"Flatten `y`: {LONG}"),
    "a shape": (_wide("y = Unsqueeze(x, s)"), "the number of elements is too long an expression"),
}


@pytest.mark.parametrize(("model", "message"), SMALL_AND_LONG.values(), ids=SMALL_AND_LONG)
def test_small_files_that_ask_for_much(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(tcpx.TcpxError, match=message) as error, few_calls():
        _ = tcpx.onnx.load(model).module
    assert error.value.diagnostic.payload is not None


def test_a_constant_beside_sizes_is_as_wide_as_its_dtype() -> None:
    """It is squared 40 times, and would take a terabit."""
    steps = "".join(f"t{k} = Mul(r{k}, r{k})\n r{k + 1} = Div(t{k}, d)\n" for k in range(40))
    model = model_of(f"""f (float[N, 3] x) => (int64[2] y) <int64[1] z = {{0}}, int64[1] one = {{1}}> {{
      r0 = Shape(x)
      n = Slice(r0, z, one)
      d = Concat <axis = 0> (n, one)
      {steps}
      y = Identity(r40)
    }}""")
    with few_calls():
        _ = tcpx.onnx.load(model).module
    agrees(model, x=np.zeros((5, 3), np.float32))
