"""Resized images: elements that count equally are repeated; weighted rows are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx

NEAREST = ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("pytorch_half_pixel", "round_prefer_ceil")


def model(shape: list[int | str], scales: list[float], **attributes: Any) -> onnx.ModelProto:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None))]
    stored = [numpy_helper.from_array(np.array(scales, np.float32), "scales")]
    graph = helper.make_graph([node], "resize", ports[:1], ports[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def opcodes(resized: onnx.ModelProto) -> set[str]:
    return {op.opcode for func in tcpx.onnx.load(resized).module.funcs.values() for op in func.walk()}


def compare(resized: onnx.ModelProto, x: Any) -> None:
    wanted: Any = onnx.reference.ReferenceEvaluator(resized).run(None, {"x": x})
    kernel: Any = tcpx.compile(tcpx.onnx.load(resized).module, target="x86_avx2")
    np.testing.assert_allclose(kernel(x), wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("transform", "rounding"), NEAREST)
@pytest.mark.parametrize("dims", [[1, 3, 5, 7], [1, 3, "H", "W"]])
def test_equal_counts_are_repeats(transform: str, rounding: str, dims: list[int | str]) -> None:
    where = {"coordinate_transformation_mode": transform, "nearest_mode": rounding}
    resized = model(dims, [1, 1, 2, 3], mode="nearest", **where)
    assert "tcp.gather" not in opcodes(resized)
    compare(resized, np.random.default_rng(0).standard_normal((1, 3, 5, 7), np.float32))


@pytest.mark.parametrize("times", [2, 3, 4, 7])
@pytest.mark.parametrize("dims", [[1, 3, 5, 37], [1, 3, 5, 3], [1, 3, "H", "W"]])
def test_an_element_several_times_in_a_row_is_permuted(times: int, dims: list[int | str]) -> None:
    """Rows of 37 have whole vectors and a rest, of 3 a part of one; then none is read or written alone."""
    where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    resized = model(dims, [1, 1, 2, times], mode="nearest", **where)
    for width in (37, 3) if "W" in dims else (dims[-1],):
        assert isinstance(width, int)
        compare(resized, np.random.default_rng(0).standard_normal((1, 3, 5, width), np.float32))
    assert "permute_f32" in tcpx.emit(tcpx.onnx.load(resized).module, target="x86_avx2").c_source


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint16, np.float64])
@pytest.mark.parametrize("target", ["x86_avx2", "x86_avx512"])
def test_elements_of_any_dtype_are_repeated_beside_others(dtype: type[np.generic], target: str) -> None:
    """A residual of the new size is added where the image is repeated."""
    names: dict[Any, str] = {np.float16: "f16", np.int8: "si8", np.uint16: "ui16", np.float64: "f64"}
    name = names[dtype]
    payload = tcpx.parse(f"""
    func @f(%x: tensor<2x3x37x{name}>, %y: tensor<2x3x37x3x{name}>) -> tensor<2x3x37x3x{name}> {{
      %b = tcp.broadcast(%x) {{dims = [0, 1, 2]}} : tensor<2x3x37x3x{name}>
      %r = tcp.max(%b, %y) : tensor<2x3x37x3x{name}>
      tcp.return(%r)
    }}""")
    assert "permute" in tcpx.emit(payload, target=target).c_source
    draw = np.random.default_rng(0)
    x, y = (draw.integers(0, 100, shape).astype(dtype) for shape in ((2, 3, 37), (2, 3, 37, 3)))
    kernel: Any = tcpx.compile(payload, target=target)
    np.testing.assert_array_equal(kernel(x, y), np.maximum(x[..., None], y))


@pytest.mark.parametrize("scale", [1.5, 0.5])
def test_other_counts_are_gathers(scale: float) -> None:
    resized = model([1, 3, 8, 6], [1, 1, scale, 2], mode="nearest", nearest_mode="floor")
    assert "tcp.gather" in opcodes(resized)
    compare(resized, np.random.default_rng(0).standard_normal((1, 3, 8, 6), np.float32))


@pytest.mark.parametrize("axes", [[1, 2], [2, 3]])
def test_weighted_rows_are_not_copied(axes: list[int]) -> None:
    """The workspace has the result of one axis, and no elements that a gather took."""
    resized = model([1, 20, 24, 19], [2, 2], mode="linear", axes=axes)
    x = np.random.default_rng(0).standard_normal((1, 20, 24, 19), np.float32)
    compare(resized, x)
    kernel = tcpx.compile(tcpx.onnx.load(resized).module, target="x86_avx2")
    assert x.nbytes * 2 <= kernel.workspace_bytes({}) <= x.nbytes * 2.2


BLOCKS: list[tuple[list[int | str], list[float], str, str, dict[str, int]]] = [
    ([1, 23, 29, 131], [1, 2, 2, 1], "linear", "half_pixel", {}),
    ([1, 131, 23, 29], [1, 1, 2, 2], "linear", "align_corners", {}),
    ([3, 37, 31, 67], [1, 1.5, 2.5, 1], "cubic", "half_pixel", {}),
    (["B", 31, 41, 64], [1, 2, 1.3, 1], "linear", "asymmetric", {"B": 3}),
    ([2, 9, 11, 13, 40], [1, 2, 2, 2, 1], "linear", "half_pixel", {}),
    ([2, 17, 9, 11, 23], [1, 1, 2, 2, 2], "linear", "half_pixel", {}),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dims", "scales", "mode", "coordinates", "sizes"), BLOCKS)
def test_images_that_caches_do_not_hold_are_resized_in_blocks(
    dims: list[int | str], scales: list[float], mode: str, coordinates: str, sizes: dict[str, int], threads: int
) -> None:
    """Each thread has a block of what the last axis reads. Of three axes, the first is computed as a whole."""
    module = tcpx.onnx.load(model(dims, scales, mode=mode, coordinate_transformation_mode=coordinates)).module
    kernel: Any = tcpx.compile(module, target="x86_avx2", threads=threads)
    shape = [sizes[dim] if isinstance(dim, str) else dim for dim in dims]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    wanted: Any = tcpx.evaluate(module, x)
    np.testing.assert_allclose(kernel(x), wanted, rtol=1e-5, atol=1e-5)
    first = 2 * x.nbytes if len(dims) == 5 else 0
    assert kernel.workspace_bytes(sizes) <= first + threads * (tcpx.load_target("x86_avx2").l2 // 4 + 64)


def test_short_rows_are_no_blocks() -> None:
    """Of three channels, the result of the first axis is computed as a whole."""
    module = tcpx.onnx.load(model([1, 150, 150, 3], [1, 2, 2, 1], mode="linear")).module
    assert tcpx.compile(module, target="x86_avx2").workspace_bytes({}) >= 150 * 300 * 3 * 4
