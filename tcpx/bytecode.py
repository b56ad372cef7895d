"""What was computed from files of tcpx itself, stored with Python's bytecode and trusted like it."""

import hashlib
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from os import getpid
from pathlib import Path
from threading import get_ident
from typing import Final

_DIGEST: Final = hashlib.sha256().digest_size


def place_with_bytecode(source: Path, suffix: str) -> Path:
    """The file beside the bytecode of a source file, with this suffix."""
    return Path(cache_from_source(str(source))).with_suffix(suffix)


def stored(place: Path, key: str) -> bytes | None:
    """What was stored there under this key; None where nothing was, or it was cut short."""
    with suppress(OSError):  # not there, or not to be read
        content = place.read_bytes()
        rest = content[2 * _DIGEST :]
        if content[: 2 * _DIGEST] == _digest(key.encode()) + _digest(rest):
            return rest
    return None


def store(place: Path, key: str, content: bytes) -> None:
    """Store it for other processes, unless Python stores no bytecode or there is no place for it."""
    if sys.dont_write_bytecode:
        return
    written = place.with_name(f".{place.name}.{getpid()}.{get_ident()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(_digest(key.encode()) + _digest(content) + content)
        written.replace(place)


def version_of(*sources: Path) -> str:
    """The version of code: sizes and times of its files, as Python compares its sources, and of Python itself."""
    known = [(source.name, status.st_size, status.st_mtime_ns) for source in sources if (status := source.stat())]
    return f"{sys.version} {known}"


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
