"""What the system refuses, files above all, in the words of a diagnostic."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import tcpx
from tcpx.written_paths import path_to_write

_WANTED: Final = {
    errno.ENOENT: ("a path that exists", "make the folder {folder} first"),
    errno.ENOTDIR: ("a folder at every part of the path but the last", "choose another path"),
    errno.EEXIST: ("a folder, or a free path", "choose another path"),
    errno.EISDIR: ("a file", "name a file in that folder"),
    errno.EACCES: ("permission to use it", "choose another path, or change its permissions"),
    errno.EPERM: ("permission to use it", "choose another path, or change its permissions"),
    errno.EROFS: ("a file system that can be written to", "choose another path"),
    errno.ENOSPC: ("space on the device", "free some, or choose another path"),
}


def diagnostic_of(error: OSError) -> tcpx.Diagnostic:
    """The path, what was required of it, what the system said, and a fix where one is known."""
    reason = error.strerror or str(error)
    name = error.filename
    path = Path(name.decode(errors="replace") if isinstance(name, bytes) else str(name)) if name is not None else None
    required, fix = _WANTED.get(error.errno or 0, ("success", None))
    if error.errno == errno.ENOENT and (path is None or path.parent.is_dir()):
        fix = None
    return tcpx.Diagnostic(
        f"cannot use {path}" if path is not None else "the system refuses an operation",
        required=required,
        found=reason,
        fix=fix.format(folder=path.parent if path is not None else "") if fix is not None else None,
    )


def check_destinations(names: Iterable[str | None]) -> None:
    """Raise the OSError that writing the files of these names would: before the work for what they are to hold. No
    name, or an empty one, is no file."""
    for path in (path_to_write(name) for name in names if name):
        failure = _refusal(path)
        if failure is not None:
            raise OSError(failure, os.strerror(failure), str(path))


def _refusal(path: Path) -> int | None:
    """The number of the error with which the system would refuse to write a file."""
    if path.is_dir():
        return errno.EISDIR
    if not path.exists() and not path.parent.is_dir():
        return errno.ENOTDIR if path.parent.exists() else errno.ENOENT
    return None if os.access(path if path.exists() else path.parent, os.W_OK) else errno.EACCES


def check_folder(name: str) -> None:
    """Raise the OSError that making this folder, or writing to it, would: before the work for what it is to hold."""
    path = path_to_write(name)
    near = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not near.is_dir():
        failure = errno.EEXIST if near == path else errno.ENOTDIR
        raise OSError(failure, os.strerror(failure), name)
    if not os.access(near, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
