"""From printed C to an opened library."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tcpx.emit_c.binding import Library, bound_function
from tcpx.emit_c.build_cache import discard
from tcpx.emit_c.driver import build_library
from tcpx.emit_c.printer.file import PrintedFile
from tcpx.emit_c.signature import KernelSignature
from tcpx.payload.diagnostics import CompileError
from tcpx.phases import phase
from tcpx.target import Target


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


def _opened(path: Path, kernels: Sequence[KernelSignature]) -> Library:
    try:
        return Library(path, kernels)
    except CompileError:
        discard(path)
        raise
