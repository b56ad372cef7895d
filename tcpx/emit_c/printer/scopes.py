"""A C block under construction: its lines, and the C names of the sizes that are known in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tcpx.payload.sizes import Dim, symbols, variables

INDENT = "  "


class Scope:
    """One `{ .. }` of C. `names` maps the text of a size (a symbol, a loop variable, an expression) to its C name.

    A declaration asked for by an inner block while that block is being built lands before it, since the lines of the
    inner block are added when it is complete.
    """

    __slots__ = ("_guard", "_guarded", "_lines", "names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.names: dict[str, str] = {}
        self._lines: list[str] = []
        self._guard = ""
        self._guarded: list[str] = []

    def lookup(self, text: str) -> str | None:
        """The C name a size has here, or None."""
        return next((scope.names[text] for scope in self._outwards() if text in scope.names), None)

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
        self._lines.append(line)

    def statement(self, line: str, guard: str = "") -> None:
        """Add a statement, run only where `guard` holds; statements in a row with one guard share an `if`."""
        if guard != self._guard:
            self._flush()
            self._guard = guard
        if guard:
            self._guarded.append(line)
        else:
            self._lines.append(line)

    def block(self, header: str, inner: Scope | Sequence[str]) -> None:
        """Add a braced block; `header` is what stands before the brace, if anything."""
        self.statement(f"{header} {{".lstrip())
        self._lines += [INDENT + line for line in (inner.lines() if isinstance(inner, Scope) else inner)]
        self._lines.append("}")

    def extend_last_block(self, header: str, inner: Scope) -> None:
        """Continue the block that was added last, as in `} else {`."""
        self._lines[-1] = f"}} {header} {{"
        self._lines += [INDENT + line for line in inner.lines()]
        self._lines.append("}")

    def lines(self) -> list[str]:
        """All lines added so far."""
        self._flush()
        self._guard = ""
        return self._lines

    def _flush(self) -> None:
        if self._guarded:
            self._lines += [f"if ({self._guard}) {{", *(INDENT + line for line in self._guarded), "}"]
            self._guarded = []

    def _outwards(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent
