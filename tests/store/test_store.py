"""The limit of the cache: what is counted, what goes first, and what is never touched."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcpx.payload.diagnostics import CompileError
from tcpx.store.files import read_sealed
from tcpx.store.files_read import stamp
from tcpx.store.keys import key_of
from tcpx.store.store import COMPILED, DEFAULT_LIMIT, RUNS, cache_entries, cache_limit, keep_to_limit

KEY = "0123456789abcdef0123456789abcdef"
LONG_AGO = time.time() - 100_000


def aged(path: Path, size: int, age: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (LONG_AGO - age, LONG_AGO - age))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A library with its source, two kernels, a note, what an ended process left, and files of somebody else."""
    aged(tmp_path / "compiled" / KEY / "f.so", 1000, 0)
    aged(tmp_path / "compiled" / KEY / "f.c", 100, 0)
    for digit in "12":
        aged(tmp_path / "kernels" / (digit * 32) / "f.c", 500, 0)
    aged(tmp_path / "runs" / ("a" * 32) / "note", 10, 0)
    aged(tmp_path / "compiled" / "scratch-abc_1234" / "g.so", 7, 0)
    for name in ("notes.txt", "machine.json", "kernels/mine/file", "f.so"):
        aged(tmp_path / name, 10_000, 1000)
    for folder, age in (
        (f"compiled/{KEY}", 50),
        (f"kernels/{'1' * 32}", 20),
        (f"kernels/{'2' * 32}", 10),
        (f"runs/{'a' * 32}", 30),
        ("compiled/scratch-abc_1234", 0),
    ):
        os.utime(tmp_path / folder, (LONG_AGO - age, LONG_AGO - age))
    return tmp_path


def held(cache: Path) -> list[str]:
    return sorted(entry.path.name for entry in cache_entries(cache))


def test_entries_are_what_tcpx_wrote(cache: Path) -> None:
    counts = Counter(entry.store.folder for entry in cache_entries(cache))
    assert counts == {"compiled": 1, "kernels": 2, "runs": 1, "": 1}
    (compiled,) = (entry for entry in cache_entries(cache) if entry.store is COMPILED)
    assert compiled.bytes == 1100 + (cache / "compiled" / KEY).stat().st_size
    assert cache_entries(cache / "absent") == []


def test_what_was_used_least_recently_goes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = cache / "kernels" / ("3" * 32)
    aged(new / "f.c", 500, 0)
    folder = new.stat().st_size
    monkeypatch.setenv("TCPX_CACHE_LIMIT", str(3 * (500 + folder) + (10 + folder) + (7 + folder)))
    keep_to_limit(cache, new)
    assert held(cache) == ["1" * 32, "2" * 32, "3" * 32, "a" * 32], "the library is the oldest; the rest of a process"
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    keep_to_limit(cache, new)
    assert held(cache) == ["3" * 32]
    assert all((cache / name).is_file() for name in ("notes.txt", "machine.json", "kernels/mine/file", "f.so"))


def test_what_a_compiler_may_read_now_stays(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    os.utime(cache / "compiled" / KEY)
    scratch = cache / "compiled" / "scratch-abcdefgh"
    scratch.mkdir()
    keep_to_limit(cache)
    assert held(cache) == [KEY, scratch.name]


def test_what_versions_before_left_counts_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    key = KEY[:24]
    for name in (f"f-{key}.so", f"f-{key}.c", f"headers-{key}.h.gch", f"f-{key}-abc_1234/f.so", f"runs/{KEY}"):
        aged(tmp_path / name, 100, 0)
    os.utime(tmp_path / f"f-{key}-abc_1234", (LONG_AGO, LONG_AGO))
    assert list(RUNS.found(KEY)) == []
    assert len(cache_entries(tmp_path)) == 5
    assert sum(entry.bytes for entry in cache_entries(tmp_path)) >= 500
    monkeypatch.setenv("TCPX_CACHE_LIMIT", "1")
    keep_to_limit(tmp_path)
    assert cache_entries(tmp_path) == []


def test_a_file_of_another_key_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    entry = COMPILED.put(KEY, {"f.c": b"text"}, {"f.so": b"library"})
    assert COMPILED.intact(KEY, "f.so") == entry / "f.so"
    assert read_sealed(entry / "f.so", KEY) == b"library"
    other = KEY[::-1]
    entry.rename(entry.with_name(other))
    assert COMPILED.intact(KEY, "f.so") is None
    assert COMPILED.intact(other, "f.so") is None
    assert COMPILED.put(other, {}, {"f.so": b"other"}).name == other
    assert COMPILED.intact(other, "f.so") == entry.with_name(other) / "f.so"


def test_looking_says_that_an_entry_is_used_and_touches_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    entry = COMPILED.put(KEY, {}, {"f.so": b"library"})
    os.utime(entry, (1000, 1000))
    before = stamp((entry / "f.so").stat())
    assert COMPILED.intact(KEY, "f.so") is not None
    assert entry.stat().st_mtime > 1000
    assert stamp((entry / "f.so").stat()) == before


def test_threads_that_write_an_entry_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks meanwhile finds nothing, or all of it."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    content = bytes(100_000)

    def write(_: int) -> bool:
        entry = RUNS.put(KEY, {}, {"note": content})
        return read_sealed(entry / "note", KEY) == content

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(write, range(64)))
    assert [path.name for path in (tmp_path / "runs" / KEY).iterdir()] == ["note"]


def test_keys_tell_words_from_one_another() -> None:
    words = [("ab", "c"), ("a", "bc"), ("abc",), (b"ab", "d"), (("ab", "c"),), ("ab", "c", ())]
    assert len({key_of(*each) for each in words}) == len(words)
    assert key_of("\udcff") != key_of("\udcfe"), "a name of a file that is no text"


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
