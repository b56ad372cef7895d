"""Where a tuner, or a worker of a cluster, keeps its problem and its builds. One that is killed cannot remove its
folder: the next one on this machine does."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PREFIX: Final = "tcpx-study-{user}-"


@contextmanager
def study_folder() -> Generator[Path]:
    """A folder that only this user reads, removed at the end; so are those that dead tuners of this user left."""
    path, lock = _made()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def _made() -> tuple[Path, int]:
    prefix = PREFIX.format(user=os.getuid())
    parent = Path(tempfile.gettempdir())
    guard = os.open(parent / f"{prefix}lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)  # nobody else sees a folder before its lock is held
        for left in parent.glob(f"{prefix}*/"):
            _remove_if_dead(left)
        path = Path(tempfile.mkdtemp(prefix=prefix))
        lock = _opened(path)
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the process ends, however it does
        return path, lock
    finally:
        os.close(guard)


def _remove_if_dead(folder: Path) -> None:
    try:
        lock = _opened(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # it just ended, is a link, is somebody else's
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return  # its tuner is alive
    finally:
        os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
