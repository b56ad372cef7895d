"""Dims that a call decides: parts of them by steps, and what is said where they have to be numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx
from tests.frontends.onnx.models import loaded, model_of

FAR = 1 << 62
FORMS = list(product((1, 2, 3, -1, -2, -3), (0, 1, -1, -3, 3, 100, -100), (0, 1, 2, -1, -2, 100, -100, FAR, -FAR)))


def slices(forms: Sequence[tuple[int, int, int]]) -> onnx.ModelProto:
    """One slice for each form: step, start and end."""
    numbers = sorted({n for form in forms for n in form} | {0})
    nodes = [
        helper.make_node("Slice", ["x", f"n{start}", f"n{end}", "n0", f"n{step}"], [f"y{k}"])
        for k, (step, start, end) in enumerate(forms)
    ]
    held = [numpy_helper.from_array(np.array([n]), f"n{n}") for n in numbers]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N"])]
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(forms))]
    graph = helper.make_graph(nodes, "slices", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def part(x: np.ndarray, step: int, start: int, end: int) -> np.ndarray:
    """As ONNX says: unlike NumPy, what goes back from before the first element has that."""
    return x[max(start, -len(x)) if step < 0 else start : end : step]


def test_slices_of_a_dim_that_a_call_decides() -> None:
    module = tcpx.onnx.load(slices(FORMS)).module
    for extent in (1, 2, 3, 4, 7, 101):
        x = np.arange(extent, dtype=np.float32)
        for form, found in zip(FORMS, tcpx.evaluate(module, x), strict=True):
            np.testing.assert_array_equal(found, part(x, *form), err_msg=f"{form} of {extent}")


def test_slices_that_go_back_compiled() -> None:
    forms = [(-3, 100, -100), (-2, 3, 0), (3, -3, FAR), (-1, -2, -FAR)]
    kernel = tcpx.compile(tcpx.onnx.load(slices(forms)).module)
    for extent in (1, 4, 101):
        x = np.arange(extent, dtype=np.float32)
        found: Any = kernel(x)
        for form, ours in zip(forms, found, strict=True):
            np.testing.assert_array_equal(ours, part(x, *form))


NUMBERS = [
    ("f (float[N, hidden] x, float[8, 4] w) => (float y) { y = MatMul(x, w) }", "hidden", 8),
    ("f (float[N, hidden] x, float[8, 4] w) => (float y) { y = Gemm(x, w) }", "hidden", 8),
    ("f (float[N, c, 9] x, float[4, 3, 2] w) => (float y) { y = Conv(x, w) }", "c", 3),
    ("f (float[N, c, 9] x, float[3, 4, 2] w) => (float y) { y = ConvTranspose(x, w) }", "c", 3),
    ("f (float[c, 2] x, float[3, 2] w) => (float y) { y = Concat <axis = 1> (x, w) }", "c", 3),
]


@pytest.mark.parametrize(("text", "name", "number"), NUMBERS)
def test_a_dim_that_has_to_be_a_number(text: str, name: str, number: int) -> None:
    module = loaded(text).module
    assert name not in {symbol.name for symbol in module.main.symbols}
    assert module.text() == loaded(text, sizes={name: number}).module.text()
    with pytest.raises(tcpx.onnx.OnnxError, match=r"differ|channels"):
        _ = loaded(text, sizes={name: number + 1}).module


def test_a_dim_by_its_name_in_the_payload() -> None:
    model = model_of("f (float[N, hidden] x, float[hidden, 3] w) => (float y) { y = MatMul(x, w) }")
    for port, index in ((0, 1), (1, 0)):
        model.graph.input[port].type.tensor_type.shape.dim[index].dim_param = "the hidden-size"
    for name in ("the hidden-size", "the_hidden_size"):
        inputs = tcpx.onnx.load(model, sizes={name: 8}).inputs
        assert [str(port.type) for port in inputs] == ["tensor<[N]x8xf32>", "tensor<8x3xf32>"]


def recurrent(operator: str, direction: str = "forward", extra: str = "", operands: str = "") -> onnx.ModelProto:
    """All states, and the last one, of a sequence whose length a call decides."""
    rows, count = 5 * {"RNN": 1, "GRU": 3, "LSTM": 4}[operator], 2 if direction == "bidirectional" else 1
    given = f"float[T, B, 3] x, float[{count}, {rows}, 3] w, float[{count}, {rows}, 5] r"
    given += f", float[{count}, {2 * rows}] b, int32[B] lengths"
    return model_of(f"""f ({given}) => (float[T, {count}, B, 5] y, float[{count}, B, 5] h) {extra} {{
      y, h = {operator} <hidden_size = 5, direction = "{direction}"> (x, w, r, b{operands})
    }}""")


def operands_of(model: onnx.ModelProto, length: int) -> list[np.ndarray]:
    rng, sizes = np.random.default_rng(length), {"T": length, "B": 2}
    found: list[np.ndarray] = []
    for given in model.graph.input:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in given.type.tensor_type.shape.dim]
        found.append(rng.standard_normal(shape).astype(np.float32))
    return [*found[:4], np.array([length, 1], np.int32)]


STORED = "<float[1, 15] p = {" + ", ".join(["0.3", "-0.5", "0.7"] * 5) + "}>"
RECURRENT = [
    ("RNN", "reverse", "", ""),
    ("RNN", "forward", "", ", lengths"),
    ("GRU", "bidirectional", "", ""),
    ("GRU", "forward", "", ", lengths"),
    ("LSTM", "bidirectional", "", ""),
    ("LSTM", "forward", STORED, ", lengths, , , p"),
]


@pytest.mark.parametrize(("operator", "direction", "stored", "operands"), RECURRENT)
def test_sequences_whose_length_a_call_decides(operator: str, direction: str, stored: str, operands: str) -> None:
    """The loop computes what the steps do one after the other, to the bit."""
    model = recurrent(operator, direction, stored, operands)
    module = tcpx.onnx.load(model).module
    assert module.text().count("gml_st.for") == (2 if direction == "bidirectional" else 1)
    for length in (1, 2, 5):
        args = operands_of(model, length)
        unrolled = tcpx.onnx.load(model, sizes={"T": length}).module
        assert "gml_st.for" not in unrolled.text()
        for ours, theirs in zip(tcpx.evaluate(module, *args), tcpx.evaluate(unrolled, *args), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
def test_eight_steps_are_a_loop(operator: str) -> None:
    """Its first seven steps are those that are written one after the other, to the bit."""
    model = recurrent(operator)
    short, long = (tcpx.onnx.load(model, sizes={"T": length}).module for length in (7, 8))
    assert ("gml_st.for" in short.text(), long.text().count("gml_st.for")) == (False, 1)
    x, *weights = operands_of(model, 8)[:4]
    shown: Any = tcpx.evaluate(long, x, *weights, *[np.array([8, 8], np.int32)])
    wanted: Any = tcpx.evaluate(short, x[:7], *weights, *[np.array([7, 7], np.int32)])
    np.testing.assert_array_equal(shown[0][:7], wanted[0])


def test_a_long_sequence_compiled() -> None:
    model = recurrent("GRU", operands=", lengths")
    kernel, args = tcpx.compile(tcpx.onnx.load(model).module), operands_of(model, 300)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    wanted = tcpx.evaluate(tcpx.onnx.load(model, sizes={"T": 300, "B": 2}).module, *args)
    for ours, theirs in zip(kernel(*args), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_dims_by_words_of_payloads() -> None:
    model = loaded("f (float[f32,inf,tile] x) => (float[f32,inf,tile] y) { y = Neg(x) }")
    assert [symbol.name for symbol in model.module.main.symbols] == ["f32_", "inf_", "tile_"]
    fixed = loaded("f (float[f32] x) => (float[f32] y) { y = Neg(x) }", sizes={"f32": 3})
    assert not fixed.module.main.symbols


@pytest.mark.parametrize(("first", "most"), [(0, 32), (5, 27)])
def test_positions_bound_the_length(first: int, most: int) -> None:
    """As many as a table of positions has, which a call may not exceed."""
    text = f"""f (float[N,S] x) => (float[N,S,2] y)
    <int64 zero = {{0}}, int64 one = {{1}}, int64 first = {{{first}}}, int64[1] axis = {{0}}> {{
      shape = Shape(x)
      length = Gather(shape, one)
      counted = Range(zero, length, one)
      places = Add(counted, first)
      row = Unsqueeze(places, axis)
      e = Gather(table, row)
      wide = Unsqueeze(x, last)
      y = Add(wide, e)
    }}"""
    model = model_of(text)
    table = np.arange(64, dtype=np.float32).reshape(32, 2)
    model.graph.initializer.extend(
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([2]), "last")]
    )
    kernel = tcpx.compile(tcpx.onnx.load(model).module)
    x = np.ones((2, most), np.float32)
    np.testing.assert_array_equal(kernel(x)[1], table[first : first + most] + 1)
    with pytest.raises(tcpx.ArgumentError, match="the size `S` is out of its range"):
        kernel(np.ones((2, most + 1), np.float32))


CASTS = (("bool", onnx.TensorProto.BOOL, np.bool_), ("int8", onnx.TensorProto.INT8, np.int8))


@pytest.mark.parametrize(("name", "to", "dtype"), CASTS)
def test_a_shape_cast_to_a_dtype_that_has_not_all_sizes(name: str, to: int, dtype: type[np.generic]) -> None:
    text = f"f (float[N, 300] x) => ({name}[2] y) {{ s = Shape(x)\n y = Cast <to = {to}> (s) }}"
    module = loaded(text).module
    for extent in (1, 2, 200):
        found = tcpx.evaluate(module, np.zeros((extent, 300), np.float32))
        np.testing.assert_array_equal(found, np.array([extent, 300]).astype(dtype))


def test_dims_that_a_size_has_to_be_known_of() -> None:
    """A Resize without aliases needs the dims that it changes, and what a shape decides needs those of the shape."""
    text = """f (float[N, 3, H, W] x) => (float y) <float[4] scales = {1.0, 1.0, 0.6, 1.0}> {
      y = Resize <mode = "linear", antialias = 1> (x, , scales)
    }"""
    with pytest.raises(tcpx.onnx.UnsupportedError, match=r"--size H=<number>$") as error:
        _ = loaded(text).module
    assert error.value.dims == ("H",)
    assert error.value.findings[0].dims == ("H",)
    model = loaded(text).specialized(sizes={"H": 5})
    x = np.arange(2 * 3 * 5 * 2, dtype=np.float32).reshape(2, 3, 5, 2)
    assert np.asarray(tcpx.evaluate(model.module, x)).shape == (2, 3, 3, 2)
    text = "f (int64[K] i, float[M] x, float[2] v) => (float y) { depth = Shape (x) y = OneHot (i, depth, v) }"
    with pytest.raises(tcpx.onnx.UnsupportedError, match=r"`depth`\) has to be constant; .*--size M=<number>$"):
        _ = loaded(text).module
    assert loaded(text).specialized(sizes={"M": 4}).module.main.returned


def test_numbers_that_are_no_sizes() -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match="`hidden` has no such size"):
        loaded(NUMBERS[0][0]).specialized(sizes={"hidden": -1})


PADS = [(mode, low, high) for mode in ("edge", "wrap", "reflect") for low, high in ((0, 3), (2, 1), (-1, 2))]


def padding(pads: Sequence[tuple[str, int, int]]) -> onnx.ModelProto:
    """One padding of both dims for each mode and its numbers."""
    nodes = [
        helper.make_node("Pad", ["x", f"p{low},{high}"], [f"y{k}"], mode=mode)
        for k, (mode, low, high) in enumerate(pads)
    ]
    numbers = sorted({(low, high) for _, low, high in pads})
    held = [numpy_helper.from_array(np.array([0, low, 1, high]), f"p{low},{high}") for low, high in numbers]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])]
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(pads))]
    graph = helper.make_graph(nodes, "pads", inputs, outputs, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def padded(x: np.ndarray, mode: str, low: int, high: int) -> np.ndarray:
    part = x[:, -min(0, low) :]
    return np.pad(part, ((0, 1), (max(0, low), high)), cast("Any", mode))


def test_padding_by_elements_of_a_dim_that_a_call_decides() -> None:
    module = tcpx.onnx.load(padding(PADS)).module
    for shape in ((1, 2), (2, 3), (3, 8), (1, 1)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        if shape[1] == 1:
            with pytest.raises(tcpx.ArgumentError, match="elements of an empty dim cannot be repeated"):
                tcpx.evaluate(module, x)
            continue
        for form, found in zip(PADS, tcpx.evaluate(module, x), strict=True):
            np.testing.assert_array_equal(found, padded(x, *form), err_msg=f"{form} of {shape}")


def test_padding_compiled() -> None:
    forms = [("wrap", 2, 1), ("reflect", 2, 3)]
    kernel = tcpx.compile(tcpx.onnx.load(padding(forms)).module)
    for shape in ((1, 1), (2, 3), (3, 17)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found: Any = kernel(x)
        for form, ours in zip(forms, found, strict=True):
            np.testing.assert_array_equal(ours, padded(x, *form))


TRANSFORMS = "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric".split()
ROUNDINGS = "round_prefer_floor round_prefer_ceil floor ceil".split()


def resizing(
    forms: Sequence[tuple[str, str, float]], dim: int | str, by: str = "scales", **attributes: Any
) -> onnx.ModelProto:
    """One Resize for each form: coordinates, rounding and scale; to nearest elements, unless `attributes` say how."""
    values = sorted({scale for _, _, scale in forms})
    nodes = [
        helper.make_node(
            "Resize", ["x", "", f"s{values.index(scale)}"] if by == "scales" else ["x", "", "", "size"], [f"y{k}"],
            coordinate_transformation_mode=transform, nearest_mode=rounding, **attributes,
        )
        for k, (transform, rounding, scale) in enumerate(forms)
    ]  # fmt: skip
    held = [numpy_helper.from_array(np.array([1, v], np.float32), f"s{k}") for k, v in enumerate(values)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, dim])]
    if by == "sizes":
        inputs.append(helper.make_tensor_value_info("like", TensorProto.FLOAT, [2, "L"]))
        nodes.insert(0, helper.make_node("Shape", ["like"], ["size"]))
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(forms))]
    graph = helper.make_graph(nodes, "resizes", inputs, outputs, held if by == "scales" else [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("attributes", [{"mode": "linear"}, {"mode": "cubic"}, {"mode": "cubic", "exclude_outside": 1}])
def test_resizing_by_weights_of_a_dim_that_a_call_decides(attributes: dict[str, Any]) -> None:
    """What the importer computes where the dim is a number."""
    forms = [(transform, "floor", scale) for transform in TRANSFORMS for scale in (2.0, 0.6, 2.7)]
    module = tcpx.onnx.load(resizing(forms, "N", **attributes)).module
    for extent in (1, 2, 3, 8, 31):
        x = np.random.default_rng(extent).standard_normal((2, extent)).astype(np.float32)
        wanted = tcpx.evaluate(tcpx.onnx.load(resizing(forms, extent, **attributes)).module, x)
        for form, ours, theirs in zip(forms, tcpx.evaluate(module, x), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=2e-6, err_msg=f"{form} of {extent}")


def test_resizing_by_weights_compiled() -> None:
    forms = [("half_pixel", "floor", 1.0), ("align_corners", "floor", 1.0)]
    model = resizing(forms, "N", by="sizes", mode="linear")
    kernel, reference = tcpx.compile(tcpx.onnx.load(model).module), onnx.reference.ReferenceEvaluator(model)
    for extent, size in ((1, 4), (5, 9), (33, 17)):
        arrays = {
            "x": np.random.default_rng(size).standard_normal((2, extent)).astype(np.float32),
            "like": np.zeros((2, size), np.float32),
        }
        for ours, theirs in zip(
            cast("Any", kernel(*arrays.values())), cast("Any", reference.run(None, arrays)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_resizing_to_nearest_elements_of_a_dim_that_a_call_decides() -> None:
    """What the importer computes where the dim is a number, which ONNX's own tests compare with its reference."""
    forms = list(product(TRANSFORMS, ROUNDINGS, (2.0, 1.5, 0.6, 1 / 3, 2.7)))
    module = tcpx.onnx.load(resizing(forms, "N")).module
    for extent in (1, 2, 3, 5, 8, 31):
        x = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
        wanted = tcpx.evaluate(tcpx.onnx.load(resizing(forms, extent)).module, x)
        for form, ours, theirs in zip(forms, tcpx.evaluate(module, x), wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{form} of {extent}")


def test_resizing_to_sizes_that_a_call_decides() -> None:
    forms = [(transform, rounding, 1.0) for transform in TRANSFORMS for rounding in ROUNDINGS]
    module = tcpx.onnx.load(resizing(forms, "N", "sizes")).module
    for extent, length in ((1, 1), (1, 4), (3, 1), (3, 7), (7, 3), (5, 5)):
        x = np.arange(2 * extent, dtype=np.float32).reshape(2, extent)
        like = np.zeros((2, length), np.float32)
        model = tcpx.onnx.load(resizing(forms, "N", "sizes"), sizes={"N": extent, "L": length})
        wanted = tcpx.evaluate(model.module, x, like)
        for form, ours, theirs in zip(forms, tcpx.evaluate(module, x, like), wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"{form} of {extent} to {length}")


def test_resizing_compiled() -> None:
    text = """f (float[N, H, W] x) => (float y, float z)
    <float[3] up = {1.0, 2.0, 3.0}, float[3] most = {1.0, 1.5, 0.6}> {
      y = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, , up)
      z = Resize <nearest_mode = "ceil"> (x, , most)
    }"""
    kernel = tcpx.compile(loaded(text).module)
    for shape in ((1, 1, 2), (2, 3, 5), (1, 8, 17)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found: Any = kernel(x)
        np.testing.assert_array_equal(found[0], x.repeat(2, 1).repeat(3, 2))
        fixed = loaded(text, sizes=dict(zip("NHW", shape, strict=True))).module
        np.testing.assert_array_equal(found[1], tcpx.evaluate(fixed, x)[1])
    upsampled = loaded("f (float[N] x) => (float y) <float[1] s = {2.0}> { y = Upsample(x, s) }", opset=9).module
    np.testing.assert_array_equal(tcpx.evaluate(upsampled, np.arange(3, dtype=np.float32)), [0, 0, 1, 1, 2, 2])


@pytest.mark.parametrize("operator", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("length", [1, 7])
def test_sequences_of_several_lengths_in_both_directions(operator: str, length: int) -> None:
    """Each sequence by itself, cut to its length, is what its part of the results says; behind it are zeros."""
    every = recurrent(operator, "bidirectional", operands=", lengths")
    single = recurrent(operator, "bidirectional")
    x, w, r, b, _ = operands_of(every, length)
    for count in sorted({1, (length + 1) // 2, length}):
        lengths = np.array([length, count], np.int32)
        for sizes in ({}, {"T": length}):
            found: Any = tcpx.evaluate(tcpx.onnx.load(every, sizes=sizes).module, x, w, r, b, lengths)
            y, h = found
            for k, own in enumerate(lengths):
                alone: Any = tcpx.evaluate(tcpx.onnx.load(single).module, x[:own, k : k + 1], w, r, b, lengths[:1])
                np.testing.assert_allclose(y[:own, :, k], alone[0][:, :, 0], rtol=2e-5, atol=1e-6)
                np.testing.assert_allclose(h[:, k], alone[1][:, 0], rtol=2e-5, atol=1e-6)
                np.testing.assert_array_equal(y[own:, :, k], 0)


def test_a_cell_of_several_lengths_in_reverse() -> None:
    """The last cell is that after the first step, and the loop is compiled."""
    text = """f (float[T, 2, 3] x, float[1, 20, 3] w, float[1, 20, 5] r, int32[2] lengths)
    => (float y, float h, float c) {
      y, h, c = LSTM <hidden_size = 5, direction = "reverse"> (x, w, r, , lengths)
    }"""
    rng, module = np.random.default_rng(0), loaded(text).module
    x, w, r = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 2, 3), (1, 20, 3), (1, 20, 5)))
    lengths = np.array([4, 2], np.int32)
    found, kernel = tcpx.evaluate(module, x, w, r, lengths), tcpx.compile(module)
    short = tcpx.evaluate(module, x[:2], w, r, np.array([2, 2], np.int32))
    for ours, theirs in zip(found[1:], short[1:], strict=True):
        np.testing.assert_array_equal(ours[:, 1], theirs[:, 1])
    for ours, theirs in zip(kernel(x, w, r, lengths), found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("mode", "dtype"), [("nearest", "float"), ("nearest", "int8"), ("linear", "float")])
def test_crops_beyond_the_tensor(mode: str, dtype: str) -> None:
    """What lies outside along one of the axes is a number, which is not mixed with the elements."""
    text = f"""f ({dtype}[1, 1, 5, 4] x) => (y)
      <float[8] roi = {{0, 0, 0.4, -0.5, 1, 1, 1.2, 1.7}}, int64[4] size = {{1, 1, 3, 7}}> {{
      y = Resize <mode = "{mode}", coordinate_transformation_mode = "tf_crop_and_resize", extrapolation_value = 10.0>
        (x, roi, , size)
    }}"""
    model = model_of(text)
    x = np.arange(20).reshape(1, 1, 5, 4).astype(np.float32 if dtype == "float" else np.int8)
    (wanted,) = cast("list[Any]", onnx.reference.ReferenceEvaluator(model).run(None, {"x": x}))
    assert 0 < np.sum(wanted == 10) < wanted.size
    found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
