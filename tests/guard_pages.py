"""Run a kernel with every array flush against pages that may not be touched: an access out of bounds is a SIGSEGV.

Inputs, outputs and workspace lie at the very end of their pages in one run, at the very beginning in another. Outputs
and workspace hold NaN (all bits set) before. What may be strided is, with a gap behind each row, in the run at the end:
nothing is written there. A call that ends with a signal returns here (`guard_pages.c`); bound calls, and those of
timed kernels, are in a forked process, which a large session makes slow. With threads, a bad access ends the session:
OpenMP's do not survive a fork.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.kernel import Kernel
from tcpx.emit_c.signature import Argument, KernelSignature
from tcpx.payload.sizes import evaluate
from tcpx.payload.sizes_of_arguments import size_told_by, telling_dims

Array = npt.NDArray[Any]
Side = Literal["front", "back"]
PAGE = mmap.PAGESIZE
PROT_NONE = 0
WORKSPACE_ALIGNMENT = 64
NO_NUMBERS: Mapping[str, int] = {}
GAP = 3
"""Elements behind each row of a strided array: rows are not aligned to one another."""
MOST_ARGUMENTS = 256
"""As many as `guard_pages.c` passes."""
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


class GuardedArray:
    """An argument of a kernel in guarded memory, with `gap` elements behind each row where it is strided."""

    def __init__(self, argument: Argument, shape: tuple[int, ...], side: Side, gap: int) -> None:
        dtype = argument.dtype.numpy
        elements = 1
        strides: list[int] = []
        for extent in reversed(shape):
            strides.insert(0, elements)
            elements = elements * extent + (gap if argument.is_strided else 0)
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        self.memory = GuardedMemory(dtype.itemsize * (last + 1) if 0 not in shape else 0, side)
        self.strides = strides[:-1] if argument.is_strided else []
        held = self.memory.bytes.data if self.memory.bytes.size else bytearray(1)
        self.array: Array = np.ndarray(shape, dtype, held, strides=[s * dtype.itemsize for s in strides])

    def has_clean_gaps(self) -> bool:
        """Whether what lies between the rows is as it was."""
        if not self.strides or not self.array.size:
            return True
        rest = self.memory.bytes.copy()
        elements = np.ndarray(self.array.shape, self.array.dtype, rest.data, strides=self.array.strides)
        elements.view(np.uint8)[...] = 0xFF
        return bool(np.all(rest == 0xFF))


def run_guarded(
    kernel: Kernel,
    *arrays: Array,
    bound: bool = False,
    numbers: Mapping[str, int] = NO_NUMBERS,
) -> tuple[Array, ...]:
    """The outputs of a kernel; fails if it leaves its arrays, changes an input, or depends on where they lie.

    It is called on addresses, or `bound` to the guarded arrays, with a workspace of its own. `numbers` are sizes that
    no array has.
    """
    at_back, at_front = (_run_once(kernel, arrays, side, bound, numbers) for side in ("back", "front"))
    for back, front in zip(at_back, at_front, strict=True):
        assert same_numbers(back, front), f"{kernel} depends on where its arrays lie"
    return at_back


def same_numbers(a: Array, b: Array) -> bool:
    """Whether two arrays hold the same numbers; NaN is the same as NaN."""
    return a.shape == b.shape and np.array_equal(_numbers(a), _numbers(b), equal_nan=True)


def _numbers(array: Array) -> Array:
    """The array in a dtype whose NaN NumPy knows: it does not know that of bfloat16."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return array.astype(np.float64) if array.dtype.kind == "V" or array.dtype.name == "bfloat16" else array


def _run_once(
    kernel: Kernel, arrays: Sequence[Array], side: Side, bound: bool, numbers: Mapping[str, int]
) -> tuple[Array, ...]:
    signature = kernel.signature
    sizes = dict(numbers)
    for name, (k, position) in telling_dims(argument.shape for argument in signature.inputs).items():
        sizes[name] = size_told_by(signature.inputs[k].shape[position], arrays[k].shape[position])
    gap = GAP if side == "back" else 0
    inputs = [GuardedArray(argument, a.shape, side, gap) for argument, a in zip(signature.inputs, arrays, strict=True)]
    for guarded, array in zip(inputs, arrays, strict=True):
        guarded.array[...] = array
    before = [guarded.memory.bytes.tobytes() for guarded in inputs]
    shapes = [tuple(evaluate(d, sizes) for d in argument.shape) for argument in signature.outputs]
    outputs = [
        GuardedArray(argument, shape, side, gap) for argument, shape in zip(signature.outputs, shapes, strict=True)
    ]
    workspace = GuardedMemory(kernel.workspace_bytes(sizes), side, WORKSPACE_ALIGNMENT)
    addresses = [guarded.memory.address for guarded in (*inputs, *outputs)]
    symbols = [sizes[s.name] for s in signature.symbols]
    symbols += [stride for guarded in (*inputs, *outputs) for stride in guarded.strides]
    if bound:
        call = kernel.bind(*(guarded.array for guarded in inputs), out=tuple(guarded.array for guarded in outputs))
        code = _in_child(kernel, lambda: 0 if call() is call.out else 1, side)
    elif signature.clocks or kernel.threads > 1:  # clocks count on in a child alone
        code = _in_child(kernel, lambda: kernel.call_raw(addresses, symbols, workspace.address), side)
    else:
        code = _guarded(kernel, addresses, symbols, workspace.address, side)
    assert code == 0, f"{kernel} returned {code}"
    for guarded, held, argument in zip(inputs, before, signature.inputs, strict=True):
        if argument.state is None:
            assert guarded.memory.bytes.tobytes() == held, f"{kernel} changed its input `{argument.name}`"
    results: list[GuardedArray] = []
    for argument in signature.results:
        results.append((inputs if argument.state is not None else outputs)[_position(signature, argument)])
        assert results[-1].has_clean_gaps(), f"{kernel} wrote between the rows of its output `{argument.name}`"
    return tuple(guarded.array.copy() for guarded in results)


def _position(signature: KernelSignature, argument: Argument) -> int:
    return (signature.inputs if argument.state is not None else signature.outputs).index(argument)


@cache
def _caller() -> Callable[..., int]:
    """The function of `guard_pages.c`, compiled once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "guard_pages.so"
        source = Path(__file__).with_suffix(".c")
        compiler = find_compiler({"PATH": os.environ["PATH"]})
        subprocess.run([*compiler.command, "-O1", "-shared", "-fPIC", "-o", built, source], check=True)
        return ctypes.CDLL(str(built)).guarded_call


def _guarded(kernel: Kernel, addresses: Sequence[int], symbols: Sequence[int], workspace: int, side: Side) -> int:
    """The return code of a call; fails if a signal ended it."""
    function = getattr(ctypes.CDLL(str(kernel.library_path)), kernel.signature.c_name)
    constants = kernel._constants.ctypes.data if kernel._constants.size else 0
    given = [*addresses, *symbols, constants, workspace]
    assert len(given) <= MOST_ARGUMENTS, f"{kernel} has {len(given)} arguments"
    code = _caller()(function, (ctypes.c_int64 * MOST_ARGUMENTS)(*given))
    _check_ended(kernel, code, side)
    return code


def _check_ended(kernel: Kernel, code: int, side: Side) -> None:
    assert code >= 0, f"{kernel} ended with {signal.Signals(-code).name}: it left an array, all lie at the {side}"


def _in_child(kernel: Kernel, run: Callable[[], int], side: Side) -> int:
    if kernel.threads > 1:
        return run()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        code = 255
        try:
            code = run()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    _check_ended(kernel, code, side)
    return code
