"""Run a kernel with every array flush against pages that may not be touched: an access out of bounds is a SIGSEGV.

Inputs, outputs and workspace lie at the very end of their pages in one run, at the very beginning in another. Outputs
and workspace hold NaN (all bits set) before. The kernel runs in a forked process, unless it has threads: OpenMP's do
not survive a fork, so there a bad access ends the test session.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcpx.emit_c.arguments import as_symbol
from tcpx.emit_c.kernel import Kernel
from tcpx.payload.sizes import evaluate

Array = npt.NDArray[Any]
Side = Literal["front", "back"]
PAGE = mmap.PAGESIZE
PROT_NONE = 0
WORKSPACE_ALIGNMENT = 64
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedMemory:
    """Pages between two that may not be touched, shared with forked processes."""

    def __init__(self, size: int, side: Side, alignment: int = 1) -> None:
        inner = -(-size // PAGE) * PAGE
        self._pages = mmap.mmap(-1, inner + 2 * PAGE)
        whole = np.frombuffer(self._pages, dtype=np.uint8)
        for start in (0, PAGE + inner):
            address = ctypes.c_void_p(whole.ctypes.data + start)
            if _libc.mprotect(address, ctypes.c_size_t(PAGE), PROT_NONE):
                raise OSError(ctypes.get_errno(), "mprotect")
        start = PAGE if side == "front" else PAGE + (inner - size) // alignment * alignment
        self.bytes = whole[start : start + size]
        self.bytes[:] = 0xFF

    @property
    def address(self) -> int:
        return self.bytes.ctypes.data

    def array(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
        """The memory as an array."""
        return self.bytes.view(np.dtype(dtype)).reshape(tuple(shape))


def run_guarded(kernel: Kernel, *arrays: Array) -> tuple[Array, ...]:
    """The outputs of a kernel; fails if it leaves its arrays, changes an input, or depends on where they lie."""
    at_back, at_front = (_run_once(kernel, arrays, side) for side in ("back", "front"))
    for back, front in zip(at_back, at_front, strict=True):
        assert same_numbers(back, front), f"{kernel} depends on where its arrays lie"
    return at_back


def same_numbers(a: Array, b: Array) -> bool:
    """Whether two arrays hold the same numbers; NaN is the same as NaN."""
    return a.shape == b.shape and np.array_equal(_numbers(a), _numbers(b), equal_nan=True)


def _numbers(array: Array) -> Array:
    """The array in a dtype whose NaN NumPy knows: it does not know that of bfloat16."""
    return array.astype(np.float64) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def _run_once(kernel: Kernel, arrays: Sequence[Array], side: Side) -> tuple[Array, ...]:
    signature = kernel.signature
    sizes: dict[str, int] = {}
    for argument, array in zip(signature.inputs, arrays, strict=True):
        for dim, extent in zip(argument.shape, array.shape, strict=True):
            symbol = as_symbol(dim)
            if symbol is not None:
                sizes.setdefault(symbol.name, extent)
    inputs = [GuardedMemory(a.nbytes, side) for a in arrays]
    for memory, array in zip(inputs, arrays, strict=True):
        memory.bytes[:] = np.frombuffer(array.tobytes(), dtype=np.uint8)
    shapes = [tuple(evaluate(d, sizes) for d in argument.shape) for argument in signature.outputs]
    dtypes = [argument.dtype.numpy for argument in signature.outputs]
    outputs = [
        GuardedMemory(int(np.prod(shape)) * dtype.itemsize, side) for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    workspace = GuardedMemory(kernel.workspace_bytes(sizes), side, WORKSPACE_ALIGNMENT)
    addresses = [memory.address for memory in (*inputs, *outputs)]
    symbols = [sizes[s.name] for s in signature.symbols]
    code = _in_child(kernel, addresses, symbols, workspace.address, side)
    assert code == 0, f"{kernel} returned {code}"
    for memory, array, argument in zip(inputs, arrays, signature.inputs, strict=True):
        assert memory.bytes.tobytes() == array.tobytes(), f"{kernel} changed its input `{argument.name}`"
    return tuple(m.array(s, d).copy() for m, s, d in zip(outputs, shapes, dtypes, strict=True))


def _in_child(kernel: Kernel, addresses: list[int], sizes: list[int], workspace: int, side: Side) -> int:
    if kernel.threads > 1:
        return kernel.call_raw(addresses, sizes, workspace)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os._exit(kernel.call_raw(addresses, sizes, workspace))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code >= 0, f"{kernel} ended with {signal.Signals(-code).name}: it left an array, all lie at the {side}"
    return code
