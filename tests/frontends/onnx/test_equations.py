"""Sizes that nodes need to be equal: solved while the model is imported, or asserted where a kernel is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.types import shape_of
from tests.frontends.onnx.models import loaded, model_of

SCALES = "float[4] s = {1.0, 1.0, 2.0, 2.0}"
RESIZE = '<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">'
POOL = "<kernel_shape = [2, 2], strides = [2, 2]>"


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agree(model: onnx.ModelProto, *calls: dict[str, np.ndarray]) -> None:
    """The outputs of one kernel, and of the evaluator, are those of ONNX's reference."""
    loaded_model = tcpx.onnx.load(model)
    kernel, reference = tcpx.compile(loaded_model.module), onnx.reference.ReferenceEvaluator(model)
    for arrays in calls:
        wanted: Any = reference.run(None, dict(arrays))
        given = [arrays[port.name] for port in loaded_model.inputs]
        for run in (kernel, lambda *given: tcpx.evaluate(loaded_model.module, *given)):
            found: Any = run(*given)
            for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-5)


def symbols_of(module: tcpx.Module) -> str:
    return ", ".join(symbol.declaration for symbol in module.main.symbols)


def conditions_of(module: tcpx.Module) -> list[str]:
    """What the function asserts, in the words of its conditions."""
    return [str(predicate) for op in module.main.body.ops if isinstance(op, Assert) for predicate in op.alternatives]


Calls = list[dict[str, tuple[int, ...]]]
"""The shapes of the arguments of calls."""
CASES: list[tuple[str, str, Calls, Calls]] = [
    (  # a map beside an upsampled one
        f"f (float[n, 4, h, w] x) => (float y) <{SCALES}> "
        f"{{ a = MaxPool {POOL} (x) u = Resize {RESIZE} (a, , s) y = Concat <axis = 1> (x, u) }}",
        "n: 1.., h: 2.. multiple_of 2, w: 2.. multiple_of 2", [{"x": (1, 4, 2, 6)}, {"x": (2, 4, 8, 4)}],
        [{"x": (1, 4, 3, 4)}],
    ),
    (  # two levels: what the second one says of a quotient, and the first one of the size, is solved together
        f"f (float[n, 1, h, w] x) => (float y) <{SCALES}> "
        f"{{ a = MaxPool {POOL} (x) b = MaxPool {POOL} (a) u = Resize {RESIZE} (b, , s) v = Concat <axis = 1> (a, u) "
        f"q = Resize {RESIZE} (v, , s) y = Concat <axis = 1> (x, q) }}",
        "n: 1.., h: 4.. multiple_of 4, w: 4.. multiple_of 4", [{"x": (1, 1, 4, 12)}], [{"x": (1, 1, 6, 4)}],
    ),
    (  # the same for sums: neither dim is meant to be 1
        f"f (float[n, 1, h, w] x) => (float y) <{SCALES}> "
        f"{{ a = MaxPool {POOL} (x) b = MaxPool {POOL} (a) u = Resize {RESIZE} (b, , s) y = Add (a, u) }}",
        "n: 1.., h: 1.., w: 1..", [{"x": (1, 1, 5, 12)}, {"x": (1, 1, 8, 9)}], [{"x": (1, 1, 7, 4)}],
    ),
    (  # a dim that is left out
        "f (float[n, 2, h] x) => (float y) <int64[1] a = {2}> "
        "{ p = MaxPool <kernel_shape = [2], strides = [3]> (x) y = Squeeze (p, a) }",
        "n: 1.., h: 2..4", [{"x": (1, 2, 2)}, {"x": (3, 2, 4)}], [{"x": (1, 2, 5)}],
    ),
    (
        "f (float[A, K1] a, float[K2, C] b) => (float y) { y = MatMul (a, b) }",
        "A: 1.., K1: 1.., C: 1..", [{"a": (2, 5), "b": (5, 3)}], [{"a": (2, 5), "b": (4, 3)}],
    ),
    (
        "f (float[N, K1, 4] a, float[N, 4, K2] b, float[K3, 2] c) => (float y) "
        "{ d = MatMul (a, b) y = MatMul (d, c) }",
        "N: 1.., K1: 1.., K2: 1..", [{"a": (2, 5, 4), "b": (2, 4, 3), "c": (3, 2)}],
        [{"a": (2, 5, 4), "b": (2, 4, 3), "c": (5, 2)}],
    ),
    (  # what another input has to be, by a quotient of this one
        "f (float[n, 3, m] a, float[n, 3, k] c) => (float y) "
        "{ b = MaxPool <kernel_shape = [2], strides = [2]> (a) y = Concat <axis = 1> (b, c) }",
        "n: 1.., m: 2.., k: 1..", [{"a": (1, 3, 7), "c": (1, 3, 3)}, {"a": (1, 3, 2), "c": (1, 3, 1)}],
        [{"a": (1, 3, 7), "c": (1, 3, 4)}],
    ),
    (  # a number of elements whose factors agree
        "f (float[n, 1, h, w] x) => (float y) <int64[3] s = {0, 1, -1}, int64[3] z = {0, 2, -1}> "
        "{ p = MaxPool <kernel_shape = [1, 2], strides = [1, 2]> (x) q = Reshape (p, s) y = Reshape (x, z) }",
        "n: 1.., h: 1.., w: 1..", [{"x": (2, 1, 3, 4)}, {"x": (1, 1, 2, 3)}], [{"x": (1, 1, 3, 3)}],
    ),
    (
        "f (float[n, h] x) => (float y, float z) <int64[2] s = {3, 2}> { y, z = Split <axis = 1> (x, s) }",
        "n: 1..", [{"x": (2, 5)}], [{"x": (2, 6)}],
    ),
    (
        "f (float[n, c, h] x, float[6, 3, 2] w) => (float y) { y = Conv (x, w) }",
        "n: 1.., h: 1..", [{"x": (1, 3, 5), "w": (6, 3, 2)}], [{"x": (1, 4, 5), "w": (6, 3, 2)}],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "symbols", "fit", "other"), CASES)
def test_equations(text: str, symbols: str, fit: Calls, other: Calls) -> None:
    model = model_of(text)
    module = tcpx.onnx.load(model).module
    assert symbols_of(module) == symbols
    agree(model, *({name: array(*shape) for name, shape in shapes.items()} for shapes in fit))
    for shapes in other:
        with pytest.raises(tcpx.ArgumentError):
            tcpx.evaluate(module, *(array(*shape) for shape in shapes.values()))


def feature_pyramid() -> onnx.ModelProto:
    """Convolutions that halve a map three times, whose results are upsampled and added, then joined."""

    def halved(given: str, made: str) -> onnx.NodeProto:
        return helper.make_node("Conv", [given, "w"], [made], strides=[2, 2], pads=[1, 1, 1, 1])

    def resized(given: str, made: str, scale: str) -> onnx.NodeProto:
        return helper.make_node(
            "Resize", [given, "", scale], [made], coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )

    nodes = [
        halved("x", "a"), halved("a", "b"), halved("b", "c"), halved("c", "d"), resized("d", "up d", "two"),
        helper.make_node("Add", ["c", "up d"], ["c2"], name="top"), resized("c2", "up c", "two"),
        helper.make_node("Add", ["b", "up c"], ["b2"]), resized("d", "d4", "four"), resized("c2", "c4", "two"),
        helper.make_node("Concat", ["b2", "c4", "d4"], ["y"], axis=1),
    ]  # fmt: skip
    weights = array(2, 2, 3, 3) / 8
    stored = {"w": weights, "two": np.array([1, 1, 2, 2], np.float32), "four": np.array([1, 1, 4, 4], np.float32)}
    graph = helper.make_graph(
        nodes,
        "pyramid",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(held, name) for name, held in stored.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_feature_pyramid_takes_the_sizes_that_fit() -> None:
    """16, but also 13 to 15: as many as ONNX takes. All maps are written by one quotient, so nothing is broadcast."""
    model = feature_pyramid()
    module = tcpx.onnx.load(model).module
    assert len(conditions_of(module)) == 4
    assert not [op for op in module.walk() if op.opcode in ("gml_st.if", "gml_st.materialize")]
    assert {str(dim) for op in module.walk() if op.name in ("b2", "y") for dim in shape_of(op.result.type)[2:]} == {
        "4*floordiv(h + 15, 16)",
        "4*floordiv(w + 15, 16)",
    }
    agree(model, *({"x": array(1, 2, h, w)} for h, w in ((16, 32), (13, 30), (29, 15), (61, 48))))
    kernel = tcpx.compile(module)
    for h, name, node in ((17, "top", "c2 = Add(c, up d)"), (28, "b2", "b2 = Add(b, up c)")):
        with pytest.raises(tcpx.ArgumentError, match=f"Add `{name}`: floordiv") as error:
            kernel(array(1, 2, h, 16))
        assert error.value.diagnostic.payload is not None
        assert node in error.value.diagnostic.payload.text


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_a_state_of_batch_1_makes_the_batch_1(operator: str) -> None:
    rows = 5 * {"RNN": 1, "GRU": 3, "LSTM": 4}[operator]
    model = model_of(
        f"f (float[T, B, 3] x, float[1, {rows}, 3] w, float[1, {rows}, 5] r, float[1, 1, 5] h) => (float y) "
        f"{{ y = {operator} <hidden_size = 5> (x, w, r, , , h) }}"
    )
    assert symbols_of(tcpx.onnx.load(model).module) == "T: 1.."
    agree(model, {"x": array(4, 1, 3), "w": array(1, rows, 3), "r": array(1, rows, 5), "h": array(1, 1, 5)})


SHAPED = "s = Shape (x) n = Gather (s, one)"


def test_sums_of_minima_and_maxima_are_what_they_are_of() -> None:
    text = f"""f (float[2, n] x) => (float y)
    <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] five = {{5}}, int64[1] two = {{2}}> {{
      {SHAPED} d = Sub (n, five) a = Max (d, zero) b = Min (d, zero) c = Add (a, b) e = Add (c, five)
      t = Concat <axis = 0> (two, e) r = Reshape (x, t) y = Add (x, r)
    }}"""
    model = model_of(text)
    assert not conditions_of(tcpx.onnx.load(model).module)
    agree(model, *({"x": array(2, extent)} for extent in (1, 4, 9)))


def test_padding_up_to_a_size() -> None:
    text = f"""f (float[2, n] x) => (float y)
    <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] k = {{16}}, int64[1] two = {{2}}, int64[3] z = {{0, 0, 0}}>
    {{
      {SHAPED} d = Sub (k, n) p = Max (d, zero) q = Concat <axis = 0> (z, p) padded = Pad (x, q)
      m = Max (n, k) t = Concat <axis = 0> (two, m) ones = ConstantOfShape <value = float {{1.5}}> (t)
      y = Concat <axis = 0> (padded, ones)
    }}"""
    model = model_of(text.replace("value = float {1.5}", "value = float[1] {1.5}"))
    assert not conditions_of(tcpx.onnx.load(model).module)
    agree(model, *({"x": array(2, extent)} for extent in (1, 16, 21)))


@pytest.mark.parametrize("shift", [3, -3])
def test_elements_in_a_circle(shift: int) -> None:
    """torch.roll by a number: from the remainder of it by a dim, which may be shorter."""
    text = f"""f (float[2, n] x) => (float y)
    <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] by = {{{shift}}}, int64[1] far = {{4611686018427387904}}> {{
      {SHAPED} d = Sub (n, by) at = Mod (d, n) a = Slice (x, at, far, one) b = Slice (x, zero, at, one)
      y = Concat <axis = 1> (a, b)
    }}"""
    model = model_of(text)
    agree(model, *({"x": array(2, extent)} for extent in (1, 2, 3, 7)))
    for extent in (1, 3, 7):
        x = array(2, extent)
        np.testing.assert_array_equal(tcpx.evaluate(tcpx.onnx.load(model).module, x), np.roll(x, shift, 1))


def test_as_many_greatest_elements_as_a_batch() -> None:
    text = """f (float[B, m] x) => (float v, int64 i) <int64[1] zero = {0}>
      { s = Shape (x) k = Gather (s, zero) v, i = TopK <axis = 1> (x, k) }"""
    agree(model_of(text), {"x": array(3, 8)})


IMPOSSIBLE = [
    (
        f"f (float[n, 4, h, w] x) => (float y) {{ a = MaxPool {POOL} (x) y = Concat <axis = 1> (x, a) }}",
        "[n, 4, h, w]", "[n, 4, floordiv(h, 2), floordiv(w, 2)]",
    ),
    (  # by two equations: an even number of rows, and one more that is even, too
        f"f (float[n, 1, h, 4] x) => (float y, float z) "
        f"<{SCALES}, int64[8] p = {{0, 0, 1, 0, 0, 0, 0, 0}}> {{ a = MaxPool {POOL} (x) "
        f"u = Resize {RESIZE} (a, , s) y = Concat <axis = 1> (x, u) q = Pad (x, p) b = MaxPool {POOL} (q) "
        f"v = Resize {RESIZE} (b, , s) z = Concat <axis = 1> (q, v) }}",
        "[n, 1, h + 1, 4]", "[n, 1, 2*floordiv(h, 2), 4]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "required", "found"), IMPOSSIBLE)
def test_what_no_size_satisfies_is_an_error_of_the_import(text: str, required: str, found: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=r"Concat `.`") as error:
        _ = loaded(text).module
    held = error.value.diagnostic
    assert held.payload is not None
    assert "= Concat(" in held.payload.text
    assert (held.required, held.found) == (required, found)
    assert held.fix == "correct the model: no sizes of a call make these equal"
    assert not error.value.dims


def test_a_dim_that_may_be_1_of_itself_is_still_broadcast() -> None:
    module = loaded("f (float[n, m] x, float[k, 1] y) => (float z) { z = Add (x, y) }").module
    assert symbols_of(module) == "n: 1.., m: 1.., k: 1.."
    x, y = array(3, 2), array(1, 1)
    found: Any = tcpx.evaluate(module, x, y)
    np.testing.assert_allclose(found, x + y)


def test_equal_sizes_of_a_cache_stay_numbers() -> None:
    """How much of a cache is used is an argument of its own, which no equation replaces."""
    text = """f (float[1, past, 2] old, float[1, new, 2] more, float[1, all, 1] mask) => (float now, float y)
      { now = Concat <axis = 1> (old, more) t = Concat <axis = 2> (now, mask) y = Neg (t) }"""
    module = loaded(text, state={"old": "now"}).module
    assert [symbol.name for symbol in module.main.numbers.values()] == ["past"]
