"""Compiled kernels: build them from planned payloads, call them on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast
from weakref import ref

import numpy as np
import numpy.typing as npt

from tcpx.cells import text_cell
from tcpx.emit_c.arguments import Array, in_order
from tcpx.emit_c.binding import Library, Result, Wrapper, constants_block, stamp_of
from tcpx.emit_c.building import built_library, kept_library
from tcpx.emit_c.folder.files import KernelFiles, contents, files_of, write_folder
from tcpx.emit_c.folder.manifest import read_manifest
from tcpx.emit_c.kernel_report import KernelReport, report_of
from tcpx.emit_c.memory import Bytes, aligned_copy
from tcpx.emit_c.printer.file import PrintedFile, PrintRequest, print_file
from tcpx.emit_c.sanitizer.library import SanitizedLibrary
from tcpx.emit_c.signature import STATEMENT, Clock, KernelSignature
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, VerifyError
from tcpx.payload.given import path_of
from tcpx.payload.ir import Module
from tcpx.payload.size_values import SizeValues, size_values
from tcpx.payload.sizes import evaluate
from tcpx.phases import phase
from tcpx.records import brief, frozen
from tcpx.target import Target, TargetError, own_target, target_with


def _refused(error: TargetError) -> Wrapper:
    """A call and a `bind` that raise the error."""

    def refuse(arrays: tuple[object, ...], out: object) -> NoReturn:
        del arrays, out
        raise error.with_traceback(None)

    return Wrapper(refuse, refuse)


class BoundCall:
    """A kernel and the arrays that `Kernel.bind` checked: `bound()` runs it on them and returns the results, `out`.

    It keeps the kernel and the arrays alive, and their memory where it is: as long as there is a bound call, NumPy
    refuses to resize them, also with `refcheck=False`. What is in the inputs when it is called is what it reads; each
    call overwrites the outputs. A call raises ArgumentError for sizes that the kernel itself refuses.
    """

    __slots__ = ("__call__", "_references", "arrays", "kernel", "out")
    __call__: Callable[[], Result]

    def __init__(self, kernel: Kernel, run: Callable[[], Result], arrays: tuple[Array, ...], out: Result) -> None:
        self.__call__ = run  # in a slot: a method that calls it would take as long as a small kernel
        self.kernel = kernel
        self.arrays = arrays
        """The inputs."""
        self.out = out
        """The output, or a tuple of them: what a call returns."""
        self._references = [
            ref(owner) for array in (*arrays, *(out if isinstance(out, tuple) else (out,))) for owner in _owners(array)
        ]

    def __repr__(self) -> str:
        shapes = ", ".join(str(array.shape) for array in self.arrays)
        on = f"arrays of shapes {shapes}" if shapes else "no arrays"
        return brief("BoundCall", f"of @{self.kernel.signature.name} on {on}")

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a bound call cannot be pickled or copied: it reads and writes the memory of its arrays; "
            "pickle `bound.kernel`, and call `kernel.bind(..)` where it is loaded"
        )


def _owners(array: Array) -> Iterator[Array]:
    """The array and those that it is a view of. NumPy resizes no array that there are weak references to."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        yield cast("Array", owner)
        owner = owner.base


@frozen
class Timing:
    """How long a statement of a kernel took, all runs together."""

    clock: Clock
    seconds: float
    runs: int


class Kernel:
    """A compiled function. Call it with one array per input; it returns one array, or a tuple of them.

    An array is one of NumPy, or an object with DLPack or the buffer protocol, such as a tensor of PyTorch
    (docs/other-arrays.md); for an input without dims it may be a number that its dtype represents. Inputs may also be
    given by the names that the payload has for them, `kernel(x, w=w)`; one named `out` only by position. They need the
    dtype and shape of the signature; those that are not contiguous are copied, unless the signature says `strided` and
    they have whole rows. `out` takes an array, or a tuple of arrays, to write the results to, which are returned as
    NumPy arrays on their memory: contiguous or strided in the same way, writable and apart from the inputs. An input
    that is `inout` is written to as well, where it lies, and is the result of its name; a size that no array has is an
    int. Safe to call from several threads at once; while a call runs, no other thread may resize its arrays with
    `refcheck=False`, as for NumPy's own functions. In a process that was forked from a thread that had called a kernel
    on several threads, that thread runs kernels on one (a RuntimeWarning says so) where the OpenMP runtime is libgomp.
    Raises ArgumentError, and TargetError where this CPU cannot run code for the target.
    """

    __slots__ = (
        "_bind",
        "_call",
        "_constants",
        "_library",
        "_printed",
        "_trace",
        "c_source",
        "kept_in",
        "make_trace",
        "remarks",
        "schedule",
        "signature",
        "sources",
        "target",
        "threads",
        "tuned",
    )

    def __init__(
        self,
        library: Library | SanitizedLibrary,
        signature: KernelSignature,
        constants: Bytes,
        printed: PrintedFile,
        target: Target,
        trace: object = None,
        schedule: object = None,
        remarks: tuple[Diagnostic, ...] = (),
    ) -> None:
        self._library = library
        self._constants = constants
        wrapper, lacking = library.wrapper(signature, constants), target.cpu_error()
        if lacking is not None:
            wrapper = _refused(lacking)
        self._call, self._bind = wrapper.call, wrapper.bind
        self.signature = signature
        self._printed = replace(printed, operations={})
        self.c_source = printed.source
        """All of its C, as one file."""
        self.sources = dict(printed.sources)
        """What was compiled, by file: first that of the kernel, then one for each function that it calls."""
        self.target = target
        self.threads = signature.threads
        self._trace = trace
        self.make_trace: Callable[[], object] | None = None
        """Of a kernel from the cache: runs its schedule, for `trace`."""
        self.schedule = schedule
        self.remarks = remarks
        """What the schedule left as it is where it could, and why: warnings."""
        self.tuned: object = None
        self.kept_in: Path | None = None
        """The folder of the cache of kernels that it is kept in."""

    def __call__(self, /, *arrays: object, out: object = None, **named: object) -> Result:
        if named:
            arrays = in_order(self.signature, arrays, named)
        return self._call(arrays, out)

    def bind(self, /, *arrays: object, out: object = None, **named: object) -> BoundCall:
        """A call of the kernel on these arrays, checked once: for calls again and again on the same memory.

        The arrays and numbers are as for a call, except that each array has to be one that is passed as it is: a copy
        would not follow the array. Without `out`, the outputs are allocated here, once. Two calls at the same time
        write to the same outputs, as calls with the same `out` do: bind once per thread. Raises ArgumentError, and
        TargetError where this CPU cannot run code for the target.
        """
        given = in_order(self.signature, arrays, named) if named else arrays
        run, inputs, results = self._bind(given, out)
        return BoundCall(self, run, inputs, results)

    def __repr__(self) -> str:
        return brief("Kernel", self.signature, f"for {self.target.title}, {self.threads} thread(s)")

    def _repr_html_(self) -> str:
        return text_cell(repr(self)[1:-1], f"{self.report()}\n\n{self.c_source}", "print(kernel.c_source)")

    @property
    def trace(self) -> object:
        """What each step of the schedule did; None for a kernel that was loaded from a folder. For one from the cache
        of kernels the schedule runs again when this is read first."""
        if self.make_trace is not None:
            self._trace, self.make_trace = self.make_trace(), None
        return self._trace

    @property
    def library_path(self) -> Path:
        """The shared library the kernel is in; of a sanitized one, the program."""
        return self._library.path

    def timings(self) -> tuple[Timing, ...]:
        """What was measured since it was made, or `clear_timings`, of a kernel that was compiled `timed`: each
        statement with its seconds, of which its clock takes some, and runs. Threads that run a function at the same
        time add up."""
        return tuple(
            Timing(clock, nanoseconds * 1e-9, runs)
            for clock, (nanoseconds, runs) in zip(self.signature.clocks, self.clock_times().tolist(), strict=False)
            if clock.kind == STATEMENT
        )

    def clear_timings(self) -> None:
        """Begin anew."""
        self.clock_times()[:] = 0

    def clock_times(self) -> npt.NDArray[np.int64]:
        """The nanoseconds and the runs of each clock of the signature, of shape [clocks, 2]: the memory that they are
        counted in. Without rows where nothing is measured, as of a sanitized kernel."""
        if not self.signature.clocks or isinstance(self._library, SanitizedLibrary):
            return np.empty((0, 2), np.int64)
        return np.asarray(self._library.times(self.signature)).reshape(-1, 2)

    def workspace_bytes(self, sizes: SizeValues) -> int:
        """Bytes of workspace for these values of the symbols, by name."""
        return evaluate(self.signature.workspace_bytes, size_values(sizes))

    def report(self, sizes: SizeValues | None = None) -> KernelReport:
        """What the kernel is, the memory it works in for these values of the symbols, and what the schedule left as it
        is: `print(kernel.report())`.

        Raises ArgumentError for a name that is no symbol of the kernel.
        """
        known, printed = size_values(sizes or {}), self._printed
        made = report_of(self.signature, self.target, self.library_path, known, self.remarks, printed)
        return made if self.tuned is None else replace(made, tuned=str(self.tuned))

    def save(self, folder: str | Path) -> Path:
        """Write the kernel to a folder, which is made where it is missing: the C library with its `CMakeLists.txt` and
        a `main.c` that runs it without Python, and what `tcpx.load_kernel` needs to load it in another process without
        compiling. Returns the folder. Raises ArgumentError where it cannot be written, also where it has a `main.c` or
        a `CMakeLists.txt` of something else, and for a sanitized kernel."""
        place = path_of(folder, "a folder")
        files, library = self.files(), self._library
        if isinstance(library, Library) and library.stamp != stamp_of(library.path):  # it is gone, or another one
            library = built_library(self._printed, self.target, self.threads)
        files = replace(files, library=library.path)
        write_folder(place, contents(files, self.target, self._printed.targets))
        return place

    def files(self) -> KernelFiles:
        """What the kernel is made of, without its library. Raises ArgumentError for a sanitized kernel."""
        if isinstance(self._library, SanitizedLibrary):
            raise ArgumentError(
                Diagnostic(
                    "a sanitized kernel cannot be saved",
                    required="a kernel that was compiled without `sanitize`",
                    found="a program that runs in a process of its own",
                )
            )
        tuned = "" if self.tuned is None else str(self.tuned)
        return files_of(self._printed, self.signature, self._constants, self.target, self.remarks, tuned)

    def __reduce__(self) -> tuple[Callable[..., Kernel], tuple[object, ...]]:
        """Pickled as its C and its constants, and compiled where it is loaded, unless the build cache there has it."""
        files = self.files()
        if not self.target.is_installed:
            raise ArgumentError(
                Diagnostic(
                    "the kernel cannot be pickled",
                    required="a kernel for an installed target",
                    found=f"one for {self.target.name}, whose table is a file",
                    fix="kernel.save(folder), and tcpx.load_kernel(folder, target=..) where it is loaded",
                )
            )
        return _unpickled, (files.manifest.text(), dict(files.sources), files.constants.tobytes())

    def call_raw(
        self, arrays: Sequence[int], sizes: Sequence[int], workspace: int, constants: int | None = None
    ) -> int:
        """Call on addresses of inputs and outputs, with the symbols, then the strides, in order; returns the C return
        code.

        Nothing is checked. `workspace` is 64-byte aligned or 0 if none is needed; `constants` defaults to the
        kernel's own. Raises TargetError where this CPU cannot run code for the target.
        """
        self.target.require_cpu()
        held = constants if constants is not None else self._constants.ctypes.data if self._constants.size else 0
        return self._library.raw(self.signature)(arrays, sizes, held, workspace)


def kernel_of_files(files: KernelFiles, target: Target) -> Kernel:
    """The kernel that files are of, for this target: from its library, if it is among them and can be loaded here, else
    compiled. Raises CompileError."""
    known = files.manifest
    targets = {file: own_target(name, target) for file, name in known.targets.items()}
    source = "\n".join(files.sources.values())
    printed = PrintedFile(source, (known.signature,), {}, files.sources, targets, known.link)
    library: Library | None = None
    if files.library is not None:
        library = kept_library(files.library, known.digests[files.library.name], printed.kernels)
    library = library or built_library(printed, target, known.signature.threads)
    kernel = Kernel(library, known.signature, files.constants, printed, target, remarks=known.remarks)
    kernel.tuned = known.tuned or None
    return kernel


def _unpickled(manifest: str, sources: Mapping[str, str], constants: bytes) -> Kernel:
    known = read_manifest(manifest, "a pickled kernel")
    files = KernelFiles(known, sources, aligned_copy(constants))
    return kernel_of_files(files, target_with(known.target, known.features, known.numbers))


@frozen
class KernelRequest:
    """A module whose main function is planned, at buffer level and with rows, and what its kernel carries along."""

    module: Module
    name: str | None = None
    trace: object = None
    schedule: object = None
    remarks: tuple[Diagnostic, ...] = ()


def build_kernel(
    module: Module,
    target: Target,
    threads: int = 1,
    name: str | None = None,
    trace: object = None,
    schedule: object = None,
) -> Kernel:
    """Print, compile and load the main function of a module; `name` is that of the C function.

    Raises VerifyError for a payload that cannot be printed, CompileError for a compiler that fails.
    """
    return build_many([KernelRequest(module, name, trace, schedule)], target, threads)[0]


def printed_kernels(
    requests: Sequence[KernelRequest], target: Target, threads: int = 1, *, timed: bool = False
) -> PrintedFile:
    """One C file of these kernels, which measure what they do where they are `timed`. Raises VerifyError for a payload
    that cannot be printed."""
    prints = [PrintRequest(r.module.main, r.module.constants, r.name or r.module.main.name) for r in requests]
    return print_file(prints, target, threads, timed=timed)


def build_many(
    requests: Sequence[KernelRequest],
    target: Target,
    threads: int = 1,
    *,
    sanitize: bool = False,
    timed: bool = False,
) -> list[Kernel]:
    """One kernel per request, all in one C file and one shared library, or sanitized in one program each; `timed` ones
    measure what they do.

    Raises VerifyError for a payload that cannot be printed, CompileError for a compiler that fails.
    """
    if not requests:
        return []
    with phase("C"):
        printed = printed_kernels(requests, target, threads, timed=timed)
    return build_printed(printed, requests, target, threads, sanitize=sanitize)


def build_printed(
    printed: PrintedFile, requests: Sequence[KernelRequest], target: Target, threads: int, *, sanitize: bool = False
) -> list[Kernel]:
    """The kernels of a C file that was printed for these requests. Raises CompileError, and VerifyError for a kernel
    that cannot be called from Python: with a size that no argument tells."""
    library = SanitizedLibrary(printed, target, threads) if sanitize else built_library(printed, target, threads)
    made: list[Kernel] = []
    for request, signature in zip(requests, printed.kernels, strict=True):
        constants = constants_block(signature, request.module.constants)
        try:
            known = (request.trace, request.schedule, request.remarks)
            kernel = Kernel(library, signature, constants, printed, target, *known)
        except VerifyError as error:
            raise error.with_places(payload=request.module.main.location) from error
        made.append(kernel)
    return made
