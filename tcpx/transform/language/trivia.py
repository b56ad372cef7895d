"""Docs find the statement they belong to: a `///` behind it on its line, or one in front of it."""

from collections.abc import Sequence

from tcpx.transform.language.tokens import Comment

Position = tuple[int, int]
"""Line and column, from 1."""
END: Position = (1 << 30, 0)


class DocPool:
    """The docs of a text in order. Nodes take theirs in the order of the text, parents before children.

    What a doc belongs to depends on the tokens it stands between and on whether it begins its line, so that it does
    not change when lines are broken elsewhere.
    """

    def __init__(self, comments: Sequence[Comment]) -> None:
        self._left = [c for c in comments if c.is_doc]

    def before(self, end: Position) -> str:
        """Takes the docs in front of `end`."""
        return self._take([c for c in self._left if (c.line, c.column) < end])

    def behind(self, end: Position, following: Position) -> str:
        """Takes the docs behind code that ends at `end`, on its line; the next code starts at `following`."""
        return self._take([c for c in self._left if not c.own_line and end <= (c.line, c.column) < following])

    def first_before(self, place: Position) -> Comment | None:
        """The first doc in front of `place` that nothing took."""
        return next((c for c in self._left if (c.line, c.column) < place), None)

    def _take(self, taken: list[Comment]) -> str:
        self._left = [c for c in self._left if c not in taken]
        return "\n".join(c.text for c in taken)


def joined(*docs: str) -> str:
    """Docs from several places, one behind the other."""
    return "\n".join(doc for doc in docs if doc)
