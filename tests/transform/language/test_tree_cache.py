"""Trees of the library are kept with the bytecode, and are those that reading the text gives."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tcpx.installed import LIBRARY
from tcpx.transform.language import syntax as ast
from tcpx.transform.language import tree_cache
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.tree_cache import cached_tree

FILE = LIBRARY / "lib" / "gemv.tcps"


class Reader:
    """Reads schedules, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, text: str, path: str) -> ast.File:
        self.times += 1
        return parse_schedule(text, path)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """With a folder for bytecode that is empty."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return Reader()


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("file", sorted(LIBRARY.rglob("*.tcps")), ids=lambda file: file.stem)
def test_it_is_the_tree_of_the_text(file: Path, read: Reader) -> None:
    text = file.read_text(encoding="utf-8")
    first, second = (cached_tree(text, str(file), read) for _ in range(2))
    assert read.times == 1
    assert first == second
    places = [[node.location for node in ast.walk(tree.items)] for tree in (first, second)]
    assert places[0] == places[1]
    assert repr(first) == repr(second)


def test_another_text_is_read(read: Reader) -> None:
    text = FILE.read_text(encoding="utf-8")
    cached_tree(text, str(FILE), read)
    assert len(cached_tree(f"{text}\nsequence more(x: op) {{ vectorize(x) }}\n", str(FILE), read).items) > 1
    cached_tree(text, str(FILE), read)
    assert read.times == 3


def test_after_a_change_of_the_code_it_is_read(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILE.read_text(encoding="utf-8")
    cached_tree(text, str(FILE), read)
    monkeypatch.setattr(tree_cache, "_code", lambda: "of tomorrow")
    cached_tree(text, str(FILE), read)
    assert read.times == 2


@pytest.mark.parametrize("size", [0, 10, 1000])
def test_what_was_cut_short_is_read(read: Reader, tmp_path: Path, size: int) -> None:
    text = FILE.read_text(encoding="utf-8")
    cached_tree(text, str(FILE), read)
    (place,) = kept(tmp_path)
    place.write_bytes(place.read_bytes()[:size])
    assert cached_tree(text, str(FILE), read) == parse_schedule(text, str(FILE))
    assert read.times == 2


def test_files_of_users_are_read(read: Reader, tmp_path: Path) -> None:
    for _ in range(2):
        cached_tree("language 1\n", str(tmp_path / "mine.tcps"), read)
    assert read.times == 2
    assert not kept(tmp_path)


def test_nothing_is_kept_where_python_keeps_no_bytecode(
    read: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for _ in range(2):
        cached_tree(FILE.read_text(encoding="utf-8"), str(FILE), read)
    assert read.times == 2
    assert not kept(tmp_path)


def test_a_place_that_cannot_be_written(tmp_path: Path, read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "file"))
    for _ in range(2):
        assert cached_tree(FILE.read_text(encoding="utf-8"), str(FILE), read).items
    assert read.times == 2
