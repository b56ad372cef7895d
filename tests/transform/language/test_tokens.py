"""A newline or `;` ends a statement except where the page says that it does not."""

from __future__ import annotations

import pytest

from tcpx.transform.language import parse_schedule
from tcpx.transform.language import syntax as ast


def statements(body: str) -> tuple[ast.Statement, ...]:
    (_, sequence) = parse_schedule(f"language 1\nsequence f(x: op) {{\n{body}\n}}").items
    assert isinstance(sequence, ast.Sequence)
    return sequence.body.statements


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("f(a)\ng(b)", 2),
        ("f(a); g(b);", 2),
        ("f(a)\n\n\n;;\ng(b)\n", 2),
        ("f(a,\n  b\n)", 1),
        ("let l = [\n1,\n2,\n]", 1),
        ("let a = 1 +\n2", 1),
        ("let a =\n1", 1),
        ("let a = b\n  .copy(c)", 1),
        ("let a = b\nand c\nor d", 1),
        ("let a = match some op in x\nwhere scheduled", 1),
        ("if a { f(b) }\nelse { g(b) }", 1),
        ("if a {\n}\n\nelse {\n}\nf(a)", 2),
        ("let a = not\nb", 1),
        ("f(a) // comment\n// another\ng(b)", 2),
        ("let a = 1\r\nlet b = 2", 2),
        ("if a { f(b); g(b) }", 1),
    ],
)
def test_ends_of_statements(body: str, count: int) -> None:
    assert len(statements(body)) == count


def test_dots() -> None:
    (let, loop) = statements("let a = 1.5\nfor i in 1..6 { f(i) }")
    assert isinstance(let, ast.Let)
    assert isinstance(let.value, ast.Literal)
    assert let.value.value == 1.5
    assert isinstance(loop, ast.ForEach)
    assert isinstance(loop.items, ast.Range)


def test_keywords_are_names_where_nothing_else_is_meant() -> None:
    (one, two, three, four) = statements(
        "prefetch(x.for, for: write, in: pad)\nlet pad = 1\nlet as = any\nspecialize(x, to: contract)"
    )
    assert isinstance(one, ast.Do)
    assert [a.name for a in one.call.arguments] == ["", "for", "in"]
    assert isinstance(two, ast.Let)
    assert two.names == ("pad",)
    assert isinstance(three, ast.Let)
    assert isinstance(four, ast.Do)
