"""Operators at their edges: arguments where formulas overflow or cancel, attributes and operands that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import helper, numpy_helper

import tcpx
from tests.frontends.onnx.models import loaded

HYPERBOLIC = {
    "Sinh": (np.sinh, [1e-30, 1e-3, 0.5, 20.0, 88.0, 88.9, 89.4, 95.0, np.inf]),
    "Cosh": (np.cosh, [1e-30, 1e-3, 0.5, 20.0, 88.0, 88.9, 89.4, 95.0, np.inf]),
    "Asinh": (np.arcsinh, [1e-30, 1e-3, 0.5, 1e10, 1e30, np.inf]),
    "Acosh": (np.arccosh, [1.0, 1.0001, 1.5, 1e10, 1e30, 0.5, 3e3, 1e8, np.inf]),
    "Atanh": (np.arctanh, [1e-30, 1e-3, 0.5, 0.999, 1 - 2**-24, 1.0, 1.5, np.inf]),
}


@pytest.mark.parametrize("operator", HYPERBOLIC)
def test_hyperbolic_functions(operator: str) -> None:
    function, sizes = HYPERBOLIC[operator]
    x = np.array([0.0, *sizes, -0.0, *(-s for s in sizes), np.nan], np.float32)
    module = loaded(f"f (float[n] x) => (float[n] y) {{ y = {operator}(x) }}").module
    found: Any = tcpx.evaluate(module, x)
    with np.errstate(all="ignore"):
        wanted = function(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=2e-6)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))


def test_a_sum_that_a_product_leaves_out_is_not_read() -> None:
    model = loaded("f (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y) { y = Gemm <beta = 0.0> (a, b, c) }")
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    found: Any = tcpx.evaluate(model.module, a, b, np.full(4, np.nan, np.float32))
    np.testing.assert_array_equal(found, np.full((2, 4), 3, np.float32))


@pytest.mark.parametrize("more", ["", ", antialias = 1", ", exclude_outside = 1"])
@pytest.mark.parametrize(("mode", "sizes"), [("linear", "40, 53"), ("linear", "37, 31"), ("cubic", "60, 33")])
def test_a_long_axis_is_resized_by_the_few_elements_that_have_a_weight(mode: str, sizes: str, more: str) -> None:
    """A product with a matrix of weights would multiply hundreds of zeros; and an infinity by each of them."""
    text = (
        f"f (float[40,33] x) => (float[p,q] y) <int64[2] s = {{{sizes}}}> "
        f'{{ y = Resize <mode = "{mode}"{more}> (x, , , s) }}'
    )
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 18]> {text}')
    x = np.random.default_rng(5).standard_normal((40, 33)).astype(np.float32)
    module = tcpx.onnx.load(model).module
    wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    found: Any = tcpx.evaluate(module, x)
    np.testing.assert_allclose(found, wanted[0], rtol=1e-5, atol=1e-5)
    assert module.main is not None
    opcodes = [op.opcode for op in module.main.walk()]
    assert "tcp.contract" not in opcodes
    x[3, 4] = np.inf
    infinite: Any = tcpx.evaluate(module, x)
    assert 0 < np.count_nonzero(~np.isfinite(infinite)) <= 64


IMAGE = f"f (float[1,2,5,5] x) => (float[a,b,c,d] y) <float[2,2,3,3] w = {{{', '.join(['1'] * 36)}}}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{IMAGE} {{ y = ConvTranspose <pads = [1]> (x, w) }}", "`pads` has two numbers"),
        (f"{IMAGE} {{ y = ConvTranspose <strides = [1]> (x, w) }}", "`strides` has a number"),
        (f"{IMAGE} {{ y = ConvTranspose <strides = [0, 1]> (x, w) }}", "`strides` has a number"),
        (f"{IMAGE} {{ y = ConvTranspose <output_shape = [9]> (x, w) }}", "`output_padding` and `output_shape`"),
        (f"{IMAGE} {{ y = ConvTranspose <output_padding = [1, 1, 1]> (x, w) }}", "`output_padding` and"),
        (f'{IMAGE} {{ y = Conv <auto_pad = "SAME"> (x, w) }}', "`auto_pad` is none of its words"),
        (f"{IMAGE} {{ y = LRN <size = 0> (x) }}", "the neighbours of a channel"),
        (f"{IMAGE} {{ y = LpPool <kernel_shape = [2, 2], p = 0> (x) }}", "the power of a norm"),
        (f"{IMAGE} {{ y = GlobalLpPool <p = 0> (x) }}", "the power of a norm"),
        (f"{IMAGE} {{ y = LpNormalization <p = 3> (x) }}", "the power of a norm"),
        ("f (int32[2,2] x) => (int32[2,2] y) { y = Gemm <alpha = 0.5> (x, x) }", "not supported"),
    ],
)
def test_attributes_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=message) as error:
        _ = loaded(text).module
    assert error.value.diagnostic.payload is not None


def _with(operator: str, *arrays: np.ndarray, opset: int = 21, **attributes: Any) -> onnx.ModelProto:
    """A model of one node, whose operands are `x`, three numbers, and arrays that are known; without `x` where there is
    no place for it."""
    names = [f"w{k}" if array.size or array.ndim else "" for k, array in enumerate(arrays)]
    weights = [numpy_helper.from_array(a, name) for a, name in zip(arrays, names, strict=True) if name]
    given = names if operator in ("Range", "ConstantOfShape") else ["x", *names]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(operator, given, ["y"], **attributes)], "f", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def scalar(number: float) -> np.ndarray:
    return np.array(number, np.float32)


NOTHING = np.zeros((), np.float32)[None][:0]


@pytest.mark.parametrize(
    "model",
    [
        _with("Range", scalar(0), scalar(np.inf), scalar(1)),
        _with("Range", scalar(0), scalar(np.nan), scalar(1)),
        _with("Range", scalar(0), scalar(3e38), scalar(1)),
        _with("ConstantOfShape", ints(-1)),
        _with("ConstantOfShape", ints(1 << 62, 1 << 62)),
        _with("ReduceSum", floats(np.nan)),
        _with("Unsqueeze", floats(np.nan)),
        _with("CumSum", scalar(np.nan)),
        _with("Pad", ints(0, 10**12), mode="edge"),
        _with("Resize", NOTHING, floats(np.nan)),
        _with("Resize", NOTHING, floats(np.inf)),
        _with("Resize", NOTHING, floats(1e9)),
        _with("Resize", NOTHING, floats(1.0, 2.0)),
        _with("Resize", NOTHING, NOTHING, ints(10**9), mode="linear"),
        _with("Resize", floats(0.0), floats(2.0), coordinate_transformation_mode="tf_crop_and_resize"),
        _with("Tile", ints(-2)),
        _with("Gather", ints(0, 3)),
        _with("Gather", ints(-4)),
        _with("GatherElements", ints(-4)),
        _with("ScatterElements", ints(3), floats(1.0)),
        _with("Reshape", ints(-3, -1)),
    ],
    ids=lambda model: model.graph.node[0].op_type,
)
def test_operands_that_make_no_sense(model: onnx.ModelProto) -> None:
    with pytest.raises(tcpx.TcpxError) as error:
        _ = tcpx.onnx.load(model).module
    assert error.value.diagnostic.payload is not None


BRANCH = "f (float[3] x, bool c) => (float[3] y) "
LOOP = "f (float[3] x) => (float[3] y) <int64 n = {2}, bool go = {1}, bool[0] none = {}> "


@pytest.mark.parametrize(
    "text",
    [
        BRANCH + "{ y = If (c) <then_branch = g () => (float[3] p) { p = Neg(x) }, "
        "else_branch = h () => (float[3] q, float[3] r) { q = Neg(x) r = Abs(x) }> }",
        LOOP + "{ y = If (none) <then_branch = g () => (float[3] p) { p = Neg(x) }, "
        "else_branch = h () => (float[3] q) { q = Neg(x) }> }",
        LOOP + "{ y = Loop (n, go, x) <body = b (int64 i, bool a, float[3] s) => (bool a) { t = Neg(s) }> }",
        LOOP + "{ y = Loop (n, go, x) <body = b (int64 i, bool a, float[3] s) => (bool[0] none, float[3] t) "
        "{ t = Neg(s) }> }",
        LOOP + "{ y = Scan (x) <num_scan_inputs = 2, body = b (float s) => (float t) { t = Neg(s) }> }",
        LOOP + "{ y = Scan (x) <num_scan_inputs = 1, scan_input_axes = [0, 0], body = b (float s) => (float t) "
        "{ t = Neg(s) }> }",
        LOOP + "{ y = Scan (x) <num_scan_inputs = 1, scan_output_axes = [0, 0], body = b (float s) => (float t) "
        "{ t = Neg(s) }> }",
    ],
)
def test_branches_and_loops_that_make_no_sense(text: str) -> None:
    with pytest.raises(tcpx.TcpxError) as error:
        _ = loaded(text).module
    assert error.value.diagnostic.payload is not None
