"""Compiled kernels by what was asked for: the same request in another process runs neither schedule nor compiler.

An entry has the files that a kernel is loaded from, under a key of all that the kernel depends on: payload, constants,
schedule with its imports, knobs, target, threads, the code of tcpx itself, and that of operations and transforms from
outside. The compiler is part of the key of the library.
"""

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.emit_c.folder.files import read_folder, stored
from tcpx.emit_c.kernel import Kernel, kernel_of_files
from tcpx.interp import ParamValue
from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.ir import Module
from tcpx.payload.text.printer import print_module
from tcpx.phases import phase
from tcpx.store.files_read import FilesRead, noting
from tcpx.store.keys import code_of, key_of, own_code_key, own_schedules
from tcpx.store.store import KERNELS, use
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
    for folder in KERNELS.found(key):
        try:
            with noting(FilesRead()):  # an entry is nothing that a run depends on
                found = kernel_of_files(read_folder(folder), target)
        except ArgumentError:  # cut short, or changed
            continue
        use(folder)
        if program is not None and (folder / REMARKS).is_file():
            warn_of(require_checked(program))
        found.kept_in, found.make_trace = folder, trace
        return found
    kernel = make()
    has_remarks = program is not None and bool(check_program(program))
    with phase("cache"):
        try:
            kernel.kept_in = KERNELS.put(key, {**({REMARKS: b""} if has_remarks else {}), **stored(kernel.files())})
        except OSError as error:  # as on a full disk: the kernel is there all the same
            fault = f"{error.strerror}: {error.filename}"
            warnings.warn(f"the kernel is not kept for other processes: {fault}", RuntimeWarning, stacklevel=2)
    return kernel


def _key(
    module: Module,
    program: Program | None,
    params: Mapping[str, ParamValue] | None,
    target: Target,
    threads: int,
    name: str | None,
    code: Mapping[str, str],
) -> str:
    arrays = [(name, array) for name in module.constants if (array := module.constants.get(name)) is not None]
    return key_of(
        own_code_key(),
        sorted(code.items()),
        [str(held.location) for func in module.funcs.values() for held in (func, *func.walk())],  # remarks point there
        print_module(module),
        *_schedule_texts(program),
        sorted((params or {}).items()),
        (target.title, *target.features, *_table_of(target)),
        threads,
        name,
        [(name, array.dtype, array.shape, _digest(array)) for name, array in arrays],
    )


def _digest(array: npt.NDArray[np.generic]) -> str:
    return sha256(array.reshape(-1).view(np.uint8).data).hexdigest()


def _schedule_texts(program: Program | None) -> Iterator[str]:
    """The schedule and all that it imports; of the default one, all that it may import."""
    if program is None:
        yield from (f"{path}: {_read(Path(path))}" for path in own_schedules())
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
