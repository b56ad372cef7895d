"""Memory that kernels work in: aligned blocks, on huge pages where they are large, and a pool of them."""

import mmap
from collections.abc import Callable, Sized
from contextlib import suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.plurals import counted

ALIGNMENT: Final = 64
HUGE_PAGE: Final = 2 << 20
"""Bytes from which on a block is put on huge pages, and their size."""
POLICY: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")

Bytes = npt.NDArray[np.uint8]
Block = TypeVar("Block", bound=Sized)


def aligned_block(size: int) -> Bytes:
    """`size` bytes at a multiple of 64, from 2 MiB on at a multiple of 2 MiB and on huge pages; contents undefined.

    Raises ArgumentError where the system has not so much memory.
    """
    if size < HUGE_PAGE:
        block = np.empty(size + ALIGNMENT, dtype=np.uint8)
        alignment = ALIGNMENT
    else:
        pages = _pages(size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a Linux without huge pages
                pages.madvise(mmap.MADV_HUGEPAGE)
        block = np.frombuffer(pages, dtype=np.uint8)
        alignment = HUGE_PAGE
    start = -block.ctypes.data % alignment
    return block[start : start + size]


def aligned_copy(content: bytes) -> Bytes:
    """A block with these bytes."""
    block = aligned_block(len(content))
    block[:] = np.frombuffer(content, dtype=np.uint8)
    return block


def huge_page_bytes(size: int) -> int:
    """How many bytes of a block of this size the system is asked to put on huge pages."""
    return size if size >= HUGE_PAGE else 0


def huge_page_policy() -> str:
    """What the system says of transparent huge pages, the choice in brackets; "unknown" where it says nothing."""
    return POLICY.read_text(encoding="utf-8").strip() if POLICY.is_file() else "unknown"


def _pages(size: int) -> mmap.mmap:
    """Pages for `size` bytes from any multiple of HUGE_PAGE in them on.

    They are private. Shared ones, Python's default, would be those of a child process too, which would work in them at
    the same time, and Linux puts no shared ones on huge pages.
    """
    try:
        return mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ArgumentError(
            Diagnostic(
                "the memory that the kernel works in cannot be had",
                required=counted(size, "byte"),
                found=reason,
                fix="smaller sizes, or a schedule that packs and pads less",
            )
        ) from error


class WorkspacePool(Generic[Block]):
    """Blocks that are not in use, made by `make(size)`; `len` of a block is its size.

    A call takes one and gives it back, so calls at the same time have their own. Taking from and appending to a list
    are atomic: no lock is needed.
    """

    __slots__ = ("_free", "_make", "give_back")

    def __init__(self, make: Callable[[int], Block]) -> None:
        self._make = make
        self._free: list[Block] = []
        self.give_back: Callable[[Block], None] = self._free.append
        """Keeps a block for later calls."""

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes; one that is too small is dropped for a larger one."""
        try:
            block = self._free.pop()
        except IndexError:
            return self._make(size)
        return block if len(block) >= size else self._make(size)

    def __len__(self) -> int:
        return len(self._free)
