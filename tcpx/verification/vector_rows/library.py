"""The C file of `source.py` as a function, and memory that ends at pages without access."""

import mmap
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, cast

import numpy as np
import numpy.typing as npt
from cffi import FFI

from tcpx.records import frozen
from tcpx.target import InstructionRow
from tcpx.verification.vector_rows.meaning import Array
from tcpx.verification.vector_rows.source import ENTRY, ENTRY_NAME

_PROTECT: Final = "mprotect"
_FFI: Final = FFI()
_FFI.cdef(f"{ENTRY}; int {_PROTECT}(void *address, size_t length, int protection);")


class RowLibrary:
    """Rows of a target, built. `tolerances` are those of the target: function -> units in the last place."""

    def __init__(self, path: Path, rows: Sequence[InstructionRow], tolerances: dict[str, int]) -> None:
        self.rows, self.tolerances = tuple(rows), tolerances
        self._numbers = {row.name: number for number, row in enumerate(rows)}
        self._library = _FFI.dlopen(str(path))

    def run(self, row: InstructionRow, addresses: Sequence[int], out: int, count: int, n: int = 0, s: int = 0) -> None:
        """Call the row: operands at these addresses, `count` results at `out`, with `n` lanes and the stride `s`."""
        pointers = [_FFI.cast("void *", address) for address in (*addresses, 0, 0, 0)[:3]]
        call = cast("Callable[..., None]", getattr(self._library, ENTRY_NAME))
        call(self._numbers[row.name], *pointers, _FFI.cast("void *", out), count, n, s)


@frozen
class GuardedMemory:
    """Bytes between two pages that may not be touched."""

    bytes: npt.NDArray[np.uint8]

    @property
    def start(self) -> int:
        """The address of the first byte."""
        return self.bytes.ctypes.data

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.start + self.bytes.size

    def place_at_start(self, x: Array) -> int:
        """Put an array at the first byte; its address."""
        self.bytes[: x.nbytes] = x.view(np.uint8)
        return self.start

    def place_at_end(self, x: Array) -> int:
        """Put an array before the page behind the last byte; its address."""
        if x.size:
            self.bytes[-x.nbytes :] = x.view(np.uint8)
        return self.end - x.nbytes


@cache
def guarded_memory() -> GuardedMemory:
    """Two pages between two without any access. Raises OSError where the system does not protect pages."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 4 * page)
    whole = np.frombuffer(memory, np.uint8)
    protect = cast("Callable[..., int]", getattr(_FFI.dlopen(None), _PROTECT))
    for start in (0, 3 * page):
        if protect(_FFI.cast("void *", whole.ctypes.data + start), page, 0) != 0:
            raise OSError("mprotect failed")
    return GuardedMemory(whole[page : 3 * page])
