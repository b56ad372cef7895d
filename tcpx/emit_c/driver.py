"""The C compiler: from source to a shared library in the build cache.

The compiler is $CC, else gcc, cc or clang. A library is stored under a key of all that it depends on: one that is
there is never stale.
"""

import os
import shlex
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcpx.emit_c.compiler import Compiler, find_compiler, output_of
from tcpx.emit_c.executable import executable_fault
from tcpx.emit_c.headers import words_for
from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.processor import cpu_flags
from tcpx.store.keys import key_of
from tcpx.store.store import COMPILED, directory
from tcpx.target import Target

LIBRARIES: Final = ("-lm",)
_SHARED: Final = ("-shared", "-fPIC")
_OBJECT: Final = "-c"
_OF_OUTPUT: Final = ("-shared", _OBJECT)
"""Flags that say what is written, not how C is read."""
_DECLARED: Final = "-Werror=implicit-function-declaration"
"""A row of a table may call what nothing declares: C of 1989 would guess the types of its arguments."""
_UNROLLED: Final = (
    "--param=max-unrolled-insns=800",
    "--param=max-average-unrolled-insns=200",
    "-Wno-unused-command-line-argument",
)
"""GCC unrolls what it is asked to if the loop is small enough: a register tile of 24 vectors is not, by its own bounds.
Clang has no such bounds, and is not to warn of them."""
SANITIZERS: Final = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
    "-O1",
)
"""The flags of instrumented programs; they come behind those of the target."""
CAREFUL: Final = ("-O1",)
"""What a compiler is told that breaks down: gcc 12 does so in a pass of -O2 on some vectors of C's own (isel)."""
BROKEN_DOWN: Final = "internal compiler error"
NO_PARTS: Final[Mapping[str, str]] = {}
NO_TARGETS: Final[Mapping[str, Target]] = {}


def compiler_flags(target: Target, threads: int) -> tuple[str, ...]:
    """The flags for kernels of this target; threads are OpenMP's."""
    return (*code_flags(target), *_SHARED, *_openmp(threads))


def code_flags(target: Target) -> tuple[str, ...]:
    """Those of them that say how C becomes machine code."""
    return (*target.flags, *_UNROLLED)


def _openmp(threads: int) -> tuple[str, ...]:
    return ("-fopenmp",) if threads > 1 else ()


def linked_with(words: Sequence[str]) -> tuple[str, ...]:
    """What the linker is told of these words: a library that is given by its path is found there when it is loaded."""
    folders = dict.fromkeys(str(Path(word).parent) for word in words if not word.startswith("-"))
    return (*words, *(f"-Wl,-rpath,{folder}" for folder in folders))


def build_library(
    source: str,
    target: Target,
    threads: int,
    name: str = "kernel",
    parts: Mapping[str, str] = NO_PARTS,
    targets: Mapping[str, Target] = NO_TARGETS,
    link: Sequence[str] = (),
) -> Path:
    """The path of a shared library with this C, compiled unless the cache has it. Raises CompileError.

    `parts` are further files, by name. Each is compiled by itself, as many at once as there are processors, the longest
    first, and kept by what is in it; `targets` are those of parts that have one of their own. `link` are words for the
    linker.
    """
    compiler, flags, link = find_compiler(), compiler_flags(target, threads), linked_with(link)
    if not parts:
        return _build(source, compiler, flags, name, ".so", link=link)
    files = [(source, name, flags)]
    for file, text in parts.items():
        files.append((text, file.removesuffix(".c"), compiler_flags(targets.get(file, target), threads)))
    linked = "".join(f"/* {file}: {_key(text, compiler, own)} */\n" for text, file, own in files)
    known = COMPILED.intact(_key(linked, compiler, (*flags, *link)), f"{name[:60]}.so")
    if known is not None:
        return known

    def compiled(file: tuple[str, str, tuple[str, ...]]) -> Path:
        text, stem, own = file
        return _build(text, compiler, (*own, _OBJECT), stem, ".o")

    files = sorted(files, key=lambda file: len(file[0]), reverse=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compiled, files))
        for _ in files:  # whoever keeps the cache to its limit removes old ones
            if all(path.is_file() for path in objects):
                break
            objects = list(pool.map(compiled, files))
    return _build(linked, compiler, flags, name, ".so", objects, link)


def build_sanitized_program(
    source: str, target: Target, threads: int, name: str = "kernel", link: Sequence[str] = ()
) -> Path:
    """The path of an executable of this C, instrumented with `SANITIZERS`; the source lies beside it as `.c`.

    Raises CompileError, with a message of its own where the compiler has no runtime for them.
    """
    compiler = find_compiler()
    try:
        flags = (*target.flags, *SANITIZERS, *_openmp(threads))
        return _build(source, compiler, flags, name, ".sanitized", link=linked_with(link))
    except CompileError:
        _require_sanitizers(compiler)
        raise


def _require_sanitizers(compiler: Compiler) -> None:
    """Raise CompileError if the compiler cannot link an empty program with the sanitizers."""
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch, "empty.c")
        text.write_text("int main(void) { return 0; }\n", encoding="ascii")
        try:
            output_of([*compiler.command, *SANITIZERS, "-o", str(Path(scratch, "empty")), str(text)], scratch)
        except CompileError as error:
            raise CompileError(
                Diagnostic(
                    "the C compiler has no runtime for sanitizers",
                    required=f"a compiler that links with {shlex.join(SANITIZERS)}",
                    found=f"{shlex.join(compiler.command)}, which does not",
                    notes=error.diagnostic.notes,
                    fix="install it (Debian: apt-get install gcc, or libclang-rt-dev for clang), or set CC to another",
                )
            ) from error


def _build(
    source: str,
    compiler: Compiler,
    flags: Sequence[str],
    name: str,
    suffix: str,
    objects: Sequence[Path] = (),
    link: Sequence[str] = (),
) -> Path:
    """What the compiler makes of the source and objects, from the cache if it is there and intact."""
    key, stem = _key(source, compiler, (*flags, *link)), name[:60]
    known = COMPILED.intact(key, f"{stem}{suffix}")
    if known is not None:
        return known
    place = directory()
    try:
        with COMPILED.scratch() as scratch:
            made, text = Path(scratch, f"{stem}{suffix}"), Path(scratch, f"{stem}.c")
            text.write_text(source, encoding="ascii")
            files = [str(made), str(text), *map(str, objects)]
            command = [*compiler.command, *flags, _DECLARED, "-o", *files, *link, *LIBRARIES]
            read = [flag for flag in flags if flag not in _OF_OUTPUT]
            headers = words_for(source, compiler, read, lambda text: _key(text, compiler, read))
            _compile(command, headers, scratch)
            is_whole = made.is_file() and (suffix == ".o" or not executable_fault(made))
            fault = "" if is_whole else executable_fault(made) if made.is_file() else "no such file"
            if fault:
                raise _made_nothing(command, fault)
            return COMPILED.put(key, {text.name: text}, {made.name: made}) / made.name
    except OSError as error:
        raise CompileError(
            Diagnostic(
                "the compiled kernel cannot be stored",
                required=f"space and permission in {place}",
                found=str(error),
                fix="free some space, or set TCPX_CACHE_DIR to another directory",
            )
        ) from error


def _compile(command: Sequence[str], headers: Sequence[str], scratch: str) -> None:
    """Run the compiler with its temporary files in the folder `scratch`, first with what it has read of `headers`
    before: errors are those of a run without. One that breaks down itself is run again with `CAREFUL`, and a warning
    says so."""
    if headers:
        with suppress(CompileError):
            output_of([*command, *headers], scratch)
            return
    try:
        output_of(command, scratch)
    except CompileError as error:
        broken = [note for note in error.diagnostic.notes if BROKEN_DOWN in note]
        if not broken:
            raise
        output_of([*command, *CAREFUL], scratch)
        warnings.warn(
            f"the C compiler broke down, and compiled the kernel with {shlex.join(CAREFUL)} instead: "
            f"{broken[0].strip()}",
            RuntimeWarning,
            stacklevel=2,
        )


def _made_nothing(command: Sequence[str], found: str) -> CompileError:
    return CompileError(
        Diagnostic(
            "the C compiler made nothing that can be loaded",
            required=f"a C compiler, which writes the file behind -o: {shlex.join(command)}",
            found=f"exit status 0, and {found}",
            fix="set CC to a C compiler, such as gcc",
        )
    )


def _key(source: str, compiler: Compiler, flags: Sequence[str]) -> str:
    """A hash of all that a library depends on."""
    is_native = any("native" in word for word in (*flags, *compiler.command))
    return key_of(source, compiler, tuple(flags), LIBRARIES, sorted(cpu_flags()) if is_native else ())
