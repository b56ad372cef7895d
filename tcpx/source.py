"""C source to take along: the file, its header, its constants and how to compile it. Needs no C compiler."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from functools import cache, partial
from pathlib import Path

from tcpx.api import CompileRequest, lowered
from tcpx.emit_c.binding import constants_block
from tcpx.emit_c.driver import compiler_flags, linked_with
from tcpx.emit_c.folder.files import contents, files_of, write_folder
from tcpx.emit_c.folder.header import header
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.emit_c.signature import KernelSignature
from tcpx.interp import ParamValue
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.boundary_layouts import Layouts
from tcpx.payload.collector import collector_paused
from tcpx.payload.diagnostics import Diagnostic, Location
from tcpx.payload.given import path_of
from tcpx.payload.ir import Module
from tcpx.records import brief, frozen
from tcpx.schedule_options import EXACT, FAST
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable


@frozen
class LineOrigin:
    """What a line of C was printed for: an operation, by name; the steps that made and changed it, numbered from 1 in
    the order they ran, those of the lowering last; and the schedule line that made it, where one did."""

    operation: str
    steps: tuple[int, ...]
    schedule: Location | None

    def __repr__(self) -> str:
        return brief("LineOrigin", self.operation, f"{len(self.steps)} step(s)", self.schedule or "")


@frozen
class Source:
    """A kernel as text. `constants` is the block its `constants` argument points to, 64-byte aligned; maybe empty.

    `origins` says, by line number from 1, where the lines of `c_source` come from that an operation accounts for.
    `remarks` are about what the schedule left as it is where it could.
    """

    signature: KernelSignature
    c_source: str
    header: str
    constants: bytes
    flags: tuple[str, ...]
    origins: Mapping[int, LineOrigin]
    remarks: tuple[Diagnostic, ...] = ()
    link: tuple[str, ...] = ()
    """What the linker is told: the libraries that it calls."""
    c_files: tuple[str, ...] = ()
    """The names of the C files that it is in as `files`: first that of the kernel, then one for each function that it
    calls."""
    print_files: Callable[[], Mapping[str, bytes]] = field(default=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        return brief("Source", self.signature, f"{len(self.c_files)} C file(s)")

    def __reduce__(self) -> "tuple[Callable[..., Source], tuple[object, ...]]":
        """With the files printed: what prints them may have the whole payload."""
        printed = replace(self, print_files=partial(dict, self.files))
        return Source, tuple(getattr(printed, each.name) for each in fields(printed))

    @property
    def name(self) -> str:
        """The name of the C function, and of the files."""
        return self.signature.c_name

    @property
    def files(self) -> Mapping[str, bytes]:
        """What `tcpx emit` writes, by name: the C files, the header, `NAME.bin` with the constants, `CMakeLists.txt`, a
        `main.c` that runs the kernel without Python, and `NAME.json`, from which `tcpx.load_kernel` loads it."""
        return self.print_files()

    @property
    def compile_command(self) -> str:
        """A shell command that makes a shared library of the C files."""
        words = (*self.flags, "-o", f"{self.name}.so", *self.c_files, *self.link, "-lm")
        return f"cc {shlex.join(words)}"

    def write(self, folder: str | Path) -> Path:
        """Write `files` to a folder, which is made where it is missing, and return it. Raises ArgumentError where that
        cannot be, also where it has a `main.c` or a `CMakeLists.txt` of something else."""
        place = path_of(folder, "a folder")
        write_folder(place, self.files)
        return place


@collector_paused()
def emit(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    name: str | None = None,
    strided: bool = False,
    contract: bool = True,
    layouts: Layouts | None = None,
    numerics: str = EXACT,
    size: str = FAST,
) -> Source:
    """The C of a payload, scheduled and lowered as `tcpx.compile` does it, but not compiled.

    The target need not be one that this machine can run. `strided` is that of `compile`: the C function takes the
    strides, in elements. `contract`, `layouts`, `numerics` and `size` are those of `compile`, too. Raises
    ScheduleError, VerifyError and ArgumentError.
    """
    module = module_of(module)
    chosen = load_target(target)
    run = lowered(
        CompileRequest(module, schedule, params, name, strided, contract, layouts, numerics, size), chosen, threads
    )
    return source_of(run.module, chosen, threads, name, run.remarks)


def source_of(
    module: Module, target: Target, threads: int, name: str | None = None, remarks: tuple[Diagnostic, ...] = ()
) -> Source:
    """The C of a payload that is lowered. Raises VerifyError."""
    func = module.main
    printed = print_file([PrintRequest(func, module.constants, name or func.name)], target, threads)
    signature = printed.kernels[0]
    constants = constants_block(signature, module.constants)
    files = files_of(printed, signature, constants, target, remarks)
    return Source(
        signature=signature,
        c_source=printed.source,
        header=header(printed.source, signature),
        constants=constants.tobytes(),
        flags=compiler_flags(target, threads),
        origins={
            line: LineOrigin(op.name or op.opcode, op.steps, op.schedule_location)
            for line, op in printed.operations.items()
        },
        remarks=remarks,
        link=linked_with(printed.link),
        c_files=tuple(printed.sources),
        print_files=cache(
            lambda: {file: bytes(held) for file, held in contents(files, target, printed.targets).items()}
        ),
    )
