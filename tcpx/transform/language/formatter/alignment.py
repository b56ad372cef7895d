"""Columns: comments behind the code of a paragraph, and what its author had aligned."""

from collections.abc import Sequence
from itertools import groupby

from tcpx.records import frozen

WIDTH = 120
GAP = "  "
"""Between code and the comment behind it."""


@frozen
class Mark:
    """A place in a line that may be put into a column with those of the same kind; `kept` if the author did."""

    kind: str
    at: int
    kept: bool


@frozen
class Line:
    """A line of output, indentation included. An own-line comment is `text` without code."""

    text: str
    behind: str = ""
    mark: Mark | None = None
    is_code: bool = True

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def aligned(lines: Sequence[Line]) -> list[str]:
    """The lines as text; a paragraph is what stands between empty lines, comment lines and changes of indentation."""
    found: list[str] = []
    for (is_code, _), group in groupby(lines, key=lambda line: (line.is_code and bool(line.text), line.indent)):
        paragraph = list(group)
        found += _comments(_columns(paragraph)) if is_code else [line.text for line in paragraph]
    return found


def _columns(paragraph: list[Line]) -> list[Line]:
    """With marks of one kind in one column, where one was and no line gets too long."""
    for kind in sorted({line.mark.kind for line in paragraph if line.mark is not None}):
        marks = [line.mark for line in paragraph if line.mark is not None and line.mark.kind == kind]
        column = max(mark.at for mark in marks)
        moved = [_moved(line, kind, column) for line in paragraph]
        if any(mark.kept for mark in marks) and all(len(line.text) <= WIDTH for line in moved):
            paragraph = moved
    return paragraph


def _moved(line: Line, kind: str, column: int) -> Line:
    if line.mark is None or line.mark.kind != kind:
        return line
    at = line.mark.at
    return Line(line.text[:at] + " " * (column - at) + line.text[at:], line.behind)


def _comments(paragraph: list[Line]) -> list[str]:
    """With comments in one column, except behind code that is too long for it."""
    behind = [line for line in paragraph if line.behind]
    ends = sorted((len(line.text) for line in behind), reverse=True)
    fits = (
        end
        for end in ends
        if all(end + len(GAP) + len(line.behind) <= WIDTH for line in behind if len(line.text) <= end)
    )
    column = next(fits, 0)
    return [f"{line.text:<{column}}{GAP}{line.behind}" if line.behind else line.text for line in paragraph]
