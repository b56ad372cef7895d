"""ONNX files: the message, and the arrays of its tensors, which are mapped where they lie outside of it."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from tcpx.frontends.onnx.errors import OnnxError
from tcpx.payload.evaluator import Array
from tcpx.payload.text.file import file_below, open_regular
from tcpx.plurals import counted

DEFAULT_DOMAINS: Final = ("", "ai.onnx")
LONGEST_NAME: Final = 1 << 14
"""Characters of a name of a value, a node or a dim."""
MOST_DIMS: Final = 64
"""Of an array of NumPy."""
MOST_OF_SPARSE: Final = 1 << 28
"""Elements of a sparse tensor with its zeros."""
LARGEST_FILE: Final = (1 << 31) - 1
"""Bytes of a message of Protocol Buffers; weights beyond are external data."""


def read_model(path: Path) -> onnx.ModelProto:
    """The message of a file. Raises OnnxError."""
    try:
        with open_regular(path) as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        found = (isinstance(error, OSError) and error.strerror) or str(error)
        raise _unreadable(path, "a file that can be read", found) from error
    if len(content) > LARGEST_FILE:
        raise _unreadable(path, f"{LARGEST_FILE} bytes at most", "more")
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> onnx.ModelProto:
    """A message from its bytes. Raises OnnxError."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise _unreadable(path, "a message of the type ModelProto", str(error)) from error
    return checked(model, path)


def checked(model: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """A message that is a model. Raises OnnxError."""
    if not model.HasField("graph") or not model.opset_import:
        found = "no graph" if not model.HasField("graph") else "no opset_import"
        raise _unreadable(path, "a model with a graph and its opsets", found)
    for imported in (model.opset_import, *(f.opset_import for f in model.functions)):
        versions_of(imported, str(path))
    names = (*_names_of(model.graph), *(name for f in model.functions for name in _names_in(f.node)))
    if not all(isinstance(name, str) for name in names):
        raise _unreadable(path, "names in UTF-8", "bytes that are no characters")
    longest = max((len(name) for name in names if isinstance(name, str)), default=0)
    if longest > LONGEST_NAME:
        raise _unreadable(path, f"names of {LONGEST_NAME} characters at most", f"a name of {longest}")
    return model


def versions_of(imported: Iterable[onnx.OperatorSetIdProto], file: str) -> dict[str, int]:
    """The versions of the operators by domain, of which the default is "". Raises OnnxError."""
    newest, found = onnx.defs.onnx_opset_version(), dict[str, int]()
    for opset in imported:
        domain = "" if opset.domain in DEFAULT_DOMAINS else opset.domain
        if not domain and not 1 <= opset.version <= newest:
            wanted = f"an opset up to {newest}, the newest of the package onnx"
            raise _unreadable(Path(file), wanted, f"opset {opset.version}")
        if found.setdefault(domain, opset.version) != opset.version:
            raise _unreadable(Path(file), "one opset of a domain", f"opsets {found[domain]} and {opset.version}")
    return found


def _names_of(graph: onnx.GraphProto) -> Iterator[object]:
    """The texts of a graph: protobuf hands those out as bytes that are not in UTF-8."""
    yield graph.name
    for named in (*graph.input, *graph.output, *graph.initializer):
        yield named.name
    for port in graph.input:
        yield from (dim.dim_param for dim in port.type.tensor_type.shape.dim)
    yield from _names_in(graph.node)


def _names_in(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            if attribute.HasField("g"):
                yield from _names_of(attribute.g)


class TensorReader:
    """Arrays of the tensors of a model. External data is read from its folder, or below it, or from the folder `store`
    that links there lead to, and from nowhere else."""

    def __init__(self, file: str, folder: Path, store: Path | None = None) -> None:
        self.file, self.folder, self.store = file, folder, store

    def __call__(self, tensor: onnx.TensorProto) -> Array:
        """The array of a TensorProto. Raises OnnxError."""
        shape = tuple(tensor.dims)
        if any(n < 0 for n in shape):
            raise self._error(tensor, "dims of 0 or more", str(list(shape)))
        if len(shape) > MOST_DIMS:
            raise self._error(tensor, f"{MOST_DIMS} dims at most", f"{len(shape)}")
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except (KeyError, TypeError, ValueError) as error:
            raise self._error(tensor, "a dtype of ONNX", f"number {tensor.data_type}") from error
        is_external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if dtype.hasobject and (is_external or tensor.HasField("raw_data")):
            raise self._error(tensor, "numbers, where bytes are stored", str(dtype))
        if is_external:
            return self._external(tensor, shape, dtype)
        if tensor.HasField("raw_data") and dtype.itemsize * 8 == _width(tensor.data_type, dtype):
            raw = tensor.raw_data
            if len(raw) != prod(shape) * dtype.itemsize:
                raise self._error(tensor, counted(prod(shape) * dtype.itemsize, "byte"), counted(len(raw), "byte"))
            return np.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind in "iuf" else dtype).reshape(shape)
        held = np.asarray(tensor.int32_data, np.int64)
        bits = _width(tensor.data_type, dtype)
        if dtype.kind in "iub" and bits in (8, 16) and held.size:
            least, most = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
            outside = held[(held < least) | (held > most)]
            if outside.size:
                raise self._error(tensor, f"elements of {dtype}, {least} to {most}", str(outside[0]))
        try:
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, RuntimeError, AttributeError, OverflowError, MemoryError) as error:
            raise self._error(tensor, f"{prod(shape)} elements of {dtype}", str(error)) from error

    def _external(self, tensor: onnx.TensorProto, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        count = prod(shape) * dtype.itemsize
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or count)
            if "location" not in entries:
                raise self._error(tensor, "external data with a `location`", ", ".join(entries) or "no entries")
            path = file_below(self.folder, entries["location"], self.store)
            with open_regular(path) as file:
                size = file.seek(0, 2)
                if offset < 0 or length != count or offset + count > size:
                    found = f"bytes {offset} to {offset + length} of a file of {size}"
                    raise self._error(tensor, f"{count} bytes within the file", found)
                if not count:
                    return np.empty(shape, dtype)
                return np.memmap(file, dtype, "r", offset, tuple(shape))
        except (OSError, ValueError) as error:
            required = "external data below the folder of the model"
            is_elsewhere = isinstance(error, OSError) and error.errno == errno.EACCES
            fix = f"cp -rL {self.folder} COPY, which follows links, and read the model there" if is_elsewhere else None
            raise self._error(tensor, required, str(error), fix) from error

    def sparse(self, tensor: onnx.SparseTensorProto) -> Array:
        """The array of a SparseTensorProto, with its zeros. Raises OnnxError."""
        values, indices, shape = self(tensor.values), self(tensor.indices), tuple(tensor.dims)
        if any(n < 0 for n in shape) or prod(shape) > MOST_OF_SPARSE or len(shape) > MOST_DIMS:
            raise self._error(tensor.values, f"dims of 0 or more, {MOST_OF_SPARSE} elements at most", str(list(shape)))
        is_flat = indices.ndim == 1  # counted in all of the tensor, else an index for each dim
        extents, wanted = ((prod(shape),), (values.size,)) if is_flat else (shape, (values.size, len(shape)))
        if values.ndim != 1 or indices.dtype != np.int64 or indices.shape != wanted:
            found = f"{indices.dtype}{list(indices.shape)}"
            raise self._error(tensor.values, f"an index for each value: int64{list(wanted)}", found)
        columns = indices.reshape(values.size, len(extents)).T.tolist()
        if any(not 0 <= k < n for column, n in zip(columns, extents, strict=True) for k in column):
            raise self._error(tensor.values, f"indices inside of {list(shape)}", "one outside")
        dense = np.zeros(extents, values.dtype)
        dense[tuple(columns)] = values
        return dense.reshape(shape)

    def _error(self, tensor: onnx.TensorProto, required: str, found: str, fix: str | None = None) -> OnnxError:
        name = tensor.name[:80] or "of an attribute"
        return OnnxError.at(self.file, f"cannot read the tensor `{name}`", required, found, fix)


def _width(number: int, dtype: np.dtype[Any]) -> int:
    """The bits of an element in a file: dtypes of 4 and 2 bits are packed."""
    names = onnx.TensorProto.DataType.Name(number)
    return next(
        (bits for suffix, bits in (("INT4", 4), ("INT2", 2), ("E2M1", 4)) if names.endswith(suffix)), dtype.itemsize * 8
    )


def _unreadable(path: Path, required: str, found: str) -> OnnxError:
    return OnnxError.at(str(path), f"cannot read the model {path}", required, found)
