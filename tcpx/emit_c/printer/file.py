"""A C file of one or more kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Final

from tcpx.emit_c import headers
from tcpx.emit_c.printer.clocks import NOW
from tcpx.emit_c.printer.compiler_faults import (
    NO_DISTRIBUTION,
    NO_LOOP_VECTORS,
    UNROLLING,
)
from tcpx.emit_c.printer.context import KernelContext, Needs
from tcpx.emit_c.printer.expressions import SIZE_HELPERS
from tcpx.emit_c.printer.function import PrintedFunction, print_callee, print_kernel
from tcpx.emit_c.printer.names import Names, in_comment, words_of
from tcpx.emit_c.printer.reserved import RESERVED
from tcpx.emit_c.printer.scopes import Line, words_in
from tcpx.emit_c.printer.statements import filled_load_name
from tcpx.emit_c.signature import KernelSignature
from tcpx.limits import MOST_C_BYTES
from tcpx.payload.collector import collector_paused
from tcpx.payload.constants import Constants
from tcpx.payload.ir import FuncOp, Operation
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.target import Target, target_at
from tcpx.target.rows import PLACEHOLDER

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_COPY: Final = re.compile(r"\.\d+$")
"""What the name of a call has beyond that of the operation in its place."""
WIDTH: Final = 112
_OF_COMPILER: Final = ("__builtin_", "_Alignas")
"""How names begin that no header declares."""
HIDDEN: Final = '__attribute__((visibility("hidden"))) '
"""The linkage of functions that only the files of one library call."""


@frozen
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


@frozen
class PrintedFile:
    """The C source and the kernels it defines, in the order of the requests.

    `operations` has, for the number of a line (from 1), the operation that the line was printed for. `sources` are the
    same functions as files that are compiled each by itself: first that of the kernels, then one for each function that
    they call; `targets` has those that are for a target of their own. `link` are words for the linker.
    """

    source: str
    kernels: tuple[KernelSignature, ...]
    operations: Mapping[int, Operation]
    sources: Mapping[str, str]
    targets: Mapping[str, Target]
    link: tuple[str, ...]


@collector_paused()
def print_file(requests: Sequence[PrintRequest], target: Target, threads: int, *, timed: bool = False) -> PrintedFile:
    """The C file of these functions; the same requests give the same text. `timed` ones measure what they do outside
    of loops. Raises VerifyError, located."""
    held = {func: target_at(func, target) for request in requests for func in (request.func, *request.callees)}
    reserved = frozenset(RESERVED.union(*map(_words_of_target, {target, *held.values()})))
    names = Names(reserved)
    functions: list[PrintedFunction] = []
    signatures: list[KernelSignature] = []
    for request in requests:
        kernel = KernelContext(request.constants)
        if timed:
            kernel = KernelContext(request.constants, clocks=[], times_name=names.fresh(f"{request.name}_times"))
        functions += [print_callee(func, kernel, held[func], threads, names, reserved) for func in request.callees]
        own = held[request.func]
        printed, signature = print_kernel(request.func, kernel, own, threads, request.name, names, reserved)
        functions.append(printed)
        _check_length([function.lines for function in functions], request.func)
        signatures.append(signature)
    times = {signature.times_name: len(signature.clocks) for signature in signatures if signature.clocks}
    lines = _file(functions, target, "static ", times)
    operations = {number: line.op for number, line in enumerate(lines, 1) if line.op is not None}
    callees = [function for function in functions if function.head]
    kernels = [function for function in functions if not function.head]
    sources = {f"{kernels[0].c_name}.c": _text(_file(kernels, target, HIDDEN, times, callees)) if kernels else ""}
    sources |= {f"{f.c_name}.c": _text(_file([f], f.target, HIDDEN, {}, callees)) for f in callees}
    targets = {f"{f.c_name}.c": f.target for f in callees if f.target is not target}
    link = dict.fromkeys(word for f in functions for row in f.needs.kernels.values() for word in row.link)
    return PrintedFile(_text(lines), tuple(signatures), operations, sources, targets, tuple(link))


def _file(
    functions: Sequence[PrintedFunction],
    target: Target,
    linkage: str,
    times: Mapping[str, int],
    callees: Sequence[PrintedFunction] = (),
) -> list[Line]:
    """The lines of a file of these functions. `linkage` is that of functions that others call; those of `callees` that
    stand in other files are declared, as are the arrays of times that are not among `times`, with how many. Helpers for
    another target than that of the file have its name in theirs."""
    needs = Needs()
    own: dict[Target, Needs] = {target: Needs()}
    for function in functions:
        needs.add(function.needs)
        own.setdefault(function.target, Needs()).add(function.needs)
    head = [f"/* Written by tcpx for the target {in_comment(target.title)}. */"]
    if needs.no_loop_vectors:
        head.append(NO_LOOP_VECTORS)
    if needs.no_distribution:
        head.append(NO_DISTRIBUTION)
    texts = [line.text for function in functions for line in function.lines]
    standard = [*(["string.h"] if needs.memcpy else []), *(["time.h"] if needs.times or times else [])]
    included = (*headers.ALWAYS, *standard, *(header for held in own for header in held.headers))
    if callees and not needs.kernels and not _uses_intrinsics(function.lines for function in functions):
        included = tuple(header for header in included if header in headers.STANDARD)
    head += [f"#include <{header}>" for header in dict.fromkeys(included)]
    called = {callee for function in functions for _, callee in function.func.calls()}
    definitions = [
        *target.helper_code([*own[target].rows.values(), *own[target].kernels.values()]),
        *(code for name, code in SIZE_HELPERS.items() if any(name in used for used in texts)),
        *own[target].filled_loads.values(),
        *(_named_apart(code, other, used) for other, used in own.items() for code in _foreign(other, used, target)),
        *(f"{linkage}{function.head};" for function in callees if function.func in called),
    ]
    if needs.unrolling:
        definitions.append(UNROLLING)
    definitions += [f"int64_t {name}[{2 * count}]; /* nanoseconds and runs of each */" for name, count in times.items()]
    definitions += [f"extern int64_t {name}[];" for name in needs.times if name not in times]
    if needs.times:
        definitions.append(NOW)
    if needs.thread_number:
        definitions.insert(0, "int omp_get_thread_num(void); /* of the OpenMP runtime */")
    lines = [Line(text) for text in "\n\n".join(["\n".join(head), *definitions]).split("\n")]
    for function in functions:
        lines.append(Line(""))
        if function.head:
            lines += map(Line, _heading(function.func))
            first, *rest = function.lines
            made = [Line(linkage + first.text, first.op), *rest]
        else:
            made = list(function.lines)
        if function.target is not target:
            used = own[function.target]
            made = [Line(_named_apart(line.text, function.target, used), line.op) for line in made]
        lines += made
    return lines


def _heading(func: FuncOp) -> list[str]:
    """The comment of a function that others call: its name, and the operations that its calls compute."""
    calls = dict.fromkeys(_COPY.sub("", call.name) for call in func.callers())
    served = f", for {', '.join(calls)}" if calls else ""
    first, *rest = wrap(in_comment(f"@{func.name}{served}"), WIDTH, break_long_words=False, break_on_hyphens=False)
    lines = [f"/* {first}", *(f"   {line}" for line in rest)]
    return [*lines[:-1], f"{lines[-1]} */"]


def _foreign(target: Target, needs: Needs, of_file: Target) -> list[str]:
    """The definitions that functions for another target than that of the file need."""
    rows = () if target is of_file else (*needs.rows.values(), *needs.kernels.values())
    return [*target.helper_code(rows), *(needs.filled_loads.values() if rows else ())]


def _named_apart(code: str, target: Target, needs: Needs) -> str:
    """C with the name of the target in those of its helpers: another table may have others of these names."""
    names = {*target.helpers, *map(filled_load_name, needs.filled_loads)}
    return _WORD.sub(lambda word: f"{word[0]}_{target.name}" if word[0] in names else word[0], code)


def _uses_intrinsics(functions: Iterable[Sequence[Line]]) -> bool:
    """Whether functions use names that only a compiler may give: a header that declares thousands takes it as long to
    read as a function to compile."""
    words = (word for lines in functions for word in words_in(lines))
    return any(word.startswith("_") and not word.startswith(_OF_COMPILER) for word in words)


def _text(lines: Sequence[Line]) -> str:
    return "\n".join(line.text for line in lines) + "\n"


def _check_length(functions: Sequence[Sequence[Line]], last: FuncOp) -> None:
    length = sum(len(line.text) + 1 for lines in functions for line in lines)
    most = MOST_C_BYTES * last.shares
    if length > most:
        raise last.error(
            "the C of the kernels is too long",
            required=f"at most {most} bytes",
            found=counted(length, "byte"),
            fix="unroll less, or use larger vectors: a compiler takes minutes for files of this length",
        )


def _words_of_target(target: Target) -> set[str]:
    """Every identifier that a template refers to: a variable of that name could hide it."""
    kernels = (text for row in target.kernels.values() for text in (row.c, row.set_up, row.tear_down))
    templates = (PLACEHOLDER.sub(" ", text) for text in (*(row.c for row in target.rows), *kernels))
    return words_of((*templates, *target.helpers, *target.types.values()))
