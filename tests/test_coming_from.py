"""docs/coming-from.md is true: what it says one writes exists, and what it says is missing does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tcpx.payload.diagnostics import ParseError
from tcpx.transform.declaration import transforms
from tcpx.transform.language import parse_schedule, program_of_text
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, METHODS
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.tokens import HARD_KEYWORDS

PAGE = Path(__file__).parents[1] / "docs" / "coming-from.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and "| tcpx |" not in line
]
CODE = re.compile(r"`([^`]+)`")


def calls(node: object) -> Iterator[ast.Call]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


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


CALLED = re.compile(r"`[^`]*?(?:[\w()]+\.)?\b([a-z]\w+)\(")
ELSEWHERE = sorted(
    {name for row in ROWS for name in CALLED.findall(row[0]) if name not in (*transforms(), *FUNCTIONS, *METHODS)}
    | {name for row in ROWS for name in re.findall(r"`(?:structured|loop)\.(\w+)", row[0]) if name not in transforms()}
)
"""Names of other systems' steps in the first column."""


STATEMENTS = [f"{name}(mm)" for name in ELSEWHERE if name not in HARD_KEYWORDS] + [f"mm.{n}(i)" for n in ELSEWHERE]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_name_of_another_system_gets_its_hint(statement: str) -> None:
    body = f"let mm = match one matmul in root\n{statement}"
    text = f"language 1\nschedule s(root: func) {{\n{body}\n}}\n"
    try:
        found = next(d for d in check_program(program_of_text(text)) if d.is_error)
    except ParseError as error:
        found = error.diagnostic
    assert found.fix is not None, found.render()
