"""What the system refuses, files above all, in the words of a diagnostic."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

import tcpx

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
