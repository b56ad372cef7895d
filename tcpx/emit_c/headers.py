"""The headers of C files. Those of vector instructions take the compiler longer than most kernels: it reads them once.

The first C of a cache only leaves a note of its headers, the second one has them compiled, which takes as long as
reading them three times. They are kept like a library: by all that they depend on, sealed, and moved into place whole.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

from tcpx.emit_c.build_cache import is_intact, put, seal, stamp, write_whole
from tcpx.emit_c.cache_size import make_place
from tcpx.emit_c.compiler import Compiler, output_of
from tcpx.payload.diagnostics import CompileError

ALWAYS: Final = ("stddef.h", "stdint.h")
STANDARD: Final = frozenset((*ALWAYS, "string.h", "math.h", "time.h"))
"""Those that say nothing of instructions, and are short."""
_HEAD: Final = re.compile(r"(?:/\*(?:[^*]|\*(?!/))*\*/\s*)*((?:#include <[\w./]+>\n)+)")
"""Comments, then headers: what stands before these, such as a pragma, would hold for what they define."""
_LINE: Final = re.compile(r"<([\w./]+)>")
_MAKES: Final = Lock()


def words_for(
    source: str, compiler: Compiler, flags: Sequence[str], directory: Path, key: Callable[[str], str]
) -> tuple[str, ...]:
    """What the compiler is told to start with the headers of a C file as it has read them before; nothing where they
    are short, where no C of this cache had them yet, or while another thread compiles them."""
    head = _HEAD.match(source)
    if head is None or STANDARD.issuperset(_LINE.findall(head[1])):
        return ()
    header = directory / f"headers-{key(head[1])}.h"
    made = header.with_name(f"{header.name}.gch")
    if not header.is_file():
        make_place(directory, [header.name])
        write_whole(header, head[1].encode())
        return ()
    if not _can_be_read(made):
        if not _MAKES.acquire(blocking=False):
            return ()
        try:
            _make(header, made, compiler, flags)
        except CompileError:  # a compiler that has no such thing: all is compiled as it was written
            return ()
        finally:
            _MAKES.release()
    return ("-include", str(header))


def _make(header: Path, made: Path, compiler: Compiler, flags: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=f"{header.stem}-", dir=header.parent) as scratch:
        written = Path(scratch, made.name)
        output_of([*compiler.command, *flags, "-x", "c-header", "-o", str(written), str(header)], scratch)
        seal(written)
        put(written, made)


def _can_be_read(made: Path) -> bool:
    with suppress(OSError):
        return _is_intact(made, stamp(made.stat()))
    return False


@lru_cache(maxsize=64)
def _is_intact(made: Path, known: tuple[int, ...]) -> bool:
    """Asked once as long as the file is the same."""
    del known
    return is_intact(made)
