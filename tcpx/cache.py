"""The cache of compiled kernels, as its user sees it: what is in it, and how to empty it."""

from collections.abc import Mapping
from pathlib import Path

from tcpx.records import brief, frozen
from tcpx.store.files import remove
from tcpx.store.place import build_directories
from tcpx.store.store import COMPILED, KERNELS, LEFT, RUNS, cache_entries, cache_limit

__all__ = ["CacheInfo", "CachePart", "cache_info", "clear_cache"]


@frozen
class CachePart:
    """The entries of one kind, and their bytes."""

    entries: int
    bytes: int


@frozen
class CacheInfo:
    """What the directories of the cache hold, by kind of entry; `limit` is in bytes."""

    directories: tuple[Path, ...]
    limit: int
    parts: Mapping[str, CachePart]

    def __repr__(self) -> str:
        return brief("CacheInfo", f"{size_text(self.bytes)} of {size_text(self.limit)} in", *self.directories)

    @property
    def bytes(self) -> int:
        """Those of all entries."""
        return sum(part.bytes for part in self.parts.values())

    def __str__(self) -> str:
        lines = [str(directory) for directory in self.directories]
        lines += [f"  {kind}: {part.entries}, {size_text(part.bytes)}" for kind, part in self.parts.items()]
        return "\n".join([*lines, f"  {size_text(self.bytes)} of at most {size_text(self.limit)}"])


def cache_info() -> CacheInfo:
    """What the cache holds. Raises CompileError where there is no place for one, or $TCPX_CACHE_LIMIT is no size."""
    directories = tuple(build_directories())
    entries = [entry for directory in directories for entry in cache_entries(directory)]
    parts = {
        store.title: CachePart(len(held), sum(entry.bytes for entry in held))
        for store in (COMPILED, KERNELS, RUNS, LEFT)
        if (held := [entry for entry in entries if entry.store is store])
    }
    return CacheInfo(directories, cache_limit(), parts)


def clear_cache() -> CacheInfo:
    """Remove all that tcpx put into the cache, and nothing else; returns what there was. Kernels in use go on. Raises
    CompileError."""
    found = cache_info()
    for directory in found.directories:
        for entry in cache_entries(directory):
            remove(entry.path)
    return found


def size_text(count: int) -> str:
    """Bytes in the largest unit of which there is one."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f} {unit}"
    return f"{count} bytes"
