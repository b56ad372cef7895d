"""Shared libraries as Python callables, through cffi in ABI mode: nothing of Python's C API is compiled."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final, Protocol, cast

import numpy as np
from cffi import FFI

from tcpx.emit_c.arguments import ArgumentCheck, Array
from tcpx.emit_c.memory import Bytes, WorkspacePool, aligned_block
from tcpx.emit_c.openmp import Serial, Team, brief_waits, team_of
from tcpx.emit_c.signature import KernelSignature
from tcpx.emit_c.strides import is_writable_in_rows, outer_strides, overlap
from tcpx.emit_c.wrapper import wrapper_source
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.records import frozen
from tcpx.store.files_read import stamp

Result = Array | tuple[Array, ...]

SET_CC: Final = "set CC to a C compiler for this machine, and TCPX_CACHE_DIR to a directory that code may run from"


class Call(Protocol):
    """A generated wrapper: inputs and `out` in, results out."""

    def __call__(self, arrays: tuple[object, ...], out: object) -> Result: ...


class Bind(Protocol):
    """A generated wrapper: a function that runs the kernel on the arrays given here, the inputs, the results."""

    def __call__(
        self, arrays: tuple[object, ...], out: object
    ) -> tuple[Callable[[], Result], tuple[Array, ...], Result]: ...


@frozen
class Wrapper:
    """Both ways to run a kernel on arrays."""

    call: Call
    bind: Bind


def stamp_of(path: Path) -> tuple[int, ...]:
    """What tells a file from another one of its name; empty where there is none."""
    try:
        return stamp(path.stat())
    except OSError:
        return ()


class Library:
    """An opened shared library of kernels."""

    __slots__ = ("_ffi", "_library", "_team", "path", "stamp")

    def __init__(self, path: Path, kernels: Sequence[KernelSignature]) -> None:
        self.path = path
        self.stamp = stamp_of(path)
        self._ffi = FFI()
        self._ffi.cdef("\n".join(map(_declaration, kernels)))
        flags = os.RTLD_NOW | os.RTLD_LOCAL
        has_threads = any(kernel.threads > 1 for kernel in kernels)
        try:
            with brief_waits() if has_threads else nullcontext():
                self._library = self._ffi.dlopen(str(path), flags)
        except (OSError, UnicodeError) as error:  # UnicodeError: cffi takes paths in UTF-8 alone
            name = re.search(r"undefined symbol: (\w+)", str(error))
            define = "define `{}` in the `helpers` of the target, or `link` the library that has it"
            fix = define.format(name[1]) if name is not None else SET_CC
            raise _unloadable(f"a shared library: {path}", str(error), fix) from error
        missing = [kernel.c_name for kernel in kernels if not hasattr(self._library, kernel.c_name)]
        if missing:
            self._ffi.dlclose(self._library)
            raise _unloadable(f"a shared library with {', '.join(missing)}", f"none of this name in {path}")
        if has_threads:  # OpenMP's threads outlive a call: their code must not be unmapped
            self._library = self._ffi.dlopen(str(path), flags | os.RTLD_NODELETE)
        self._team = self._openmp() if has_threads else Serial()

    def _openmp(self) -> Team | Serial:
        """The team of the OpenMP runtime that the library is linked with."""
        self._ffi.cdef("void omp_set_max_active_levels(int); void __kmpc_fork_call(void);")
        if hasattr(self._library, "__kmpc_fork_call"):  # LLVM's runtime
            return Serial()
        function = getattr(self._library, "omp_set_max_active_levels", None)
        return Serial() if function is None else team_of(int(self._ffi.cast("intptr_t", function)), function)

    def wrapper(self, kernel: KernelSignature, constants: Bytes) -> Wrapper:
        """The checked calls of a kernel on arrays. `constants` stays alive as long as the wrapper."""
        ffi = self._ffi

        def make(size: int) -> FFI.CData:
            return _pointer(ffi, aligned_block(size))

        def packed(words: Sequence[FFI.CData | int]) -> object:
            return ffi.new("int64_t[]", [int(ffi.cast("int64_t", word)) for word in words])

        from_buffer = cast("Callable[[Array], object]", ffi.from_buffer)
        pool = WorkspacePool(make)
        return wrapper_of(
            kernel,
            getattr(self._library, kernel.c_name),
            bound=getattr(self._library, f"{kernel.c_name}_bound"),
            packed=packed,
            from_buffer=from_buffer,
            from_rows=lambda array: from_buffer(array[(slice(1),) * array.ndim]),
            constants=_pointer(ffi, constants) if constants.size else ffi.NULL,
            null=ffi.NULL,
            take=pool.take,
            give_back=pool.give_back,
            team=self._team,
        )

    def raw(self, kernel: KernelSignature) -> Callable[[Sequence[int], Sequence[int], int, int], int]:
        """The kernel on addresses: (arrays, sizes and strides, constants, workspace) -> return code, unchecked."""
        function, team = getattr(self._library, kernel.c_name), self._team

        def call(arrays: Sequence[int], sizes: Sequence[int], constants: int, workspace: int) -> int:
            if not team.is_ready:
                team.prepare(3)
            pointers = [self._ffi.cast("void *", address) for address in (*arrays, constants, workspace)]
            return function(*pointers[:-2], *sizes, *pointers[-2:])

        return call

    def times(self, kernel: KernelSignature) -> memoryview:
        """The array that a timed kernel counts in: nanoseconds and runs of each of its clocks, as int64."""
        array = getattr(self._library, kernel.times_name)
        return memoryview(self._ffi.buffer(array)).cast("q")

    def workspace_bytes(self, kernel: KernelSignature, sizes: Sequence[int]) -> int:
        """What the C function `.._workspace` answers."""
        return int(getattr(self._library, f"{kernel.c_name}_workspace")(*sizes))


def wrapper_of(
    kernel: KernelSignature,
    function: object,
    *,
    bound: object,
    packed: Callable[[Sequence[FFI.CData | int]], object] | Callable[[Sequence[object]], object],
    from_buffer: Callable[[Array], object],
    from_rows: Callable[[Array], object],
    constants: object,
    null: object,
    take: Callable[[int], object],
    give_back: Callable[[FFI.CData], None] | Callable[[int], None],
    team: Team | Serial,
) -> Wrapper:
    """The generated wrapper round a function with the parameters of the kernel.

    `bound(packed(words))`, with a workspace behind it where there is one, calls it on words that stay the same.
    Contiguous arrays are passed by `from_buffer`, others by `from_rows`. `take(bytes)` gives a workspace, `give_back`
    gets it after the call. `team` is that of the calling thread.
    """
    namespace: dict[str, object] = {
        "ndarray": np.ndarray,
        "empty": np.empty,
        "may_share_memory": np.may_share_memory,
        "check": ArgumentCheck(kernel),
        "from_buffer": from_buffer,
        "from_rows": from_rows,
        "outer_strides": outer_strides,
        "is_writable_in_rows": is_writable_in_rows,
        "overlap": overlap,
        "kernel": function,
        "bound": bound,
        "packed": packed,
        "constants": constants,
        "null": null,
        "take": take,
        "give_back": give_back,
        "team": team,
        **{f"t{k}": argument.dtype.numpy for k, argument in enumerate(kernel.inputs)},
        **{f"u{k}": argument.dtype.numpy for k, argument in enumerate(kernel.outputs)},
    }
    code = compile(wrapper_source(kernel), f"<wrapper of {kernel.c_name}>", "exec")
    exec(code, namespace)  # noqa: S102 - text made of templates and numbers alone, see wrapper.py
    return Wrapper(cast("Call", namespace["call"]), cast("Bind", namespace["bind"]))


def constants_block(kernel: KernelSignature, constants: Constants) -> Bytes:
    """The named arrays of a kernel, laid out as its signature says."""
    block = aligned_block(kernel.constants_bytes)
    block[:] = 0
    for slot in kernel.constants:
        array = constants.get(slot.name)
        if array is not None:
            block[slot.offset : slot.offset + slot.bytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return block


def _unloadable(required: str, found: str, fix: str = SET_CC) -> CompileError:
    return CompileError(
        Diagnostic(
            "the compiled kernel cannot be loaded",
            required=required,
            found=found,
            fix=fix,
        )
    )


def _pointer(ffi: FFI, block: Bytes) -> FFI.CData:
    """A foreign array over a block, which it keeps alive.

    The array itself is passed, not a memoryview of it: Python's collector clears a memoryview that is part of a cycle
    before cffi lets go of its buffer, and crashes.
    """
    return ffi.from_buffer(cast("bytearray", block))


def _parameters(kernel: KernelSignature) -> tuple[list[str], list[str]]:
    """C types of arrays, and of sizes and strides; all pointers are passed alike, so element types are left out."""
    arrays = len(kernel.inputs) + len(kernel.outputs)
    return ["void *"] * arrays, ["int64_t"] * (len(kernel.symbols) + len(kernel.strides))


def _bound_head(kernel: KernelSignature) -> str:
    return f"int {kernel.c_name}_bound(const int64_t *words{', void *workspace' if kernel.has_workspace else ''})"


def _declaration(kernel: KernelSignature) -> str:
    """C declarations for cffi."""
    arrays, numbers = _parameters(kernel)
    sizes = ", ".join(numbers[: len(kernel.symbols)]) or "void"
    return "\n".join(
        [
            f"int {kernel.c_name}({', '.join([*arrays, *numbers, 'void *', 'void *'])});",
            f"size_t {kernel.c_name}_workspace({sizes});",
            f"{_bound_head(kernel)};",
            *([f"extern int64_t {kernel.times_name}[{2 * len(kernel.clocks)}];"] if kernel.clocks else []),
        ]
    )


def bound_function(kernel: KernelSignature) -> str:
    """C of the kernel on words that lie side by side: cffi takes 35 ns for each argument that it passes."""
    arrays, numbers = _parameters(kernel)
    pointer, number = "(void *)(intptr_t)words[{}]", "words[{}]"
    forms = [*[pointer] * len(arrays), *[number] * len(numbers), pointer]
    words = [form.format(k) for k, form in enumerate(forms)]
    words.append("workspace" if kernel.has_workspace else "0")
    own = f"tcpx_own_{kernel.c_name}"
    return f"""\
#ifdef __ELF__ /* not a function of this name in another library, as libc's `step` */
static __typeof__({kernel.c_name}) {own} __attribute__((alias("{kernel.c_name}")));
#else
#define {own} {kernel.c_name}
#endif
{_bound_head(kernel)} {{ return {own}({", ".join(words)}); }}
"""
