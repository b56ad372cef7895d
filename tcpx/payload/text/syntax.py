"""From text to a syntax tree: the lark parser, places in the source, and syntax errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Protocol

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from tcpx.payload.collector import collector_paused
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ParseError, either
from tcpx.payload.text.file import printable
from tcpx.payload.text.hints import syntax_habit
from tcpx.payload.text.tables import tables_file
from tcpx.records import frozen

Node = Tree[Token]

_WORDS = {
    "VALUE": "a value such as %x",
    "NAME": "a name",
    "FUNC_NAME": "a function name such as @main",
    "FUNCTION": "min, max, floordiv, ceildiv or mod",
    "FLOAT": "a float",
    "INT": "an integer",
    "STRING": "a string",
    "RELATION": "a comparison",
    "$END": "the end of the text",
}

_LOOPS = frozenset(("`gml_st.for`", "`gml_st.if`", "`gml_st.parallel`", "`gml_st.while`"))
_GROUPS = (
    (frozenset(("`combine`", "`filter`", "`full`", "`point`", "`tile`")), "a subset"),
    (_LOOPS | {_WORDS["NAME"], _WORDS["VALUE"]}, "the next statement"),
    (_LOOPS | {_WORDS["NAME"]}, "an operation such as tcp.add(%x, %y)"),
)
"""What is said of terminals that are expected together."""


@frozen
class Source:
    """A text and the name it goes by."""

    file: str
    lines: tuple[str, ...] = field(repr=False)

    @staticmethod
    def of(text: str, file: str) -> Source:
        return Source(file, tuple(text.split("\n")))

    def at(self, line: int, column: int, end_line: int = 0, end_column: int = 0) -> Location:
        """A span; lines and columns count from 1."""
        text = self.lines[line - 1].rstrip("\r") if 0 < line <= len(self.lines) else ""
        return Location(self.file, line, column, end_line, end_column, text)

    def location(self, node: Node | Token) -> Location:
        """The span of a piece of syntax; the first line for an empty one."""
        place = node if isinstance(node, Token) else node.meta
        if not isinstance(place, Token) and place.empty:
            return self.at(1, 1)
        return self.at(place.line or 1, place.column or 1, place.end_line or 0, place.end_column or 0)

    def error(
        self,
        node: Node | Token,
        message: str,
        required: str | None = None,
        found: str | None = None,
        fix: str | None = None,
    ) -> ParseError:
        """A located error about a piece of syntax; what was found is its text, if not given."""
        place = self.location(node)
        found = place.span if found is None else found
        return ParseError(Diagnostic(message, payload=place, required=required, found=found, fix=fix))


class _TextParser(Protocol):
    """The part of lark's interface that is used here."""

    def parse(self, text: str, start: str) -> Node: ...


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark")
    with collector_paused():
        return Lark(
            grammar.read_text(encoding="utf-8"),
            parser="lalr",
            start=["start", "dim"],
            propagate_positions=True,
            maybe_placeholders=False,
            cache=tables_file(grammar),
        )


def _text_parser() -> _TextParser:
    return _parser()


def parse_tree(text: str, source: Source, start: str = "start") -> Node:
    """The syntax tree of a payload text, or of what else the grammar may `start` with; a `ParseError` says what was
    expected where."""
    try:
        return _text_parser().parse(text, start)
    except UnexpectedInput as error:
        raise _syntax_error(error, source) from None


def _syntax_error(error: UnexpectedInput, source: Source) -> ParseError:
    last_line = len(source.lines)
    place = source.at(last_line, len(source.lines[-1]) + 1)
    expected: set[str] = set()
    found = "the end of the text"
    fix: str | None = None
    match error:
        case UnexpectedToken(token=Token() as token):
            expected = set(error.accepts or error.expected)
            if token.type != "$END":
                place, found = source.location(token), f"`{token}`"
            if token == "language" and "FUNC_NAME" not in expected:
                fix = Direction("this looks like a schedule: give it with -s, or call it .tcps")
        case UnexpectedCharacters():
            expected = set(error.allowed or ())
            place = source.at(error.line, error.column, error.line, error.column + 1)
            found = printable(source.lines[error.line - 1][error.column - 1])
        case _:
            pass
    message, required = "the text does not follow the grammar", _in_words(expected)
    habit = syntax_habit(place.text, place.column, source.at(place.line - 1, 1).text) if fix is None else None
    if habit is not None:
        message, required, fix = habit.message or message, habit.required or required, habit.fix
        if habit.start is not None and habit.end is not None:
            place = source.at(place.line - habit.start[0], habit.start[1], place.line - habit.end[0], habit.end[1])
            found = f"`{place.span}`"
    return ParseError(Diagnostic(message, payload=place, required=required, found=found, fix=fix))


def _in_words(terminals: set[str]) -> str:
    words: set[str] = set()
    for name in terminals:
        known = _WORDS.get(name)
        if known is None:
            pattern = _parser().get_terminal(name).pattern
            known = f"`{pattern.value}`" if isinstance(pattern, PatternStr) else name.lower()
        words.add(known)
    for group, name in _GROUPS:
        if words >= group:
            words = words - group | {name}
    return either(sorted(words, key=lambda word: (word.startswith("`"), word)))


def nodes(tree: Node) -> list[Node]:
    """The children that are trees."""
    return [c for c in tree.children if isinstance(c, Tree)]


def tokens(tree: Node) -> list[Token]:
    """The children that are tokens."""
    return [c for c in tree.children if isinstance(c, Token)]


def child(tree: Node, rule: str) -> Node | None:
    """The child of this rule, if there is one."""
    return next((c for c in nodes(tree) if c.data == rule), None)


def children(tree: Node, *rules: str) -> Iterator[Node]:
    """The children of these rules, in order."""
    return (c for c in nodes(tree) if c.data in rules)
