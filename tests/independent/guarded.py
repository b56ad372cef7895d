"""Arrays between pages that no one may touch: a kernel that reads or writes beyond one is killed."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.independent.numbers import Array

PAGE = mmap.PAGESIZE
POISON = 0xA5
_LIBC = ctypes.CDLL(None, use_errno=True)


def _protect(address: int, length: int, rights: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(length), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


class Guarded:
    """Memory for one array of any strides over its innermost dim, flush with the page behind it or before it."""

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], *, gap: int = 0, at_end: bool = True) -> None:
        item = dtype.itemsize
        pitch = [item] * len(shape)
        for k in range(len(shape) - 2, -1, -1):
            pitch[k] = pitch[k + 1] * max(1, shape[k + 1]) + (gap * item if k == len(shape) - 2 else 0)
        used = sum((n - 1) * p for n, p in zip(shape, pitch, strict=True)) + item if all(shape) else 0
        self.pages = -(-max(used, 1) // PAGE)
        self.map = mmap.mmap(-1, (self.pages + 2) * PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        begin = PAGE + (self.pages * PAGE - used if at_end else 0)
        whole = np.frombuffer(self.map, np.uint8)
        whole[PAGE : PAGE + self.pages * PAGE] = POISON
        self.array: Array = np.ndarray(tuple(shape), dtype, self.map, begin, pitch if shape else ())
        self.inside = whole[PAGE : PAGE + self.pages * PAGE]
        self.covered = np.zeros(self.pages * PAGE, bool)
        if all(shape):
            flags = np.ndarray((*shape, item), bool, self.covered, begin - PAGE, (*pitch, 1) if shape else (1,))
            flags[...] = True
        _protect(self.address, PAGE, 0)
        _protect(self.address + (self.pages + 1) * PAGE, PAGE, 0)

    def freeze(self) -> None:
        """Writing kills from here on."""
        _protect(self.address + PAGE, self.pages * PAGE, mmap.PROT_READ)

    def stray_writes(self) -> int:
        """Bytes outside of the array, between its rows as well, that are not what they were."""
        return int(((self.inside != POISON) & ~self.covered).sum())
