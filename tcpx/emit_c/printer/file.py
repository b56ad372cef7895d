"""A C file of one or more kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcpx.emit_c.printer.context import Needs
from tcpx.emit_c.printer.expressions import SIZE_HELPERS
from tcpx.emit_c.printer.function import print_function
from tcpx.emit_c.printer.names import Names, in_comment, words_of
from tcpx.emit_c.printer.reserved import RESERVED
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.constants import Constants
from tcpx.payload.ir import FuncOp
from tcpx.target import Target
from tcpx.target.rows import PLACEHOLDER

_HEADERS: Final = ("stddef.h", "stdint.h")


@dataclass(frozen=True, slots=True)
class PrintRequest:
    """A planned function at buffer level, the constants it refers to, and the name its C function should have."""

    func: FuncOp
    constants: Constants
    name: str


@dataclass(frozen=True, slots=True)
class PrintedFile:
    """The C source and the kernels it defines, in the order of the requests."""

    source: str
    kernels: tuple[KernelSignature, ...]


def print_file(requests: Sequence[PrintRequest], target: Target, threads: int) -> PrintedFile:
    """The C file of these functions; the same requests give the same text. Raises VerifyError, located."""
    reserved = frozenset(RESERVED | _words_of_target(target))
    names, needs = Names(reserved), Needs()
    texts: list[str] = []
    signatures: list[KernelSignature] = []
    for request in requests:
        lines, signature = print_function(
            request.func, request.constants, target, threads, request.name, names, reserved, needs
        )
        texts.append("\n".join(lines))
        signatures.append(signature)
    head = [f"/* Written by tcpx for the target {in_comment(target.name)}. */"]
    head += [f"#include <{header}>" for header in dict.fromkeys((*_HEADERS, *target.headers))]
    definitions = [
        *target.helper_code(needs.rows.values()),
        *(code for name, code in SIZE_HELPERS.items() if name in needs.size_helpers),
        *needs.filled_loads.values(),
    ]
    if needs.thread_number:
        definitions.insert(0, "int omp_get_thread_num(void); /* of the OpenMP runtime */")
    return PrintedFile("\n\n".join(["\n".join(head), *definitions, *texts]) + "\n", tuple(signatures))


def _words_of_target(target: Target) -> set[str]:
    """Every identifier that a template refers to: a variable of that name could hide it."""
    templates = (PLACEHOLDER.sub(" ", row.c) for row in target.rows)
    return words_of((*templates, *target.helpers, *target.types.values()))
