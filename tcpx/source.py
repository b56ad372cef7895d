"""C source to take along: the file, its header, its constants and how to compile it. Needs no C compiler."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace

from tcpx.api import CompileRequest, lowered
from tcpx.emit_c.binding import constants_block
from tcpx.emit_c.driver import compiler_flags, linked_with
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.emit_c.signature import KernelSignature
from tcpx.interp import ParamValue
from tcpx.payload.collector import collector_paused
from tcpx.payload.diagnostics import Diagnostic, Location, ScheduleError
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable


@frozen
class LineOrigin:
    """What a line of C was printed for: an operation, by name; the steps that made and changed it, numbered from 1 in
    the order they ran, those of the lowering last; and the schedule line that made it, where one did."""

    operation: str
    steps: tuple[int, ...]
    schedule: Location | None


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

    @property
    def name(self) -> str:
        """The name of the C function, and of the files."""
        return self.signature.c_name

    @property
    def compile_command(self) -> str:
        """A shell command that makes a shared library of `NAME.c`."""
        return f"cc {shlex.join(self.flags)} -o {self.name}.so {self.name}.c {shlex.join((*self.link, '-lm'))}"


@collector_paused()
def emit(
    module: Module,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    name: str | None = None,
    strided: bool = False,
) -> Source:
    """The C of a payload, scheduled and lowered as `tcpx.compile` does it, but not compiled.

    The target need not be one that this machine can run. `strided` is that of `compile`: the C function takes the
    strides, in elements. Raises ScheduleError and VerifyError.
    """
    chosen = load_target(target)
    run = lowered(CompileRequest(module, schedule, params, name, strided), chosen, threads)
    return replace(source_of(run.module, chosen, threads, name), remarks=run.remarks)


def source_of(module: Module, target: Target, threads: int, name: str | None = None) -> Source:
    """The C of a payload that is lowered. Raises VerifyError."""
    func = module.main
    printed = print_file([PrintRequest(func, module.constants, name or func.name)], target, threads)
    signature = printed.kernels[0]
    return Source(
        signature=signature,
        c_source=printed.source,
        header=_header(printed.source, signature),
        constants=constants_block(signature, module.constants).tobytes(),
        flags=compiler_flags(target, threads),
        origins={
            line: LineOrigin(op.name or op.opcode, op.steps, op.schedule_location)
            for line, op in printed.operations.items()
        },
        link=linked_with(printed.link),
    )


def _header(source: str, signature: KernelSignature) -> str:
    """Prototypes, without `restrict`, which C++ does not have."""
    guard = f"TCPX_{signature.c_name.upper()}_H"
    offsets = [f"   {slot.name}: {slot.bytes} bytes at {slot.offset}" for slot in signature.constants]
    strides = [f"   {text}" for text in signature.stride_texts]
    size = signature.constants_bytes
    constants = f"{size} bytes from {signature.c_name}.bin" if size else "nothing, NULL"
    return "\n".join(
        [
            "/* Written by tcpx.",
            f"   `constants`: {constants}; `workspace`: as many bytes as {signature.c_name}_workspace says;",
            "   both 64-byte aligned. Returns 0 when done, else nothing has been written.",
            *offsets,
            *strides,
            "*/",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stddef.h>",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            _prototype(source, f"size_t {signature.c_name}_workspace"),
            _prototype(source, f"int {signature.c_name}"),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _prototype(source: str, start: str) -> str:
    """The declaration of the function whose definition begins so: its parameters have names that C allows."""
    found = re.search(rf"^{re.escape(start)}\(([^)]*)\) \{{", source, re.MULTILINE)
    if found is None:
        raise ScheduleError(Diagnostic("the emitted C lacks a function", required=f"{start}(..)", found="none"))
    parameters = [" ".join(p.replace("restrict ", "").split()) for p in found[1].split(",")]
    return f"{start}({', '.join(parameters)});"
