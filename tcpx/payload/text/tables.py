"""Where the parse tables of a grammar are kept: with Python's bytecode, and trusted like it."""

import sys
from pathlib import Path

from tcpx.store.bytecode import place_with_bytecode


def tables_file(grammar: Path) -> str | bool:
    """The file lark keeps the tables of a grammar in, which saves 0.1 s; False where there is none and Python keeps no
    bytecode.

    Lark makes the tables anew where the grammar, its options or the version of lark or Python changed, or where the
    file cannot be read or written.
    """
    place = place_with_bytecode(grammar, ".tables")
    if sys.dont_write_bytecode:
        return str(place) if place.is_file() else False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return str(place)
