"""What a cache directory holds, and how much it may: entries that were used least recently go.

Compiled libraries are used by reading them, which their file system notes once a day or oftener: nothing writes to them
again, since notes of `tcpx run` tell by their times that they are the same.
"""

import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import CompileError, Diagnostic
from tcpx.records import frozen

VARIABLE: Final = "TCPX_CACHE_LIMIT"
DEFAULT_LIMIT: Final = 1 << 30
KERNELS: Final = "kernels"
RUNS: Final = "runs"
GRACE_SECONDS: Final = 600.0
"""A compiler that runs now may read what was compiled this long ago: it stays, whatever the limit."""
_UNITS: Final[Mapping[str, int]] = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMIT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", re.IGNORECASE)
_COMPILED: Final = re.compile(r"(.+-[0-9a-f]{24})\.(?:c|o|so|sanitized|h|h\.gch)")
_SCRATCH: Final = re.compile(r".+-[0-9a-f]{24}-\w{8}|\..+\.\d+\.\d+")
_KEY: Final = re.compile(r"[0-9a-f]{32}")


class EntryKind(Enum):
    """What an entry is: a compiled file with its source, a kernel by what was asked for, a note of a run, or what a
    process left that was ended."""

    COMPILED = "compiled C"
    KERNEL = "kernels"
    RUN = "notes of tcpx run"
    LEFT = "left by ended processes"


@frozen
class CacheEntry:
    """Files that are there together or not at all: their bytes, and when they were last used, in seconds since 1970."""

    kind: EntryKind
    paths: tuple[Path, ...]
    bytes: int
    used: float

    def remove(self) -> None:
        """In a directory that cannot be written to it stays."""
        for path in self.paths:
            remove(path)


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


def cache_entries(directory: Path) -> list[CacheEntry]:
    """Everything that tcpx put into a cache directory; files of others are not among it."""
    compiled: dict[str, list[Path]] = {}
    found: list[CacheEntry] = []
    for path in _inside(directory):
        if (name := _COMPILED.fullmatch(path.name)) is not None:
            compiled.setdefault(name[1], []).append(path)
        elif _SCRATCH.fullmatch(path.name):
            found.append(_entry(EntryKind.LEFT, [path]))
    found += [_entry(EntryKind.COMPILED, paths) for paths in compiled.values()]
    for folder, kind in ((KERNELS, EntryKind.KERNEL), (RUNS, EntryKind.RUN)):
        for path in _inside(directory / folder):
            held = kind if _KEY.fullmatch(path.name) else EntryKind.LEFT if _SCRATCH.fullmatch(path.name) else None
            if held is not None:
                found.append(_entry(held, [path]))
    return found


def keep_to_limit(directory: Path, written: Path) -> None:
    """Remove what was used least recently, while there is more than the limit, but not what was `written` now; and
    what processes left that were ended an hour ago. Raises CompileError for a limit that is none."""
    now, rest = time.time(), cache_limit()
    for entry in sorted(cache_entries(directory), key=lambda entry: entry.used, reverse=True):
        rest -= entry.bytes
        if entry.kind is EntryKind.LEFT:
            is_old = entry.used < now - 6 * GRACE_SECONDS
        else:
            is_old = rest < 0 and (entry.kind is EntryKind.KERNEL or entry.used < now - GRACE_SECONDS)
        if is_old and written not in entry.paths:
            entry.remove()


def remove(path: Path) -> None:
    """Remove a file or folder of the cache; in a directory that cannot be written to it stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def make_place(folder: Path, names: Iterable[str]) -> None:
    """Make a folder of the cache, for files of these names: what is there and is no folder, or no file, is of no use.
    Raises OSError."""
    if os.path.lexists(folder) and not folder.is_dir():
        remove(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in names:
        if (folder / name).is_dir():
            remove(folder / name)


def _inside(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(directory.iterdir())
    except OSError:  # not there, no directory, not to be read
        return


def _entry(kind: EntryKind, paths: Iterable[Path]) -> CacheEntry:
    held = tuple(paths)
    states = [state for path in held for state in _states(path)]
    reads = kind is EntryKind.COMPILED
    used = max((max(s.st_mtime, s.st_atime if reads else 0.0) for s in states[: None if reads else 1]), default=0.0)
    return CacheEntry(kind, held, sum(state.st_size for state in states), used)


def _states(path: Path) -> Iterator[os.stat_result]:
    """That of a path, then of what is in it; another process may remove it meanwhile."""
    with suppress(OSError):
        yield path.lstat()
        if path.is_dir() and not path.is_symlink():
            for inside in path.rglob("*"):
                yield inside.lstat()
