"""Models stored as links into a folder beside them, as in caches of downloads; tensors that are not what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx
from tcpx.frontends.onnx import reference
from tcpx.frontends.onnx.reference import values_of
from tests.frontends.onnx.models import model_of

ADDED = "f (float[3] x) => (float[3] y) { y = Add(x, w) }"
X = np.zeros(3, np.float32)


def cached(folder: Path, data: str = "blobs") -> Path:
    """A model with external data: both are links in a snapshot to files of blobs; the data's may lie elsewhere."""
    snapshot, blobs = folder / "snapshots" / "main", folder / "blobs"
    for path in (snapshot, blobs, folder / data):
        path.mkdir(parents=True, exist_ok=True)
    model = model_of(ADDED)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w"))
    onnx.save(model, str(blobs / "m"), save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    (blobs / "model.onnx_data").rename(folder / data / "d")
    (snapshot / "model.onnx").symlink_to(Path("../../blobs/m"))
    (snapshot / "model.onnx_data").symlink_to(Path("../..") / data / "d")
    return snapshot / "model.onnx"


def test_a_cache_of_links(tmp_path: Path) -> None:
    found = tcpx.evaluate(tcpx.onnx.load(cached(tmp_path)).module, X)
    np.testing.assert_array_equal(found, [1, 2, 3])


def test_the_reference_of_a_cache_of_links(tmp_path: Path) -> None:
    values = values_of(tcpx.onnx.load(cached(tmp_path)), {"x": X}, "onnx")
    np.testing.assert_array_equal(values["y"], [1, 2, 3])


def test_a_reference_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tcpx.onnx.load(cached(tmp_path))
    with pytest.raises(tcpx.ArgumentError, match="nothing is known of `torch`"):
        values_of(model, {"x": X}, "torch")
    monkeypatch.setattr(reference, "find_spec", lambda _: None)
    with pytest.raises(tcpx.ArgumentError, match="ONNX Runtime is not installed"):
        values_of(model, {"x": X}, "ort")


def test_data_elsewhere_are_not_read(tmp_path: Path) -> None:
    path = cached(tmp_path, "secrets")
    with pytest.raises(tcpx.onnx.OnnxError, match="is not below") as error:
        _ = tcpx.onnx.load(path).module
    copy = tmp_path / "copy"
    assert error.value.diagnostic.fix == f"cp -rL {path.parent} COPY, which follows links, and read the model there"
    copy.mkdir()
    for link in path.parent.iterdir():
        (copy / link.name).write_bytes(link.read_bytes())
    np.testing.assert_array_equal(tcpx.evaluate(tcpx.onnx.load(copy / "model.onnx").module, X), [1, 2, 3])


def test_a_link_of_data_of_a_model_that_is_none(tmp_path: Path) -> None:
    path = cached(tmp_path)
    held = path.read_bytes()
    path.unlink()
    path.write_bytes(held)
    with pytest.raises(tcpx.onnx.OnnxError, match="is not below"):
        _ = tcpx.onnx.load(path).module


def test_a_location_that_climbs(tmp_path: Path) -> None:
    path = cached(tmp_path)
    model = onnx.load(str(path), load_external_data=False)
    model.graph.initializer[0].external_data[0].value = "../../blobs/d"
    (tmp_path / "blobs" / "m").write_bytes(model.SerializeToString())
    with pytest.raises(tcpx.onnx.OnnxError, match="is not below"):
        _ = tcpx.onnx.load(path).module


def sparse(values: np.ndarray, indices: np.ndarray, shape: list[int]) -> onnx.ModelProto:
    model = model_of("f (float[2, 3] x) => (float[2, 3] y) { y = Add(x, w) }")
    tensor = helper.make_sparse_tensor(
        numpy_helper.from_array(values, "w"), numpy_helper.from_array(indices, "places"), shape
    )
    model.graph.sparse_initializer.append(tensor)
    return model


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_a_sparse_weight(indices: Any) -> None:
    model = sparse(np.array([4, 7], np.float32), np.array(indices), [2, 3])
    found = tcpx.evaluate(tcpx.onnx.load(model).module, np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(found, [[0, 4, 0], [0, 0, 7]])


@pytest.mark.parametrize(
    ("indices", "shape", "required"),
    [
        ([1, 6], [2, 3], "indices inside of [2, 3]"),
        ([[0, 1], [1, -1]], [2, 3], "indices inside of [2, 3]"),
        ([1], [2, 3], "an index for each value: int64[2]"),
        ([1, 2], [1 << 20, 1 << 20], f"dims of 0 or more, {1 << 28} elements at most"),
    ],
)
def test_a_sparse_weight_that_is_none(indices: Any, shape: list[int], required: str) -> None:
    model = sparse(np.array([4, 7], np.float32), np.array(indices), shape)
    with pytest.raises(tcpx.onnx.OnnxError, match="cannot read the tensor `w`") as error:
        _ = tcpx.onnx.load(model).module
    assert error.value.diagnostic.required == required


@pytest.mark.parametrize(
    ("dtype", "number", "required"),
    [
        (TensorProto.INT8, 1000, "elements of int8, -128 to 127"),
        (TensorProto.UINT8, -1, "elements of uint8, 0 to 255"),
        (TensorProto.INT16, 1 << 20, "elements of int16, -32768 to 32767"),
        (TensorProto.BOOL, 2, "elements of bool, 0 to 1"),
    ],
)
def test_an_element_that_the_dtype_does_not_have(dtype: int, number: int, required: str) -> None:
    model = model_of("f (float[2] x) => (float[2] y) { z = Cast <to = 1> (w) y = Add(x, z) }")
    model.graph.initializer.append(TensorProto(name="w", data_type=dtype, dims=[2], int32_data=[0, number]))
    with pytest.raises(tcpx.onnx.OnnxError, match="cannot read the tensor `w`") as error:
        _ = tcpx.onnx.load(model).module
    assert (error.value.diagnostic.required, error.value.diagnostic.found) == (required, str(number))


@pytest.mark.parametrize("size", [-1, -5])
def test_a_size_below_0_to_broadcast_to(size: int) -> None:
    text = f"f (float[3] x) => (float[3] y) <int64[1] s = {{{size}}}> {{ y = Expand(x, s) }}"
    with pytest.raises(tcpx.onnx.OnnxError, match="sizes to broadcast to") as error:
        _ = tcpx.onnx.load(model_of(text)).module
    assert error.value.diagnostic.found == f"[{size}]"


def test_names_of_millions_of_characters() -> None:
    model = model_of("f (float[3] x) => (float[3] y) { y = Relu(x) }")
    model.graph.node[0].name = "n" * 10_000_000
    with pytest.raises(tcpx.onnx.OnnxError, match="cannot read the model") as error:
        tcpx.onnx.load(model)
    assert len(str(error.value)) < 400
    diagnostic = tcpx.Diagnostic("no `" + "n" * 10_000_000 + "` here", notes=("m" * 5000, "short"))
    assert len(str(diagnostic)) < 2_200
    assert diagnostic.message.endswith("n` here")
    assert diagnostic.notes[1] == "short"
