"""Arrays in `.npz` and `.npy` files: the headers first, which say what the data would be."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from lzma import LZMAError
from math import prod
from pathlib import Path
from tokenize import TokenError
from types import TracebackType
from typing import IO, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcpx.payload.text.file import file_below, open_regular
from tcpx.records import frozen

Array = npt.NDArray[np.generic]
BF16: Final = np.dtype(ml_dtypes.bfloat16)
RAW_BF16: Final = np.dtype("V2")
_SUFFIX: Final = ".npy"
_HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_FAULTS: Final = (
    *(OSError, ValueError, EOFError, MemoryError, RuntimeError, LookupError, ArithmeticError),
    *(zipfile.BadZipFile, zlib.error, LZMAError, struct.error, TokenError, SyntaxError),
)
"""What the readers of the standard library and of NumPy raise for files that are damaged."""


class UnreadableArrayError(Exception):
    """A file that has no arrays, or an array that is damaged; the text says what was found."""


@frozen
class Header:
    """What an array is, without its data. NumPy writes bf16 as two bytes without a type."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


class ArrayArchive:
    """An open `.npz` file in a folder or below it. Raises UnreadableArrayError."""

    def __init__(self, folder: Path, name: str) -> None:
        with _faults():
            self._file = open_regular(file_below(folder, name))
            try:
                self._archive = zipfile.ZipFile(self._file)
            except BaseException:
                self._file.close()
                raise

    @property
    def names(self) -> list[str]:
        """The names of its arrays."""
        return [name.removesuffix(_SUFFIX) for name in self._archive.namelist() if name.endswith(_SUFFIX)]

    def headers(self) -> dict[str, Header]:
        """What each of its arrays is."""
        return {name: self._header(name) for name in self.names}

    def _header(self, name: str) -> Header:
        with _faults(name), self._archive.open(name + _SUFFIX) as file:
            return _header_of(file)

    def read(self, name: str) -> Array:
        """An array with its data."""
        with _faults(name), self._archive.open(name + _SUFFIX) as file:
            return _array_of(file, self._archive.getinfo(name + _SUFFIX).file_size)

    def __enter__(self) -> ArrayArchive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._archive.close()
        self._file.close()


def read_npy(path: str | Path) -> Array:
    """The array in a `.npy` file. Raises UnreadableArrayError."""
    with _faults(), open_regular(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        if file.read(2) == b"PK":
            raise ValueError("several arrays")
        file.seek(0)
        return _array_of(file, size)


def _header_of(file: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"an array in version {version[0]}.{version[1]} of the format")
    try:
        shape, _, dtype = _HEADERS[version](file)
    except _FAULTS as error:  # NumPy says what it is in Python
        raise ValueError("a damaged header") from error
    return Header(BF16 if dtype == RAW_BF16 else dtype, shape)


def _array_of(file: IO[bytes], size: int) -> Array:
    """The array that a file of this many bytes holds: data that is not there is not made room for."""
    header = _header_of(file)
    needed = prod(header.shape) * header.dtype.itemsize
    if header.dtype.hasobject:
        raise ValueError("Python objects")
    if min(header.shape, default=0) < 0 or needed > size - file.tell():
        raise ValueError(f"{size - file.tell()} bytes for {header}, which takes {needed}")
    file.seek(0)
    array: Array = np.lib.format.read_array(file, allow_pickle=False)
    return array.view(BF16) if array.dtype == RAW_BF16 else array


@contextmanager
def _faults(name: str = "") -> Generator[None]:
    try:
        yield
    except zipfile.BadZipFile as error:  # of which the reason may show raw bytes
        raise UnreadableArrayError("no zip archive, or a damaged one") from error
    except _FAULTS as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or "damaged data"
        raise UnreadableArrayError(f'in "{name}": {reason}' if name else reason) from error
