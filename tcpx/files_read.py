"""Which files a thread reads: those that `payload/text/file.py` opens, which reads all that payloads and schedules
consist of."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


@dataclass(slots=True)
class FilesRead:
    """The files that were opened, each as it was then, the paths that may have led to others by links, and those where
    no file was found; all are absolute paths."""

    opened: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
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
        read.opened.setdefault(os.path.abspath(path), status)


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
