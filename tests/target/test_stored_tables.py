"""Tables of targets are stored with the bytecode, and are those that reading the YAML gives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tcpx.installed import TABLES
from tcpx.target import table
from tcpx.target.table import read_table

TABLE = TABLES / "sapphire_rapids.yaml"


@pytest.fixture
def parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The documents that are parsed, with a folder for bytecode that is empty."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    documents: list[object] = []
    parse: Any = table._checked_document

    def counted(loader: object) -> object:
        documents.append(parse(loader))
        return documents[-1]

    monkeypatch.setattr(table, "_checked_document", counted)
    return documents


@pytest.mark.parametrize("path", sorted(TABLES.rglob("*.yaml")), ids=lambda path: path.stem)
def test_it_is_the_document_of_the_file(path: Path, parsed: list[object]) -> None:
    first, second = read_table(path), read_table(path)
    assert len(parsed) == 1
    assert first == second
    assert second.value == yaml.safe_load(path.read_text(encoding="utf-8"))


def test_another_text_is_parsed(parsed: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "TABLES", tmp_path)
    file = tmp_path / TABLE.name
    for vectors in (8, 16, 8):
        file.write_text(f"vector_registers: {vectors}\n", encoding="utf-8")
        assert read_table(file).fields()["vector_registers"].number() == vectors
    assert len(parsed) == 3


@pytest.mark.parametrize("cut", [0, 70, -1])
def test_what_was_cut_short_is_parsed(parsed: list[object], tmp_path: Path, cut: int) -> None:
    whole = read_table(TABLE)
    (place,) = (path for path in tmp_path.rglob("*") if path.is_file())
    place.write_bytes(place.read_bytes()[:cut])
    assert read_table(TABLE) == whole
    assert len(parsed) == 2


def test_tables_of_users_are_parsed(parsed: list[object], tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine\nsince: 2026-11-28\n", encoding="utf-8")
    assert read_table(mine) == read_table(mine)
    assert len(parsed) == 2
    assert not (tmp_path / "bytecode").exists()
