"""Compiled kernels by what was asked for: the same request in another process runs neither schedule nor compiler.

An entry is a folder as `Kernel.save` writes it, in the directory of the build cache, under a hash of all that the
kernel depends on: payload, constants, schedule with its imports, knobs, target, threads, and the code of tcpx itself.
An entry carries the constants of its kernel, so there are only so many bytes of them: those that were used least
recently go.
"""

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from tcpx.emit_c.build_cache import build_directories, last_use
from tcpx.emit_c.folder.files import Content, read_folder, stored, write_folder
from tcpx.emit_c.kernel import Kernel, kernel_of_files
from tcpx.installed import CODE, LIBRARY, PACKAGE
from tcpx.interp import ParamValue
from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.ir import Module
from tcpx.payload.text.printer import print_module
from tcpx.phases import phase
from tcpx.target import Target
from tcpx.transform.declaration import transforms
from tcpx.transform.language.loader import Program
from tcpx.tuned import schedule_hash

FOLDER: Final = "kernels"
MOST_BYTES: Final = 4 << 30
"""Of all entries together."""


def cached(
    module: Module,
    program: Program | None,
    params: Mapping[str, ParamValue] | None,
    target: Target,
    threads: int,
    name: str | None,
    make: Callable[[], Kernel],
) -> Kernel:
    """The kernel of a request: from the cache, else made, and put there. No program is the default schedule, which then
    is not even parsed.

    What depends on code from outside of the package is made: an operation, a transform or a target table of a user. An
    entry that cannot be read is made anew. Raises what `make` does, and CompileError where there is no place for
    compiled kernels.
    """
    modules = {type(op).__module__ for op in module.walk()}
    if program is not None:
        modules |= {held.__module__ for held in transforms().values()}
    if not target.is_installed or not all(name.startswith("tcpx.") for name in modules):
        return make()
    with phase("hash"):
        key = _key(module, program, params, target, threads, name)
    folders = [folder / FOLDER / key for folder in build_directories()]
    for folder in folders:
        if folder.is_dir():
            try:
                found = kernel_of_files(read_folder(folder), target)
            except ArgumentError:  # cut short, or changed
                continue
            with suppress(OSError):  # of another user
                os.utime(folder)
            found.kept_in = folder
            return found
    kernel = make()
    with phase("cache"):
        if _keep(folders[-1], stored(kernel.files())):
            kernel.kept_in = folders[-1]
    return kernel


def _keep(entry: Path, files: Mapping[str, Content]) -> bool:
    """Write an entry, and take out others where there are too many bytes. Where it cannot be written, as on a full
    disk, a warning says so, and it is False: the kernel is there all the same."""
    try:
        write_folder(entry, files)
    except ArgumentError as error:
        shutil.rmtree(entry, ignore_errors=True)
        found = error.diagnostic.found
        warnings.warn(f"the kernel is not kept for other processes: {found}", RuntimeWarning, stacklevel=2)
        return False
    rest = MOST_BYTES
    for other in sorted(entry.parent.iterdir(), key=last_use, reverse=True):
        rest -= sum(_bytes(path) for path in other.glob("*"))
        if rest < 0 and other != entry:
            shutil.rmtree(other, ignore_errors=True)
    return True


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _key(
    module: Module,
    program: Program | None,
    params: Mapping[str, ParamValue] | None,
    target: Target,
    threads: int,
    name: str | None,
) -> str:
    digest = hashlib.sha256()
    for text in (
        _code_digest(),
        *(str(func.location) for func in module.funcs.values()),  # remarks point there
        print_module(module),
        "default" if program is None else schedule_hash(program),
        *_texts(sorted(LIBRARY.rglob("*.tcps")) if program is None else [Path(u.file.path) for u in program.units]),
        *(f"{key}={value!r}" for key, value in sorted((params or {}).items())),
        target.name,
        *target.features,
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


def _texts(paths: Iterable[Path]) -> Iterator[str]:
    """The names and texts of the files of a schedule: remarks point to lines of them."""
    for path in paths:
        yield str(path)
        yield path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


@lru_cache(maxsize=1)
def _code_digest() -> str:
    """A hash of the code of tcpx."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in CODE:
            digest.update(f"{path.relative_to(PACKAGE)}:".encode() + path.read_bytes())
    return digest.hexdigest()
