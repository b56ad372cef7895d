"""From printed C to an opened library."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tcpx.emit_c.binding import Library, bound_function, stamp_of
from tcpx.emit_c.driver import build_library
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import CompileError
from tcpx.payload.text.file import open_regular
from tcpx.phases import phase
from tcpx.store.files import remove
from tcpx.target import Target

_OPENED: Final[dict[str, str]] = {}
"""The digests of the libraries of folders that this process has opened, by path."""


def built_library(printed: PrintedFile, target: Target, threads: int) -> Library:
    """Of the kernels of a C file, each with the function behind `Kernel.bind`. Raises CompileError.

    A library that cannot be loaded leaves the cache; it may come from another machine, so it is built again, once.
    """
    (_, first), *others = printed.sources.items()
    source = "\n".join([first, *map(bound_function, printed.kernels)])
    name = printed.kernels[0].c_name

    def built() -> Path:
        return build_library(source, target, threads, name, dict(others), printed.targets, printed.link)

    with phase("compiler"):
        path = built()
    with suppress(CompileError):
        return _opened(path, printed.kernels)
    return _opened(built(), printed.kernels)


def kept_library(path: Path, digest: str, kernels: Sequence[KernelSignature]) -> Library | None:
    """The library of a folder, if it has this digest and can be opened here, else None.

    The loader of a system hands out what it opened before under the same name, and another process may put a file in
    place of this one between two looks at it: then it is None, too.
    """
    path = path.absolute()
    stamp = stamp_of(path)
    if digest_of(path) != digest or _OPENED.setdefault(str(path), digest) != digest:
        return None
    with suppress(CompileError):  # from another machine
        library = Library(path, kernels)
        if library.stamp == stamp == stamp_of(path):
            return library
    _OPENED[str(path)] = ""
    return None


def digest_of(path: Path) -> str:
    """Of a library; empty where there is none."""
    try:
        with open_regular(path) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return ""


def _opened(path: Path, kernels: Sequence[KernelSignature]) -> Library:
    try:
        return Library(path, kernels)
    except CompileError:
        remove(path)
        raise
