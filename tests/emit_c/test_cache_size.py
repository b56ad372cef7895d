"""The limit of the cache: what is counted, what goes first, and what is never touched."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tcpx.emit_c.cache_size import DEFAULT_LIMIT, EntryKind, cache_entries, cache_limit, keep_to_limit
from tcpx.payload.diagnostics import CompileError

KEY = "0123456789abcdef01234567"
LONG_AGO = time.time() - 100_000


def aged(path: Path, size: int, age: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (LONG_AGO - age, LONG_AGO - age))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A library with its source, two kernels, a note, what an ended process left, and files of somebody else."""
    aged(tmp_path / f"f-{KEY}.so", 1000, 50)
    aged(tmp_path / f"f-{KEY}.c", 100, 60)
    for digit, age in (("1", 20.0), ("2", 10.0)):
        aged(tmp_path / "kernels" / (digit * 32) / "f.c", 500, 0)
        os.utime(tmp_path / "kernels" / (digit * 32), (LONG_AGO - age, LONG_AGO - age))
    aged(tmp_path / "runs" / ("a" * 32), 10, 30)
    (aged(tmp_path / f"g-{KEY}-abc_1234" / "g.so", 7, 0)).parent.touch()
    os.utime(tmp_path / f"g-{KEY}-abc_1234", (LONG_AGO, LONG_AGO))
    for name in ("notes.txt", "machine.json", "kernels/mine/file", "f.so"):
        aged(tmp_path / name, 10_000, 1000)
    return tmp_path


def held(cache: Path) -> list[str]:
    return sorted(path.name for entry in cache_entries(cache) for path in entry.paths)


def test_entries_are_what_tcpx_wrote(cache: Path) -> None:
    counts = {kind: sum(entry.kind is kind for entry in cache_entries(cache)) for kind in EntryKind}
    assert counts == {EntryKind.COMPILED: 1, EntryKind.KERNEL: 2, EntryKind.RUN: 1, EntryKind.LEFT: 1}
    (compiled,) = (entry for entry in cache_entries(cache) if entry.kind is EntryKind.COMPILED)
    assert compiled.bytes == 1100
    assert cache_entries(cache / "absent") == []


def test_what_was_used_least_recently_goes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = cache / "kernels" / ("3" * 32)
    aged(new / "f.c", 500, 0)
    folder = new.stat().st_size
    monkeypatch.setenv("TCPX_CACHE_LIMIT", str(3 * (500 + folder) + 10 + (7 + folder)))
    keep_to_limit(cache, new)
    assert held(cache) == ["1" * 32, "2" * 32, "3" * 32, "a" * 32], "the library is the oldest; the rest of a process"
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    keep_to_limit(cache, new)
    assert held(cache) == ["3" * 32]
    assert all((cache / name).is_file() for name in ("notes.txt", "machine.json", "kernels/mine/file", "f.so"))


def test_what_a_compiler_may_read_now_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    os.utime(cache / f"f-{KEY}.so")
    scratch = cache / f"h-{KEY}-abcdefgh"
    scratch.mkdir()
    keep_to_limit(cache, cache / "written")
    assert held(cache) == [f"f-{KEY}.c", f"f-{KEY}.so", scratch.name]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", DEFAULT_LIMIT),
        ("0", 0),
        ("500M", 500 << 20),
        ("2GiB", 2 << 30),
        ("1.5 k", 1536),
        ("10B", 10),
        ("1T", 1 << 40),
    ],
)
def test_the_limit(text: str, wanted: int) -> None:
    assert cache_limit({"TCPX_CACHE_LIMIT": text}) == wanted
    assert DEFAULT_LIMIT == 1 << 30


def test_a_limit_that_is_none() -> None:
    with pytest.raises(CompileError) as raised:
        cache_limit({"TCPX_CACHE_LIMIT": "-3"})
    assert raised.value.diagnostic.render() == (
        "definite error: the limit of the cache is no size\n"
        "  required: a number of bytes in $TCPX_CACHE_LIMIT, with K, M, G or T for units of 1024\n"
        "  found: -3\n"
        "  fix: write TCPX_CACHE_LIMIT=2G"
    )
