"""A C file of one or more kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tcpx.emit_c.printer.compiler_faults import (
    NO_DISTRIBUTION,
    NO_LOOP_VECTORS,
    UNROLLING,
    has_loop_of_many_stores,
    repeats_elements_of_rows,
)
from tcpx.emit_c.printer.context import KernelContext, Needs
from tcpx.emit_c.printer.expressions import SIZE_HELPERS
from tcpx.emit_c.printer.function import print_callee, print_kernel
from tcpx.emit_c.printer.names import Names, in_comment, words_of
from tcpx.emit_c.printer.reserved import RESERVED
from tcpx.emit_c.printer.scopes import Line
from tcpx.emit_c.signature import KernelSignature
from tcpx.limits import MOST_C_BYTES
from tcpx.payload.constants import Constants
from tcpx.payload.ir import FuncOp, Operation
from tcpx.target import Target
from tcpx.target.rows import PLACEHOLDER

_HEADERS: Final = ("stddef.h", "stdint.h")


@dataclass(frozen=True, slots=True)
class PrintRequest:
    """A planned function at buffer level, the constants it refers to, and the name its C function should have."""

    func: FuncOp
    constants: Constants
    name: str

    @property
    def callees(self) -> list[FuncOp]:
        """The functions that run with it, each behind those that it calls."""
        module = self.func.module
        return module.reached(self.func)[:-1] if module is not None else []


@dataclass(frozen=True, slots=True)
class PrintedFile:
    """The C source and the kernels it defines, in the order of the requests.

    `operations` has, for the number of a line (from 1), the operation that the line was printed for.
    """

    source: str
    kernels: tuple[KernelSignature, ...]
    operations: Mapping[int, Operation]


def print_file(requests: Sequence[PrintRequest], target: Target, threads: int) -> PrintedFile:
    """The C file of these functions; the same requests give the same text. Raises VerifyError, located."""
    reserved = frozenset(RESERVED | _words_of_target(target))
    names, needs = Names(reserved), Needs()
    functions: list[list[Line]] = []
    signatures: list[KernelSignature] = []
    for request in requests:
        kernel = KernelContext(request.constants, needs)
        for func in request.callees:
            functions.append(print_callee(func, kernel, target, threads, names, reserved))
        lines, signature = print_kernel(request.func, kernel, target, threads, request.name, names, reserved)
        functions.append(lines)
        _check_length(functions, request.func)
        signatures.append(signature)
    head = [f"/* Written by tcpx for the target {in_comment(target.name)}. */"]
    printed = [func for request in requests for func in (*request.callees, request.func)]
    if any(map(repeats_elements_of_rows, printed)):
        head.append(NO_LOOP_VECTORS)
    if any(map(has_loop_of_many_stores, printed)):
        head.append(NO_DISTRIBUTION)
    headers = (*_HEADERS, *(["string.h"] if needs.memcpy else []), *target.headers)
    head += [f"#include <{header}>" for header in dict.fromkeys(headers)]
    texts = [line.text for lines in functions for line in lines]
    definitions = [
        *target.helper_code(needs.rows.values()),
        *(code for name, code in SIZE_HELPERS.items() if any(name in used for used in texts)),
        *needs.filled_loads.values(),
    ]
    if needs.unrolling:
        definitions.append(UNROLLING)
    if needs.thread_number:
        definitions.insert(0, "int omp_get_thread_num(void); /* of the OpenMP runtime */")
    lines = [Line(text) for text in "\n\n".join(["\n".join(head), *definitions]).split("\n")]
    for function in functions:
        lines += [Line(""), *function]
    operations = {number: line.op for number, line in enumerate(lines, 1) if line.op is not None}
    return PrintedFile("\n".join(line.text for line in lines) + "\n", tuple(signatures), operations)


def _check_length(functions: Sequence[Sequence[Line]], last: FuncOp) -> None:
    length = sum(len(line.text) + 1 for lines in functions for line in lines)
    if length > MOST_C_BYTES:
        raise last.error(
            "the C of the kernels is too long",
            required=f"at most {MOST_C_BYTES} bytes",
            found=f"{length} bytes",
            fix="unroll less, or use larger vectors: a compiler takes minutes for files of this length",
        )


def _words_of_target(target: Target) -> set[str]:
    """Every identifier that a template refers to: a variable of that name could hide it."""
    templates = (PLACEHOLDER.sub(" ", row.c) for row in target.rows)
    return words_of((*templates, *target.helpers, *target.types.values()))
