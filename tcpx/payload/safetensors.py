"""Arrays in `.safetensors` files: a header of JSON, then the data of all arrays, which is mapped and read when used.

The format: https://github.com/huggingface/safetensors, eight bytes for the length of the header, the header, the data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Final, cast

import numpy as np

from tcpx.payload.stored_arrays import Array, Header, UnreadableArrayError
from tcpx.payload.text.file import file_below, open_regular
from tcpx.payload.types import SCALARS

SUFFIX: Final = ".safetensors"
LARGEST_HEADER: Final = 100_000_000
"""Bytes; what the library of the format reads too."""
_NAMES: Final = {
    "f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "si64": "I64", "si32": "I32", "si16": "I16", "si8": "I8",
    "ui64": "U64", "ui32": "U32", "ui16": "U16", "ui8": "U8", "i1": "BOOL",
}  # fmt: skip
_DTYPES: Final = {name: SCALARS[ours].numpy for ours, name in _NAMES.items()}
_ALIGNMENT: Final = 64


class SafetensorsArchive:
    """An open file in a folder or below it. Raises UnreadableArrayError."""

    def __init__(self, folder: Path, name: str) -> None:
        try:
            self._file = open_regular(file_below(folder, name))
        except (OSError, ValueError) as error:
            raise UnreadableArrayError((isinstance(error, OSError) and error.strerror) or str(error)) from error
        try:
            self._first, self._entries = self._read_header()
        except BaseException:
            self._file.close()
            raise

    @property
    def names(self) -> list[str]:
        """The names of its arrays."""
        return list(self._entries)

    def headers(self) -> dict[str, Header]:
        """What each of its arrays is."""
        return {name: header for name, (header, _) in self._entries.items()}

    def read(self, name: str) -> Array:
        """An array, mapped from the file."""
        header, offset = self._entries[name]
        if not prod(header.shape):
            return np.empty(header.shape, header.dtype)
        return np.memmap(self._file, header.dtype, "r", self._first + offset, header.shape)

    def _read_header(self) -> tuple[int, dict[str, tuple[Header, int]]]:
        size = self._file.seek(0, 2)
        self._file.seek(0)
        start = self._file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > min(size - 8, LARGEST_HEADER):
            raise UnreadableArrayError("a header that the file is too short for")
        try:
            held = cast("object", json.loads(self._file.read(length)))
        except (ValueError, RecursionError) as error:
            raise UnreadableArrayError("a header that is no JSON") from error
        if not isinstance(held, Mapping):
            raise UnreadableArrayError("a header that names no arrays")
        entries = cast("Mapping[str, object]", held)
        first = 8 + length
        return first, {n: _entry(n, e, size - first) for n, e in entries.items() if n != "__metadata__"}

    def __enter__(self) -> SafetensorsArchive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()


def _entry(name: str, entry: object, size: int) -> tuple[Header, int]:
    fields = cast("Mapping[str, object]", entry if isinstance(entry, Mapping) else {})
    dtype, shape = fields.get("dtype"), _numbers(fields.get("shape"))
    match _numbers(fields.get("data_offsets")):
        case [begin, end] if dtype in _DTYPES and shape is not None and 0 <= begin <= end <= size:
            header = Header(_DTYPES[str(dtype)], tuple(shape))
            if end - begin == prod(shape) * header.dtype.itemsize:
                return header, begin
        case _:
            pass
    raise UnreadableArrayError(f'in "{name}": an entry that is no array within the file')


def _numbers(held: object) -> list[int] | None:
    """A list of numbers of 0 or more."""
    given = cast("list[object]", held) if isinstance(held, list) else [None]
    found = [n for n in given if isinstance(n, int) and n >= 0]
    return found if len(found) == len(given) else None


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, the widest elements first, so that all are aligned."""
    names = {SCALARS[ours].numpy: name for ours, name in _NAMES.items()}
    header: dict[str, object] = {}
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        end = offset + array.nbytes
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for name in header:
            file.write(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
