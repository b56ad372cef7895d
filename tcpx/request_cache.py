"""Compiled kernels by what was asked for: the same request in another process runs neither schedule nor compiler.

An entry is a folder as `Kernel.save` writes it, in the directory of the build cache, under a hash of all that the
kernel depends on: payload, constants, schedule with its imports, knobs, target, threads, the code of tcpx itself, and
that of operations and transforms from outside.
"""

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from tcpx.code_outside import code_of
from tcpx.emit_c.build_cache import build_directories
from tcpx.emit_c.cache_size import KERNELS, keep_to_limit, make_place, remove
from tcpx.emit_c.folder.files import Content, read_folder, stored, write_folder
from tcpx.emit_c.kernel import Kernel, kernel_of_files
from tcpx.files_read import FilesRead, noting
from tcpx.installed import CODE, LIBRARY, PACKAGE
from tcpx.interp import ParamValue
from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.ir import Module
from tcpx.payload.text.printer import print_module
from tcpx.phases import phase
from tcpx.target import Target
from tcpx.transform.declaration import transforms
from tcpx.transform.language.checker import check_program, require_checked, warn_of
from tcpx.transform.language.loader import Program, Unit
from tcpx.tuned import schedule_hash

IS_USED: bool = True
"""Tests that change tcpx while it runs set this to False."""
REMARKS: Final = "remarks"
"""A file of an entry whose schedule has remarks: they are warnings in each process, not in the first alone."""


def cached(
    module: Module,
    program: Program | None,
    params: Mapping[str, ParamValue] | None,
    target: Target,
    threads: int,
    name: str | None,
    make: Callable[[], Kernel],
    trace: Callable[[], object],
) -> Kernel:
    """The kernel of a request: from the cache, else made, and put there. No program is the default schedule, which then
    is not even parsed. `trace` makes the trace of a kernel from the cache, when it is read.

    What depends on code that no file tells is made. An entry that cannot be read is made anew. Raises what `make` does,
    and CompileError where there is no place for compiled kernels.
    """
    classes = {type(op) for op in module.walk()}
    code = code_of(classes if program is None else classes | {*transforms().values()})
    if code is None or not IS_USED:
        return make()
    with phase("hash"):
        key = _key(module, program, params, target, threads, name, code)
    folders = [folder / KERNELS / key for folder in build_directories()]
    for folder in folders:
        if folder.is_dir():
            try:
                with noting(FilesRead()):  # an entry is nothing that a run depends on
                    found = kernel_of_files(read_folder(folder), target)
            except ArgumentError:  # cut short, or changed
                continue
            with suppress(OSError):  # of another user
                os.utime(folder)
            if program is not None and (folder / REMARKS).is_file():
                warn_of(require_checked(program))
            found.kept_in, found.make_trace = folder, trace
            return found
    kernel = make()
    has_remarks = program is not None and bool(check_program(program))
    with phase("cache"):
        if _keep(folders[-1], {**({REMARKS: b""} if has_remarks else {}), **stored(kernel.files())}):
            kernel.kept_in = folders[-1]
    return kernel


def _keep(entry: Path, files: Mapping[str, Content]) -> bool:
    """Write an entry, and keep to the limit of the directory. Where it cannot be written, as on a full disk, a warning
    says so, and it is False: the kernel is there all the same."""
    try:
        make_place(entry.parent, [])
        make_place(entry, files)
        write_folder(entry, files)
    except (ArgumentError, OSError) as error:
        remove(entry)
        found = error.diagnostic.found if isinstance(error, ArgumentError) else f"{error.strerror}: {error.filename}"
        warnings.warn(f"the kernel is not kept for other processes: {found}", RuntimeWarning, stacklevel=2)
        return False
    keep_to_limit(entry.parent.parent, entry)
    return True


def _key(
    module: Module,
    program: Program | None,
    params: Mapping[str, ParamValue] | None,
    target: Target,
    threads: int,
    name: str | None,
    code: Mapping[str, str],
) -> str:
    digest = hashlib.sha256()
    for text in (
        _code_digest(),
        *(f"{name}: {text}" for name, text in sorted(code.items())),
        *(str(held.location) for func in module.funcs.values() for held in (func, *func.walk())),  # remarks point there
        print_module(module),
        *_schedule_texts(program),
        *(f"{key}={value!r}" for key, value in sorted((params or {}).items())),
        target.title,
        *target.features,
        *_table_of(target),
        f"{threads} threads",
        name or "",
    ):
        digest.update(f"{len(text)}:{text}".encode())
    for constant in module.constants:
        array = module.constants.get(constant)
        if array is not None:
            digest.update(f"{constant}: {array.dtype} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:32]


def _schedule_texts(program: Program | None) -> Iterator[str]:
    """The schedule and all that it imports; of the default one, all that it may import."""
    if program is None:
        for path in sorted(LIBRARY.rglob("*.tcps")):
            yield f"{path}: {_read(path)}"
    else:
        yield schedule_hash(program)
        yield from map(_text_of, program.units)


def _text_of(unit: Unit) -> str:
    """The name and text of a file of a schedule, to whose lines remarks point; of one that is no file, its tree, which
    says where everything stands."""
    path = Path(unit.file.path)
    return f"{path}: {_read(path) if path.is_file() else pickle.dumps(unit.file).hex()}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _table_of(target: Target) -> Iterator[str]:
    """The table of a user by what it says; one that is installed is code of tcpx."""
    if target.is_installed:
        return
    for field in fields(target):
        if field.init and field.repr:
            yield f"{field.name}={getattr(target, field.name)!r}"
    for row in target.rows:
        yield from (f"{field.name}={getattr(row, field.name)!r}" for field in fields(row))


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """A hash of the code of tcpx."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in CODE:
            digest.update(f"{path.relative_to(PACKAGE)}:".encode() + path.read_bytes())
    return digest.hexdigest()
