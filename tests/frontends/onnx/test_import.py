"""Models of ONNX as payloads: names, symbolic sizes, shapes that are computed, values that have to be known."""

from __future__ import annotations

import importlib
import subprocess
import sys
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx
from tests.frontends.onnx.models import agrees, loaded, model_of

RNG = np.random.default_rng(0)
HEADS = """heads (float[batch, sequence, 8] x) => (float[batch, 4, sequence, 2] y)
<int64[1] zero = {0}, int64[1] first = {1}, int64[2] rest = {4, -1}> {
  [shapes] s = Shape(x)
  b = Slice(s, zero, first)
  n = Gather <axis = 0> (s, first)
  new = Concat <axis = 0> (b, n, rest)
  h = Reshape(x, new)
  [transposed] y = Transpose <perm = [0, 2, 1, 3]> (h)
}"""


def test_names_and_symbols() -> None:
    module = loaded(HEADS).module
    assert [s.name for s in module.main.symbols] == ["batch", "sequence"]
    assert [(op.opcode, op.name) for op in module.main.body.ops] == [
        ("tcp.reshape", "h"),
        ("tcp.transpose", "transposed"),
        ("tcp.return", ""),
    ]
    assert str(module.main.returned[0].type) == "tensor<[batch]x4x[sequence]x2xf32>"


@pytest.mark.parametrize(("batch", "sequence"), [(1, 1), (2, 5), (3, 16)])
def test_symbolic_sizes(batch: int, sequence: int) -> None:
    agrees(model_of(HEADS), x=RNG.standard_normal((batch, sequence, 8)).astype(np.float32))


def test_sizes_that_are_numbers() -> None:
    model = loaded(HEADS, sizes={"batch": 2})
    assert str(model.module.main.args[0].type) == "tensor<2x[sequence]x8xf32>"


def test_shapes_that_are_computed() -> None:
    text = """flat (float[N, M, 6] x) => (float[K, 3] y) <int64 two = {2}, int64[1] three = {3}> {
      n = Size(x)
      m = Cast <to = 7> (n)
      s = Shape <start = 0, end = 2> (x)
      p = ReduceProd <keepdims = 1> (s)
      rows = Mul(p, two)
      new = Concat <axis = 0> (rows, three)
      y = Reshape(x, new)
    }"""
    assert str(loaded(text).module.main.returned[0].type) == "tensor<[2*M*N]x3xf32>"
    agrees(model_of(text), x=RNG.standard_normal((2, 5, 6)).astype(np.float32))


def test_products_of_a_batch() -> None:
    text = """f (float[B, 3, 4, 5] x, float[3, 5, 2] w, float[5] v) => (float y, float z) {
      y = MatMul(x, w)
      z = MatMul(x, v)
    }"""
    arrays = [RNG.standard_normal(s).astype(np.float32) for s in ((2, 3, 4, 5), (3, 5, 2), (5,))]
    agrees(model_of(text), x=arrays[0], w=arrays[1], v=arrays[2])


@pytest.mark.parametrize(("n", "m", "k"), [(3, 3, 1), (1, 3, 5), (3, 1, 1), (1, 1, 5)])
def test_dims_that_may_be_one(n: int, m: int, k: int, kernels: dict[str, tcpx.onnx.Session]) -> None:
    text = """f (float[N, 4] x, float[M, 4] y, float[K] b, float[5, 4] w) => (float z, float v) {
      s = Add(x, y)
      t = Transpose(w)
      p = MatMul(s, t)
      z = Mul(p, b)
      c = Less(x, y)
      v = Where(c, s, y)
    }"""
    x, y, b, w = (RNG.standard_normal(shape).astype(np.float32) for shape in ((n, 4), (m, 4), (k,), (5, 4)))
    session = kernels.setdefault(text, tcpx.onnx.Session(loaded(text)))
    found: Any = session({"x": x, "y": y, "b": b, "w": w})
    np.testing.assert_allclose(found["z"], (x + y) @ w.T * b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["v"], np.where(x < y, x + y, y))


@pytest.fixture(scope="module")
def kernels() -> dict[str, tcpx.onnx.Session]:
    """Sessions by model."""
    return {}


def test_dims_that_differ() -> None:
    text = "f (float[3, 4] x, float[N, 5] y) => (float z) { [sum] z = Add(x, y) }"
    with pytest.raises(tcpx.onnx.UnsupportedError, match=r"the dims 4 and 5 of \[3, 4\] and \[N, 5\] differ") as error:
        _ = loaded(text).imported
    assert [(f.node, f.operator) for f in error.value.findings] == [("sum", "Add")]


def test_all_that_is_not_supported_at_once() -> None:
    text = """f (float[4] x, int64[1] k) => (float[4] z, float[4] w) {
      [one] a = RandomNormalLike(x)
      [two] b = Exp(a)
      [three] c = NonZero(x)
      [four] z = Bernoulli(x)
      [five] w = Abs(x)
    }"""
    with pytest.raises(tcpx.onnx.UnsupportedError) as error:
        _ = loaded(text).module
    assert [f.node for f in error.value.findings] == ["one", "three", "four"]
    shown = str(error.value)
    assert "NonZero `three`: operand 0 (`x`) has to be constant" in shown
    assert "found: 3 other node(s)" in shown


def test_a_value_that_has_to_be_known() -> None:
    model = model_of("f (float[2, 6] x, int64[n] shape) => (float y) { y = Reshape(x, shape) }")
    held = tcpx.onnx.load(model)
    assert held.needs == ("shape",)
    with pytest.raises(tcpx.onnx.OnnxError, match="the model has to know the value of shape") as error:
        _ = held.module
    assert error.value.diagnostic.fix == 'model.specialized({"shape": value}), or --input shape=FILE.npy'
    assert str(held.specialized({"shape": np.array([3, 4])}).module.main.returned[0].type) == "tensor<3x4xf32>"


def test_a_session_keeps_a_bounded_number_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tcpx.onnx.MOST_KERNELS", 2)
    session = tcpx.onnx.Session(loaded("f (float[2, 6] x, int64[2] shape) => (float y) { y = Reshape(x, shape) }"))
    x = RNG.standard_normal((2, 6)).astype(np.float32)
    kernels = []
    for shape in ((3, 4), (4, 3), (3, 4), (12, 1), (3, 4)):
        arrays = {"x": x, "shape": np.array(shape)}
        assert session(arrays)["y"].shape == shape
        kernels.append(session.kernel(arrays)[1])
    assert kernels[0] is kernels[2] is kernels[4]
    assert len(session._kernels) == 2
    with pytest.raises(tcpx.ArgumentError, match="nothing is given for `shape`"):
        session.specialized({"x": x})


def test_a_shape_that_depends_on_data() -> None:
    text = """f (float[2, 6] x) => (float y) {
      s = Cast <to = 7> (x)
      m = ReduceMax(s)
      y = Expand(x, m)
    }"""
    with pytest.raises(tcpx.onnx.UnsupportedError, match="has to be constant, and depends on x"):
        _ = loaded(text).imported


def test_functions_of_the_model_and_branches() -> None:
    text = """f (float[N, 4] x, bool c) => (float[N, 4] y) {
      [call] d = custom.twice <by = 3.0> (x)
      y = If(c) <then_branch = t () => (float[N, 4] a) { a = Neg(d) },
        else_branch = e () => (float[N, 4] b) { b = Identity(d) }>
    }
    <domain: "custom", opset_import: ["" : 21]>
    twice <by> (v) => (w) { k = Constant <value_float: float = @by> ()
      w = Mul(v, k) }"""
    head = '<ir_version: 10, opset_import: ["" : 21, "custom" : 1]>\n'
    model = onnx.parser.parse_model(head + text)
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    session = tcpx.onnx.Session(tcpx.onnx.load(model))
    np.testing.assert_array_equal(session({"x": x, "c": np.array(True)})["y"], -3 * x)
    np.testing.assert_array_equal(session({"x": x, "c": np.array(False)})["y"], 3 * x)


def test_empty_operands_and_several_results() -> None:
    text = """f (float[N, 6] x, float[6] g) => (float[N, 6] y, float[N, 1] mean, float[N, 2] a, float[N, 4] b)
    <float low = {-0.5}, int64[2] parts = {2, 4}> {
      y, mean = LayerNormalization <axis = -1> (x, g)
      c = Clip(x, low)
      d = Clip(c, , low)
      a, b = Split <axis = 1> (d, parts)
    }"""
    agrees(model_of(text), x=RNG.standard_normal((5, 6)).astype(np.float32), g=np.ones(6, np.float32))


def test_attributes_and_results_that_no_rule_knows() -> None:
    text = """f (float[2, 3, 4, 4] x, float[3] s) => (float y, float p, float i) {
      [old] y = BatchNormalization <spatial = 0> (x, s, s, s, s)
      [trains] p, i = BatchNormalization (x, s, s, s, s)
    }"""
    with pytest.raises(tcpx.onnx.UnsupportedError) as error:
        _ = loaded(text, opset=8).module
    assert [str(finding) for finding in error.value.findings] == [
        "BatchNormalization `old`: the attribute `spatial`",
        "BatchNormalization `trains`: batch normalization that trains",
    ]


def test_negative_indices() -> None:
    text = """f (float[N, 4] x, int64[3] i) => (float y, float z) {
      y = Gather <axis = 1> (x, i)
      z = Gather <axis = 0> (x, i)
    }"""
    agrees(model_of(text), x=RNG.standard_normal((5, 4)).astype(np.float32), i=np.array([-1, 2, -4]))


@pytest.mark.parametrize("opset", [9, 13, 18, 21])
def test_axes_of_all_opsets(opset: int) -> None:
    squeeze = "Squeeze <axes = [1]> (s)" if opset < 13 else "Squeeze(s, one)"
    total = "ReduceMean <axes = [1], keepdims = 1> (x)" if opset < 18 else "ReduceMean(x, one)"
    text = f"f (float[N, 4] x) => (float[N] y) <int64[1] one = {{1}}> {{ s = {total}\n y = {squeeze} }}"
    model = model_of(text, opset)
    agrees(model, x=RNG.standard_normal((5, 4)).astype(np.float32))


def external(folder: Path, location: str) -> Path:
    """A model with weights in a file beside it."""
    weight = numpy_helper.from_array(RNG.standard_normal((16, 8)).astype(np.float32), "w")
    (folder / "weights.bin").write_bytes(b"\0" * 64 + weight.raw_data)
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "64"), ("length", "512")):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("x", 16), ("y", 8))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "f", ports[:1], ports[1:], [weight])
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_external_data_is_mapped(tmp_path: Path) -> None:
    model = tcpx.onnx.load(external(tmp_path, "weights.bin"))
    held = model.weights["w"]
    owner: object = held
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    assert isinstance(owner, mmap)
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    found = np.asarray(tcpx.evaluate(model.module, x), np.float32)
    np.testing.assert_allclose(found, x @ held.astype(np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "link", "nowhere", ""])
def test_nothing_outside_of_the_folder_is_read(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 1024)
    (folder / "link").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(tcpx.onnx.OnnxError, match="cannot read the tensor `w`"):
        _ = tcpx.onnx.load(external(folder, location)).imported


def test_a_written_model_is_read_again(tmp_path: Path) -> None:
    model = tcpx.onnx.load(external(tmp_path, "weights.bin"))
    text, weights = tcpx.onnx.write(model, tmp_path)
    x = RNG.standard_normal((3, 16)).astype(np.float32)
    again = tcpx.load(text)
    assert weights.name == "model.safetensors"
    np.testing.assert_array_equal(tcpx.evaluate(again, x), tcpx.evaluate(model.module, x))
    assert tcpx.fingerprint(again) == tcpx.fingerprint(tcpx.load(tmp_path / "model.onnx"))


def test_only_the_extra_needs_onnx() -> None:
    code = (
        "import importlib.util, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'onnx' else find(name, *rest)\n"
        "import tcpx\ntcpx.compile\nassert 'onnx' not in sys.modules\n"
        "try:\n  tcpx.load('model.onnx')\nexcept tcpx.ArgumentError as error:\n  print(error.diagnostic.fix)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "pip install 'tcpx[onnx]'\n"


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (7, 2)])
def test_comparisons_and_ranges_of_sizes(n: int, m: int) -> None:
    """As exporters write `expand` with a dim that is kept, and the positions of a mask."""
    model = model_of(
        """f (float[N, M] x, float[1, M] b) => (float y, int64[P] up, int64[Q] down, bool[R] mask)
        <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] minus = {-1}, int64[1] axis = {0},
         int64[1] end = {1}> {
          s = Shape(x)
          first = Slice(s, axis, end)
          wanted = Concat <axis = 0> (first, minus)
          is_kept = Equal(wanted, minus)
          shape = Where(is_kept, end, wanted)
          e = Expand(b, shape)
          y = Add(x, e)
          rows = Gather(s, zero)
          columns = Gather(s, one)
          up = Range(one, rows, two)
          last = Neg(two)
          down = Range(columns, zero, last)
          positions = Range(zero, rows, one)
          mask = Less(positions, columns)
        }"""
    )
    x = np.arange(n * m, dtype=np.float32).reshape(n, m)
    agrees(model, x=x, b=np.ones((1, m), np.float32))


def test_a_convolution_over_a_dim_of_one() -> None:
    """As tf2onnx writes one over a sequence: a loop of one iteration is not what runs along vectors."""
    model = model_of("""f (float[N, 6, 20, 1] x, float[8, 3, 5, 1] w, float[8] b) => (float y) {
      y = Conv <group = 2, kernel_shape = [5, 1], pads = [2, 0, 1, 0], strides = [2, 1]> (x, w, b)
    }""")
    held = tcpx.onnx.load(model).module
    (conv,) = (op for op in held.main.body.ops if op.opcode == "tcp.convolution")
    assert str(conv.results[0].type) == "tensor<[N]x8x10xf32>"
    agrees(
        model,
        **{
            name: RNG.standard_normal(shape).astype(np.float32)
            for name, shape in (("x", (2, 6, 20, 1)), ("w", (8, 3, 5, 1)), ("b", (8,)))
        },
    )


def test_slices_up_to_far_away() -> None:
    """As tf2onnx writes those to the end: a size that a reshape says is the same has no more."""
    model = model_of("""f (float[N, 4] x) => (float[N, 2, 2] y)
    <int64[2] first = {0, 0}, int64[2] last = {1000000000, 4}, int64[2] axes = {0, 1}> {
      part = Slice(x, first, last, axes)
      s = Shape <start = 0, end = 1> (x)
      two = Constant <value_ints = [2, 2]> ()
      shape = Concat <axis = 0> (s, two)
      y = Reshape(part, shape)
    }""")
    assert "symbols [N: 1..1000000000]" in tcpx.onnx.load(model).module.text()
    agrees(model, x=RNG.standard_normal((3, 4)).astype(np.float32))


@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 4), (7, 2)])
def test_a_triangle_by_a_size(n: int, m: int) -> None:
    model = model_of("""f (float[N, M] x) => (float y, float z) <int64 one = {1}> {
      s = Shape(x)
      rows = Gather(s, one)
      y = Trilu <upper = 1> (x, rows)
      z = Trilu <upper = 0> (x, rows)
    }""")
    agrees(model, x=RNG.standard_normal((n, m)).astype(np.float32))


def test_what_layers_share_stands_first() -> None:
    """An exporter computes a mask once, in the first layer: without it, both are alike."""
    layer = """
      q{k} = MatMul(x{k}, w{k})
      {shared}
      e{k} = Where(closed, low, q{k})
      s{k} = Softmax <axis = -1> (e{k})
      x{n} = Tanh(s{k})"""
    text = "f (float[N, 4] x0, int64[N, 4] mask, float[4, 4] w0, float[4, 4] w1) => (float[N, 4] x2)"
    body = layer.format(k=0, n=1, shared="closed = Equal(mask, zero)") + layer.format(k=1, n=2, shared="")
    model = model_of(f"{text} <int64 zero = {{0}}, float low = {{-100.0}}> {{ {body} }}")
    module = tcpx.onnx.load(model).module
    assert next(op.name for op in module.main.body.ops if op.operands) == "closed"
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { outline_repeats(root, least: 4) }")
    assert len(tcpx.apply_schedule(module, schedule).module.funcs) == 2


def test_results_are_called_like_the_outputs() -> None:
    text = "f (float[N, 4] x) => (float[N, 4] x.1, float[N, 4] same) { [a] x.1 = Exp(x)\n [b] same = Identity(x) }"
    module = tcpx.onnx.load(model_of(text.replace("x.1", "sum"))).module
    assert "-> (%sum: tensor<[N]x4xf32>, %same: tensor<[N]x4xf32>)" in module.text()
    kernel = tcpx.compile(module, target="generic")
    assert [held.name for held in kernel.signature.results] == ["sum", "same"]
    assert "float *sum, float *same" in tcpx.emit(module, target="generic").header


def test_indices_outside_are_an_error() -> None:
    model = model_of("""f (float[9, 2] table, int32[B, S] ids, float[K, 3] t, int64[M] k, bool c)
      => (float y, float z, float v) <int64[1] all = {-1}> {
      wide = Cast <to = 7> (ids)
      flat = Reshape(wide, all)
      y = Gather(table, flat)
      z = Gather(t, k)
      v = If(c) <then_branch = a () => (float[M, 2] p) { p = Gather(table, k) },
        else_branch = b () => (float[M, 2] q) { q = Gather(table, k) }>
    }""")
    module = tcpx.onnx.load(model).module
    assert "%ids: tensor<[B]x[S]xsi32> in -9 to 9" in module.text()
    assert "%k: tensor<[M]xsi64> in -K to K" in module.text(), "of a branch, nothing is demanded"
    kernel = tcpx.compile(module, target="generic")
    table, t, c = np.ones((9, 2), np.float32), np.ones((4, 3), np.float32), np.array(True)
    good, k = np.array([[-9, 8]], np.int32), np.array([-4, 3])
    kernel(table, good, t, k, c)
    for ids, places, found in ((good + 1, k, "9"), (good - 1, k, "-10"), (good, k + 1, "4")):
        with pytest.raises(tcpx.ArgumentError, match=rf"found: .*{found}"):
            kernel(table, ids, t, places, c)
        with pytest.raises(tcpx.ArgumentError, match=rf"found: .*{found}"):
            tcpx.evaluate(module, table, ids, t, places, c)


def test_indices_that_are_a_part_of_an_argument() -> None:
    """Other elements of it may index a larger table."""
    model = loaded(
        "f (int64[n,2] x, float[3,4] a, float[9,4] b) => (float[n,1,4] y) {"
        " p, q = Split <axis = 1, num_outputs = 2> (x) u = Gather(a, p) v = Gather(b, q) y = Add(u, v) }"
    )
    x, a, b = np.array([[2, 8], [-3, -9]]), np.zeros((3, 4), np.float32), np.arange(36, dtype=np.float32).reshape(9, 4)
    found: Any = tcpx.evaluate(model.module, x, a, b)
    np.testing.assert_array_equal(found, b[[8, -9]][:, None])


def test_an_index_outside_of_one_hot_says_nothing() -> None:
    text = "f (int64[n] i) => (float[3, n] y) <int64 d = {3}, float[2] v = {2, 7}> { y = OneHot <axis = 0> (i, d, v) }"
    agrees(model_of(text), i=np.array([0, -1, 5, 2, -3, -4, 3, 2**40, -(2**63)]))


def test_a_batch_of_one_keeps_its_dim_beside_heads() -> None:
    """Attention is then what it is of any batch."""
    model = loaded("g (float[1, 2, N, 8] q, float[1, 2, 8, N] k) => (float[1, 2, N, N] s) { s = MatMul(q, k) }")
    text = model.module.text()
    assert "tcp.reshape" not in text
    assert 'out = ["b0", "b1", "m", "n"]' in text


def test_squares_and_cubes_are_products() -> None:
    """As exporters write norms and GELU."""
    text = """powers (float[n] x) => (float[n] y)
<float two = {2.0}, float[1] three = {3.0}, float half = {1.5}> {
  a = Pow(x, two)
  b = Pow(x, three)
  c = Pow(a, half)
  s = Add(a, b)
  y = Add(s, c)
}"""
    opcodes = [op.opcode for op in loaded(text).module.main.body.ops]
    assert opcodes.count("tcp.mul") == 3
    assert opcodes.count("tcp.pow") == 1
    agrees(model_of(text), x=np.array([-2.5, -1e10, 1e-30, np.inf, np.nan, 3.0], np.float32))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    package = sys.modules["tcpx.frontends.onnx"]
    with pytest.raises(tcpx.ArgumentError, match="models of ONNX need a package that is not installed") as caught:
        importlib.reload(package)
    assert caught.value.diagnostic.fix == "pip install 'tcpx[onnx]'"
