"""The store of compiled kernels: entries under the key of all that decides them, which processes and threads share.

An entry is a folder `KIND/KEY` in a directory of the cache. Its files are written in one step each, those last that are
verified: what is cut short, damaged, or in the way is found by nobody, and written anew. The folder's time is that of
its last use, and nothing in it is touched: notes of `tcpx run` tell by the times of files that they are the same.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.records import frozen
from tcpx.store.files import Content, read_sealed, remove, seal, seal_of, write_whole
from tcpx.store.files_read import stamp
from tcpx.store.keys import DIGITS
from tcpx.store.place import build_directories

VARIABLE: Final = "TCPX_CACHE_LIMIT"
DEFAULT_LIMIT: Final = 1 << 30
GRACE_SECONDS: Final = 600.0
"""A compiler that runs now may read what was used this long ago: it stays, whatever the limit."""
NOTHING: Final[Mapping[str, Content | Path]] = {}
_SCRATCH: Final = "scratch-"
_UNITS: Final[Mapping[str, int]] = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMIT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
_KEY: Final = re.compile(rf"[0-9a-f]{{{DIGITS}}}")
_OLD: Final = re.compile(r".+-[0-9a-f]{24}(?:\.(?:c|o|so|sanitized|h|h\.gch)|-\w{8})|\..+\.\d+\.\d+")
"""What versions of tcpx before this store left in a directory: compiled C, and what it was made in."""


@frozen
class Store:
    """The entries of one kind, by the name of their folders; what a user reads of them."""

    folder: str
    title: str

    def found(self, key: str) -> Iterator[Path]:
        """The folders that there are for a key, whose files are yet to be verified."""
        for directory in build_directories():
            entry = directory / self.folder / key
            if entry.is_dir():
                yield entry

    def intact(self, key: str, name: str) -> Path | None:
        """A sealed file of an entry, which is used now; None where there is none that is intact."""
        for entry in self.found(key):
            if _is_intact(entry / name, key):
                use(entry)
                return entry / name
        return None

    def scratch(self) -> TemporaryDirectory[str]:
        """A folder from which files can be moved to an entry. Raises OSError."""
        return TemporaryDirectory(prefix=_SCRATCH, dir=_made(directory() / self.folder))

    def put(
        self,
        key: str,
        files: Mapping[str, Content | Path],
        sealed: Mapping[str, Content | Path] = NOTHING,
        spared: Iterable[Path] = (),
    ) -> Path:
        """Write files of an entry, in order, and keep the directory to its limit. A path is moved from `scratch`; what
        verifies the others comes last: those `sealed`, or one that its reader asks. Other entries that this one needs
        are `spared`. Raises OSError, where nothing is left of the entry, and CompileError for a limit that is none."""
        place = directory()
        entry = place / self.folder / key
        try:
            _made(entry.parent)
            _made(entry)
            for name, content in files.items():
                _write(entry / name, content, None)
            for name, content in sealed.items():
                _write(entry / name, content, key)
        except OSError:
            remove(entry)
            raise
        keep_to_limit(place, entry, *spared)
        return entry


COMPILED: Final = Store("compiled", "compiled C")
KERNELS: Final = Store("kernels", "kernels")
RUNS: Final = Store("runs", "notes of tcpx run")
LEFT: Final = Store("", "left by ended processes")


@frozen
class CacheEntry:
    """A folder or file of a directory: its bytes, and when it was last used, in seconds since 1970."""

    store: Store
    path: Path
    bytes: int
    used: float


def directory() -> Path:
    """The directory that new entries are written to. Raises CompileError."""
    *_, last = build_directories()
    return last


def use(*entries: Path) -> None:
    """Note that entries are used now; those of another user stay as they are."""
    for entry in entries:
        with suppress(OSError):
            os.utime(entry)


def cache_limit(environment: Mapping[str, str] | None = None) -> int:
    """Bytes of all entries of a cache directory: $TCPX_CACHE_LIMIT, such as `500M` or `2GiB`; else 1 GiB. Raises
    CompileError."""
    given = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
    if not given:
        return DEFAULT_LIMIT
    found = _LIMIT.fullmatch(given)
    if found is None:
        required = f"a number of bytes in ${VARIABLE}, with K, M, G or T for units of 1024"
        fix = f"write {VARIABLE}=2G"
        raise CompileError(Diagnostic("the limit of the cache is no size", required=required, found=given, fix=fix))
    return int(float(found[1]) * _UNITS[found[2].upper()])


def cache_entries(place: Path) -> list[CacheEntry]:
    """Everything that tcpx put into a cache directory; files of others are not among it."""
    found = [_entry(COMPILED, path) for path in _inside(place) if _OLD.fullmatch(path.name)]
    for store in (COMPILED, KERNELS, RUNS):
        for path in _inside(place / store.folder):
            if _KEY.fullmatch(path.name):
                found.append(_entry(store, path))
            elif path.name.startswith(_SCRATCH):
                found.append(_entry(LEFT, path))
    return found


def keep_to_limit(place: Path, *spared: Path) -> None:
    """Remove what was used least recently, while there is more than the limit, but not what is `spared`; and what
    processes left that were ended an hour ago. Raises CompileError for a limit that is none."""
    now, rest = time.time(), cache_limit()
    for entry in sorted(cache_entries(place), key=lambda entry: entry.used, reverse=True):
        rest -= entry.bytes
        if entry.store is LEFT:
            is_old = entry.used < now - 6 * GRACE_SECONDS
        else:
            is_old = rest < 0 and (entry.store is KERNELS or entry.used < now - GRACE_SECONDS)
        if is_old and entry.path not in spared:
            remove(entry.path)


def _is_intact(path: Path, key: str) -> bool:
    """Whether a file is there as it was sealed: read once as long as it is the same."""
    try:
        return _reads(path, key, stamp(path.stat()))
    except OSError:
        return False


@lru_cache(maxsize=64)
def _reads(path: Path, key: str, known: tuple[int, ...]) -> bool:
    del known
    return read_sealed(path, key) is not None


def _made(folder: Path) -> Path:
    """A folder of the cache, in place of what is there and is no folder. Raises OSError."""
    if os.path.lexists(folder) and not folder.is_dir():
        remove(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _write(path: Path, content: Content | Path, key: str | None) -> None:
    """Write a file, or move it, sealed with the key if there is one; a folder in its place is of no use."""
    if path.is_dir():
        remove(path)
    if not isinstance(content, Path):
        write_whole(path, content, *([] if key is None else [seal_of(key, content)]))
        return
    if key is not None:
        seal(content, key)
    content.replace(path)


def _inside(place: Path) -> Iterator[Path]:
    try:
        yield from sorted(place.iterdir())
    except OSError:  # not there, no directory, not to be read
        return


def _entry(store: Store, path: Path) -> CacheEntry:
    states = list(_states(path))
    return CacheEntry(store, path, sum(state.st_size for state in states), states[0].st_mtime if states else 0.0)


def _states(path: Path) -> Iterator[os.stat_result]:
    """That of a path, then of what is in it; another process may remove it meanwhile."""
    with suppress(OSError):
        yield path.lstat()
        if path.is_dir() and not path.is_symlink():
            for inside in path.rglob("*"):
                yield inside.lstat()
