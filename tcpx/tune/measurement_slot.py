"""One measurement at a time on a machine, and nothing of other tuners compiled meanwhile."""

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

NAME: Final = "tcpx-measurement-{user}.lock"


@contextmanager
def building() -> Generator[None]:
    """While something is compiled: together with others that compile, not while somebody measures."""
    with _locked(fcntl.LOCK_SH):
        yield


@contextmanager
def measuring() -> Generator[None]:
    """While something is timed: alone on this machine, among the tuners of this user."""
    with _locked(fcntl.LOCK_EX):
        yield


@contextmanager
def _locked(kind: int) -> Generator[None]:
    path = Path(tempfile.gettempdir(), NAME.format(user=os.getuid()))
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, kind)  # let go when the process ends, however it does
        yield
    finally:
        os.close(file)
