"""Which files a thread reads, and what they were like: those that `payload/text/file.py` opens, which reads all that
payloads and schedules consist of."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcpx.records import frozen


@frozen
class FileState:
    """What a file was like; `place` is its path without links."""

    path: str
    place: str
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @property
    def newest(self) -> int:
        """When it last changed, in nanoseconds."""
        return max(self.modified, self.changed)


def stamp(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What tells a file from another one of its name: device, inode, size, and when content and inode changed."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def state_of(path: str | Path) -> FileState | None:
    """What a file is like now; None where there is none."""
    try:
        return _state(str(path), os.stat(path))
    except (OSError, ValueError):
        return None


def _state(path: str, status: os.stat_result) -> FileState:
    return FileState(path, os.path.realpath(path), *stamp(status))


@dataclass(slots=True)
class FilesRead:
    """The files that were opened, each as it was then, the paths that may have led to others by links, and those where
    no file was found; all are absolute paths."""

    opened: dict[str, FileState] = field(default_factory=dict[str, FileState])
    followed: set[str] = field(default_factory=set[str])
    missed: set[str] = field(default_factory=set[str])


_READ: Final[ContextVar[FilesRead | None]] = ContextVar("files that were read", default=None)


@contextmanager
def noting(found: FilesRead) -> Generator[None, None, None]:
    """What this thread reads meanwhile is added."""
    token = _READ.set(found)
    try:
        yield
    finally:
        _READ.reset(token)


def note_opened(path: str | Path, status: os.stat_result) -> None:
    """A file was opened; this was its status."""
    read = _READ.get()
    if read is not None:
        name = os.path.abspath(path)
        read.opened.setdefault(name, _state(name, status))


def note_followed(path: Path) -> None:
    """The file where the links of a path end is going to be opened."""
    read = _READ.get()
    if read is not None:
        read.followed.add(os.path.abspath(path))


def note_missed(path: Path) -> None:
    """There was no file at a path."""
    read = _READ.get()
    if read is not None:
        read.missed.add(os.path.abspath(path))
