"""The headers of C files. Those of vector instructions take the compiler longer than most kernels: it reads them once.

The first C of a cache only leaves a note of its headers, the second one has them compiled, which takes as long as
reading them three times. They are stored like a library.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from tcpx.emit_c.compiler import Compiler, output_of
from tcpx.payload.diagnostics import CompileError
from tcpx.store.store import COMPILED, directory

ALWAYS: Final = ("stddef.h", "stdint.h")
STANDARD: Final = frozenset((*ALWAYS, "string.h", "math.h", "time.h"))
"""Those that say nothing of instructions, and are short."""
_HEAD: Final = re.compile(r"(?:/\*(?:[^*]|\*(?!/))*\*/\s*)*((?:#include <[\w./]+>\n)+)")
"""Comments, then headers: what stands before these, such as a pragma, would hold for what they define."""
_LINE: Final = re.compile(r"<([\w./]+)>")
_NAME: Final = "headers.h"
_MADE: Final = f"{_NAME}.gch"
"""As compilers look for it."""
_MAKES: Final = Lock()


def words_for(source: str, compiler: Compiler, flags: Sequence[str], key_of: Callable[[str], str]) -> tuple[str, ...]:
    """What the compiler is told to start with the headers of a C file as it has read them before; nothing where they
    are short, where no C of this cache had them yet, or while another thread compiles them. Raises OSError."""
    head = _HEAD.match(source)
    if head is None or STANDARD.issuperset(_LINE.findall(head[1])):
        return ()
    key = key_of(head[1])
    made = COMPILED.intact(key, _MADE)
    if made is None:
        header = directory() / COMPILED.folder / key / _NAME
        if not header.is_file():
            COMPILED.put(key, {_NAME: head[1].encode()})
            return ()
        if not _MAKES.acquire(blocking=False):
            return ()
        try:
            with COMPILED.scratch() as scratch:
                written = Path(scratch, _MADE)
                output_of([*compiler.command, *flags, "-x", "c-header", "-o", str(written), str(header)], scratch)
                made = COMPILED.put(key, {}, {_MADE: written}) / _MADE
        except CompileError:  # a compiler that has no such thing: all is compiled as it was written
            return ()
        finally:
            _MAKES.release()
    return ("-include", str(made.with_suffix("")))
