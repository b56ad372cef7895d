"""Where compiled kernels are kept, and which entries can be trusted.

A library that was cut short ends the interpreter when a page that is missing is touched; in a directory that others can
write to, a library may be theirs. So an entry ends with its size and digest, and the directory has to be the user's.
"""

import atexit
import hashlib
import os
import shutil
import stat
import struct
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Final

from tcpx.cache_place import VARIABLE, cache_directory, no_place
from tcpx.payload.diagnostics import CompileError
from tcpx.payload.text.file import open_regular
from tcpx.plurals import counted

_SEAL: Final = struct.Struct("<Q32s8s")
"""Behind an entry: the bytes before it, their SHA-256, the mark. Loaders read what the headers of a file name."""
_MARK: Final = b"tcpxseal"
_ELF_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_LITTLE_64: Final = b"\x02\x01"
"""Class and byte order of the files that these two structures are in."""
_ELF_SEGMENT: Final = struct.Struct("<IIQQQQQQ")


def build_directories() -> Iterator[Path]:
    """The directories in which an entry is looked for, the last of which new ones are written to.

    Where the default directory cannot be used, that is a private one among the temporary files, with one warning.
    Raises CompileError where $TCPX_CACHE_DIR cannot be used, or nothing can.
    """
    is_chosen = bool(os.environ.get(VARIABLE))
    directory: Path | str
    try:
        directory = cache_directory()
    except CompileError as error:
        if is_chosen:
            raise
        directory, fault = "~/.cache/tcpx", error.diagnostic.found or ""
    else:
        fault = _distrust(directory)
        if not fault:
            yield directory
            fault = _unwritable(directory)
            if not fault:
                return
    if is_chosen:
        raise no_place(directory, fault)
    private = _private_directory()
    _warn_once(str(directory), fault, private)
    yield private


def _distrust(directory: Path) -> str:
    """Why nothing in a directory is loaded, empty where it can be; it is made where there is none."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError as error:
        return error.strerror or str(error)
    if status.st_mode & stat.S_IWOTH:
        return "a directory that every user can write to"
    if status.st_uid not in (os.geteuid(), 0):
        return "a directory of another user"
    return ""


def _unwritable(directory: Path) -> str:
    return "" if os.access(directory, os.W_OK | os.X_OK) else "a directory that cannot be written to"


def _private_directory() -> Path:
    """A directory that only this user can use: the same for all processes, unless somebody else has its name."""
    try:
        path = Path(tempfile.gettempdir(), f"tcpx-{os.geteuid()}")
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return path
    except FileExistsError:  # no directory
        pass
    except OSError as error:
        raise no_place("one among the temporary files", error.strerror or str(error)) from error
    return _directory_of_this_process()


@lru_cache(maxsize=1)
def _directory_of_this_process() -> Path:
    made = Path(tempfile.mkdtemp(prefix="tcpx-"))
    atexit.register(_remove, made, os.getpid())
    return made


def _remove(directory: Path, owner: int) -> None:
    """Processes that were forked leave it."""
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


@lru_cache(maxsize=1)
def _warn_once(directory: str, fault: str, private: Path) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept in {directory} ({fault}), they go to {private}: set {VARIABLE} to a "
        "directory of your own",
        RuntimeWarning,
        stacklevel=2,
    )


def seal(path: Path) -> None:
    """Write size and digest behind a file. Raises OSError."""
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(_SEAL.pack(file.seek(0, os.SEEK_END), digest, _MARK))


def is_intact(path: Path) -> bool:
    """Whether this is a file with the bytes that it was sealed with."""
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size - _SEAL.size
            if size < 0:
                return False
            file.seek(size)
            sealed, digest, mark = _SEAL.unpack(file.read(_SEAL.size))
            if sealed != size or mark != _MARK:
                return False
            file.seek(0)
            return hashlib.sha256(file.read(size)).digest() == digest
    except OSError:  # not there, no file, or not to be read: it is made anew
        return False


def put(made: Path, entry: Path) -> None:
    """Move a file to its entry, in one step for all who look for it. A directory in its place goes beside `made`."""
    if entry.is_dir() and not entry.is_symlink():
        entry.rename(made.with_name(f"{made.name}.replaced"))
    made.replace(entry)


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Write a file, in one step for all who read it. Raises OSError."""
    made = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
    try:
        made.write_bytes(content)
        made.replace(path)
    except OSError:
        discard(made)
        raise


def last_use(entry: Path) -> float:
    """When an entry was read or written; another process may have taken it out meanwhile."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def stamp(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What tells a file from another one of its name: device, inode, size, and when content and inode changed."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def discard(entry: Path) -> None:
    """Take out an entry that is of no use; in a directory that cannot be written to it stays."""
    with suppress(OSError):
        entry.unlink()


def executable_fault(path: Path) -> str:
    """Why the system cannot load a file that a compiler wrote, empty where it can, as far as its headers tell."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(_ELF_HEADER.size)
        if not sys.platform.startswith("linux"):
            return "" if head else "an empty file"
        if len(head) < _ELF_HEADER.size or not head.startswith(b"\x7fELF"):
            return f"{counted(size, 'byte')} that are no ELF file"
        if head[4:6] != _LITTLE_64:
            return ""
        *_, segments_at, _, _, _, segment_size, count, _, _, _ = _ELF_HEADER.unpack(head)
        for k in range(count):
            file.seek(segments_at + k * segment_size)
            segment = file.read(_ELF_SEGMENT.size)
            if len(segment) < _ELF_SEGMENT.size:
                return f"{counted(size, 'byte')}, cut short"
            _, _, offset, _, _, in_file, _, _ = _ELF_SEGMENT.unpack(segment)
            if offset + in_file > size:
                return f"{counted(size, 'byte')}, cut short: a part of it ends at {offset + in_file}"
    return "" if count else "an ELF file that has nothing to load"
