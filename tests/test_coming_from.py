"""docs/coming-from.md is true: what it says one writes exists, and what it says is missing does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from tcpx.transform.declaration import transforms
from tcpx.transform.language import parse_schedule
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, METHODS

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "| tcpx |" not in line
]
CODE = re.compile(r"`([^`]+)`")


def calls(node: object) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call):
        yield node
    if isinstance(node, tuple):
        for item in node:
            yield from calls(item)
    elif is_dataclass(node):
        for field in fields(node):
            yield from calls(getattr(node, field.name))


def parsed(code: str) -> ast.File:
    """A statement, an item, or an expression that is none."""
    if code.startswith(("sequence ", "view ")):
        return parse_schedule(f"language 1\n{code}")
    is_query = code.startswith(("producer(", "users(", "parent("))
    return parse_schedule(f"language 1\nschedule s(root: func) {{ {'let it_is = ' if is_query else ''}{code} }}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_row(row: list[str]) -> None:
    assert len(row) == 3, "`|` stands in a cell"
    if row[1].startswith("none"):
        assert not [name for name in CODE.findall(row[1]) if name in transforms()], "it is there now"
        return
    for code in CODE.findall(row[1]):
        for call in calls(parsed(code)):
            if isinstance(call.function, ast.Attribute):
                assert call.function.name in METHODS
                continue
            assert isinstance(call.function, ast.Name)
            name = call.function.name
            transform = transforms().get(name)
            assert transform is not None or name in FUNCTIONS, name
            if transform is not None:
                named = {argument.name for argument in call.arguments if argument.name}
                assert named <= {p.name for p in transform.parameters}


def test_there_are_four_tables() -> None:
    assert PAGE.read_text(encoding="utf-8").count("| tcpx |") == 4
    assert len(ROWS) > 60
