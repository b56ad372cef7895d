"""Comments and docs find the statement they belong to: `///` behind it or before it, `//` likewise."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.transform.language.syntax import Trivia
from tcpx.transform.language.tokens import Comment

Position = tuple[int, int]
"""Line and column, from 1."""
END: Position = (1 << 30, 0)


class TriviaPool:
    """The comments of a text in order. Nodes take theirs in the order of the text, parents before children."""

    def __init__(self, comments: Sequence[Comment], lines: Sequence[str]) -> None:
        self._left = list(comments)
        self._lines = lines

    def take(self, start: Position, header_end: Position, following: Position = END) -> Trivia:
        """The trivia of a statement from `start` to `header_end`; `following` is where the next code starts."""
        docs: list[str] = []
        before: list[str] = []
        behind: list[str] = []
        rest: list[Comment] = []
        for comment in self._left:
            place = (comment.line, comment.column)
            if place < header_end:
                (docs if comment.is_doc else before).append(comment.text)
            elif place < following and comment.line == header_end[0] and not comment.own_line:
                (docs if comment.is_doc else behind).append(comment.text)
            else:
                rest.append(comment)
        first = min([start[0], *(c.line for c in self._left if (c.line, c.column) < start)])
        self._left = rest
        blank = first >= 2 and not self._lines[first - 2].strip()
        return Trivia("\n".join(docs), tuple(before), " ".join(behind), blank)

    def rest_before(self, place: Position) -> tuple[Comment, ...]:
        """Comments in front of `place` that no statement took: those at the end of a block."""
        taken = [c for c in self._left if (c.line, c.column) < place]
        self._left = [c for c in self._left if (c.line, c.column) >= place]
        return tuple(taken)


def merged(first: Trivia, second: Trivia) -> Trivia:
    """The trivia of a header that was taken in two parts."""
    doc = "\n".join(d for d in (first.doc, second.doc) if d)
    behind = " ".join(b for b in (first.behind, second.behind) if b)
    return Trivia(doc, first.before + second.before, behind, first.blank_line)
