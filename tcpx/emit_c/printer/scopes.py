"""A C block under construction: its lines, and the C names of the sizes that are known in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from tcpx.emit_c.printer.names import words_of
from tcpx.payload.ir import Operation
from tcpx.payload.sizes import Dim, symbols, variables

INDENT = "  "
_LOCAL = re.compile(r"\s*const int64_t (\w+) = .*;")
_COMMENT = re.compile(r"/\*.*?\*/")
_WORDS = re.compile(r"\w+")


class Line(NamedTuple):
    """A line of C, and the operation it was printed for."""

    text: str
    op: Operation | None = None

    def indented(self) -> Line:
        return Line(INDENT + self.text, self.op)


_Inner = list["Line | _Inner"]
"""The lines of a block inside: indented when all lines are asked for, once for all blocks round it."""


class Scope:
    """One `{ .. }` of C. `names` maps the text of a size (a symbol, a loop variable, an expression) to its C name.

    A declaration asked for by an inner block while that block is being built lands before it, since the lines of the
    inner block are added when it is complete. `op` is the operation that is being printed.
    """

    __slots__ = ("_guard", "_guarded", "_lines", "names", "op", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.op: Operation | None = parent.op if parent is not None else None
        self.names: dict[str, str] = {}
        self._lines: list[Line | _Inner] = []
        self._guard = ""
        self._guarded: list[Line] = []

    def lookup(self, text: str) -> str | None:
        """The C name a size has here, or None."""
        scope: Scope | None = self
        while scope is not None and text not in scope.names:
            scope = scope.parent
        return scope.names[text] if scope is not None else None

    def sizes(self) -> set[str]:
        """The C names that sizes have here."""
        return {name for scope in self._outwards() for name in scope.names.values()}

    def home(self, dims: Iterable[Dim]) -> Scope | None:
        """The outermost block in which all these sizes can be computed; None if a name is not known at all."""
        chain = list(self._outwards())
        depth = len(chain) - 1
        for dim in dims:
            for atom in (*symbols(dim), *variables(dim)):
                found = next((k for k, scope in enumerate(chain) if atom.text in scope.names), None)
                if found is None:
                    return None
                depth = min(depth, found)
        return chain[depth]

    def declare(self, line: str) -> None:
        """Add a declaration without effects; it may go before statements that were added earlier."""
        self._lines.append(Line(line, self.op))

    def statement(self, line: str, guard: str = "") -> None:
        """Add a statement, run only where `guard` holds; statements in a row with one guard share an `if`."""
        if guard != self._guard:
            self._flush()
            self._guard = guard
        (self._guarded if guard else self._lines).append(Line(line, self.op))

    def statements(self, text: str) -> None:
        """Add the lines of a text."""
        for line in text.splitlines():
            self.statement(line)

    def block(self, header: str, inner: Scope | Sequence[str]) -> None:
        """Add a braced block; `header` is what stands before the brace, if anything."""
        self.statement(f"{header} {{".lstrip())
        self._close(inner.flushed() if isinstance(inner, Scope) else [Line(text, self.op) for text in inner], self.op)

    def extend_last_block(self, header: str, inner: Scope) -> None:
        """Continue the block that was added last, as in `} else {`."""
        self._lines[-1] = Line(f"}} {header} {{", self.op)
        self._close(inner.flushed(), self.op)

    def _close(self, inner: _Inner, op: Operation | None) -> None:
        self._lines += [inner, Line("}", op)]

    def flushed(self) -> _Inner:
        """All that was added so far."""
        self._flush()
        self._guard = ""
        return self._lines

    def lines(self) -> list[Line]:
        """All lines added so far."""
        made: list[Line] = []
        _indent(self.flushed(), "", made)
        return made

    def _flush(self) -> None:
        if self._guarded:
            op = self._guarded[0].op
            self._lines.append(Line(f"if ({self._guard}) {{", op))
            self._close([*self._guarded], op)
            self._guarded = []

    def _outwards(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent


def _indent(lines: _Inner, indent: str, made: list[Line]) -> None:
    """Append lines, and those of the blocks inside with more and more in front of them."""
    for line in lines:
        if isinstance(line, list):
            _indent(line, indent + INDENT, made)
        else:
            made.append(Line(indent + line.text, line.op) if indent else line)


def words_in(lines: Iterable[Line]) -> set[str]:
    """The identifiers in lines of C, without those in comments."""
    return words_of(_without_comments(line.text) for line in lines)


def _without_comments(text: str) -> str:
    return _COMMENT.sub("", text) if "/*" in text else text


def without_unused(lines: list[Line]) -> list[Line]:
    """The lines without named sizes that nothing reads."""
    words = [_WORDS.findall(_without_comments(line.text)) for line in lines]
    counts = Counter(chain.from_iterable(words))
    named = {k: m.group(1) for k, line in enumerate(lines) if (m := _LOCAL.fullmatch(line.text)) is not None}
    declared = Counter(named.values())  # more than once in a loop that is printed twice
    gone: set[int] = set()
    while unused := [k for k, name in named.items() if counts[name] <= declared[name]]:
        for k in unused:
            counts.subtract(words[k])
            del named[k]
            gone.add(k)
    return [line for k, line in enumerate(lines) if k not in gone]
