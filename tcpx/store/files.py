"""Files that are there whole or not at all, sealed with the key of what they are.

A library that was cut short ends the interpreter when a page that is missing is touched. So a file ends with its size
and a digest, which the key is part of: one that was written for another key is not intact.
"""

import hashlib
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Final

from tcpx.payload.text.file import open_regular

Content = bytes | memoryview

_SEAL: Final = struct.Struct("<Q32s8s")
"""After the content: its size, the SHA-256 of key and content, the mark. Loaders do not read what no header names."""
_MARK: Final = b"tcpxseal"


def write_whole(path: Path, *parts: Content) -> None:
    """Write a file, in one step for all who read it. Raises OSError, with a name also where a disk is full."""
    written = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    try:
        with written.open("wb") as file:
            for part in parts:
                file.write(part)
        written.replace(path)
    except OSError as error:
        remove(written)
        error.filename = error.filename or str(path)
        raise


def seal_of(key: str, content: Content) -> bytes:
    """What is written after the content of a file, which is for this key."""
    digest = hashlib.sha256(key.encode())
    digest.update(content)
    return _SEAL.pack(len(content), digest.digest(), _MARK)


def seal(path: Path, key: str) -> None:
    """Write the seal after what a file holds. Raises OSError."""
    with path.open("r+b") as file:
        file.write(seal_of(key, file.read()))


def read_sealed(path: Path, key: str) -> Content | None:
    """The content of a file that was sealed with this key; None where it is not there, is no file, cannot be read, or
    is not what was written."""
    try:
        with open_regular(path, is_noted=False) as file:
            whole = memoryview(file.read())
    except OSError:
        return None
    content = whole[: -_SEAL.size]
    return content if bytes(whole[-_SEAL.size :]) == seal_of(key, content) else None


def remove(path: Path) -> None:
    """Remove a file or folder; in a directory that cannot be written to it stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
