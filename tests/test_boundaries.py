"""Emission and targets know loops, vectors and buffers; they name no operation of the payload."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tcpx

ROOT = Path(__file__).parents[1] / "tcpx"
STRUCTURE = {"tcp.const", "tcp.return", "tcp.yield"}
"""Operations every level has: a named constant, the ends of functions and branches."""
PLAIN = {("kernels.py", "contract")}
"""Words that mean something else in a file: what a function of a library requires."""
KINDS = {"dot"}
"""Words that are kinds of rows: sums of products of neighbours."""
FILES = sorted(p for folder in ("emit_c", "target") for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".yaml"))


def test_there_are_files_to_look_at() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_payload_operation_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for opcode, cls in tcpx.ops().items():
        if not opcode.startswith("tcp.") or opcode in STRUCTURE:
            continue
        assert opcode not in text, f"{path} names {opcode}"
        if {"contract", "reduce", "composite"} & {base.__dict__.get("class_name") for base in cls.__mro__}:
            word = opcode.split(".")[1]  # the rest are plain words, or functions on lanes that rows speak of
            is_plain = word in KINDS or (path.name, word) in PLAIN
            assert is_plain or not re.search(rf"(?<!-)\b{word}\b", text), f"{path} names {opcode}"
