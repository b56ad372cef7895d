"""The kernels of a C file as instrumented programs, with the interface of a library."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, cast

import numpy as np

from tcpx.emit_c.arguments import Array
from tcpx.emit_c.binding import Wrapper, wrapper_of
from tcpx.emit_c.driver import build_sanitized_program
from tcpx.emit_c.memory import Bytes
from tcpx.emit_c.openmp import Serial
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.emit_c.sanitizer.program import program_source
from tcpx.emit_c.sanitizer.report import Memory, diagnostic_of, is_report
from tcpx.emit_c.signature import KernelSignature
from tcpx.emit_c.strides import reach, spread
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Kind, SanitizerError, TcpxError
from tcpx.target import Target

_NO_ADDRESS_SPACE = "ReserveShadowMemoryRange failed"
"""What the address sanitizer says where it cannot map its shadow memory."""
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:color=never:verify_asan_link_order=0",
    "UBSAN_OPTIONS": "print_stacktrace=1:color=never",
}


class SanitizedLibrary:
    """Builds one program per kernel. A call runs it, in a process of its own; what it finds is a SanitizerError."""

    __slots__ = ("_printed", "_target", "_threads", "path")

    def __init__(self, printed: PrintedFile, target: Target, threads: int) -> None:
        self._printed, self._target, self._threads = printed, target, threads
        self.path = self._program(printed.kernels[0])

    def _program(self, kernel: KernelSignature) -> Path:
        source = program_source(self._printed.source, kernel)
        return build_sanitized_program(source, self._target, self._threads, kernel.c_name, self._printed.link)

    def wrapper(self, kernel: KernelSignature, constants: Bytes) -> Wrapper:
        """The checked calls of a kernel on arrays."""
        program = self._program(kernel)

        def from_buffer(array: Array) -> Array:
            return array

        def take(size: int) -> int:
            return size

        def give_back(size: int) -> None:
            del size

        def function(*words: object) -> int:
            return self._run(program, kernel, words)

        def bound(words: Sequence[object], workspace: int = 0) -> int:
            return function(*words, workspace)

        return wrapper_of(
            kernel,
            function,
            bound=bound,
            packed=tuple,
            from_buffer=from_buffer,
            from_rows=from_buffer,
            constants=constants,
            null=0,
            take=take,
            give_back=give_back,
            team=Serial(),
        )

    def raw(self, kernel: KernelSignature) -> Callable[[Sequence[int], Sequence[int], int, int], int]:
        """A program has an address space of its own. Raises ArgumentError."""

        def call(arrays: Sequence[int], sizes: Sequence[int], constants: int, workspace: int) -> NoReturn:
            raise ArgumentError(
                Diagnostic(
                    f"@{kernel.name} is sanitized and runs in a process of its own",
                    required="a call with arrays",
                    found="a call with addresses",
                )
            )

        return call

    def _run(self, program: Path, kernel: KernelSignature, words: Sequence[object]) -> int:
        """Run the kernel on what the wrapper passes; the outputs are written where it returns 0."""
        split = len(kernel.inputs)
        arrays = [cast("Array", w) for w in words[: split + len(kernel.outputs)]]
        inputs, outputs = arrays[:split], arrays[split:]
        constants, workspace = cast("Bytes", words[-2]), cast("int", words[-1])
        symbols = [cast("int", w) for w in words[len(arrays) : -2]]
        request = b"".join(
            [
                *map(_number, symbols),
                *(_number(reach(a)) + spread(a) for a in inputs),
                *(_number(reach(a)) for a in outputs),
                _number(constants.nbytes) + constants.tobytes(),
                _number(workspace),
            ]
        )
        response, said = self._exchange(program, request)
        names = [f"`{a.name}`" for a in (*kernel.inputs, *kernel.outputs)]
        memory = _memory([*names, "the constants", "the workspace"], said.stdout)
        text = said.stderr.decode(errors="replace")
        if is_report(text):
            raise SanitizerError(diagnostic_of(text, program, self._printed.operations, memory))
        if _NO_ADDRESS_SPACE in text:
            raise SanitizerError(
                Diagnostic(
                    f"the sanitized @{kernel.name} has no address space",
                    required="15 TB that it may reserve, which is no memory",
                    found="a limit, which `ulimit -v` shows",
                    fix="ulimit -v unlimited",
                )
            )
        if said.returncode != 0 or response is None:
            raise TcpxError(
                Diagnostic(
                    f"the sanitized @{kernel.name} ended by itself",
                    kind=Kind.INTERNAL,
                    required=f"success of {program}",
                    found=f"exit status {said.returncode}",
                    notes=tuple(text.splitlines()[:12]),
                )
            )
        code = int.from_bytes(response[:8], "little", signed=True)
        start = 8
        states = [array for array, argument in zip(inputs, kernel.inputs, strict=True) if argument.state is not None]
        for array in [*states, *outputs] if code == 0 else ():
            held = np.frombuffer(response, np.uint8, reach(array), start)
            array[...] = np.ndarray(array.shape, array.dtype, held.data, strides=array.strides)
            start += reach(array)
        return code

    def _exchange(self, program: Path, request: bytes) -> tuple[bytes | None, subprocess.CompletedProcess[bytes]]:
        """The response of the program, if it wrote one, and how it ended."""
        with tempfile.TemporaryDirectory(prefix="tcpx-sanitized-") as folder:
            asked, answered = Path(folder, "request"), Path(folder, "response")
            asked.write_bytes(request)
            done = subprocess.run(
                [str(program), str(asked), str(answered)],
                capture_output=True,
                check=False,
                env={**os.environ, **_OPTIONS},
                stdin=subprocess.DEVNULL,
            )
            return (answered.read_bytes() if done.returncode == 0 else None), done


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def _memory(names: Sequence[str], said: bytes) -> list[Memory]:
    """The blocks, as the program printed them."""
    rows = [line.split() for line in said.decode().splitlines()]
    return [Memory(name, int(at, 16), int(size)) for name, (at, size) in zip(names, rows, strict=False)]
