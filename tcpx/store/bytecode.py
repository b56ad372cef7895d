"""What was computed from files of tcpx itself, stored with Python's bytecode and trusted like it."""

import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from tcpx.store.files import seal_of, write_whole


def place_with_bytecode(source: Path, suffix: str) -> Path:
    """The file beside the bytecode of a source file, with this suffix."""
    return Path(cache_from_source(str(source))).with_suffix(suffix)


def store(place: Path, key: str, content: bytes) -> None:
    """Store it for other processes, unless Python stores no bytecode or there is no place for it."""
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content, seal_of(key, content))
