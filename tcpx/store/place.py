"""The directories of the cache, and which of them can be trusted.

In a directory that others can write to, a library may be theirs: nothing is loaded from one.
"""

import atexit
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import CompileError, Diagnostic

VARIABLE: Final = "TCPX_CACHE_DIR"


def cache_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Where libraries are kept: $TCPX_CACHE_DIR, else $XDG_CACHE_HOME/tcpx, else ~/.cache/tcpx. It need not exist yet.

    Raises CompileError for a path that starts in the home of nobody, or where there is no home.
    """
    known = os.environ if environment is None else environment
    try:
        if known.get(VARIABLE):
            return Path(os.path.abspath(Path(known[VARIABLE]).expanduser()))
        shared = Path(known.get("XDG_CACHE_HOME", ""))
        if shared.is_absolute():
            return shared / "tcpx"
        home = known.get("HOME")
        return Path(os.path.abspath((Path(home) if home else Path.home()) / ".cache" / "tcpx"))
    except (RuntimeError, FileNotFoundError) as error:  # no such user; a relative path in a folder that is gone
        raise no_place(known.get(VARIABLE) or "~/.cache/tcpx", str(error)) from error


def no_place(directory: str | Path, found: str) -> CompileError:
    """The error where a directory cannot be used."""
    return CompileError(
        Diagnostic(
            "there is no place for compiled kernels",
            required=f"a directory that this user can write to and other users cannot: {directory}",
            found=found,
            fix=f"set {VARIABLE} to a directory of your own that can be written to",
        )
    )


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
            if os.access(directory, os.W_OK | os.X_OK):
                return
            fault = "a directory that cannot be written to"
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
