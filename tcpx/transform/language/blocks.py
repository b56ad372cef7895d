"""Which block of a text is not closed: the one that its indentation shows, or the innermost that is open."""

from collections.abc import Sequence
from dataclasses import dataclass

from lark import Token

from tcpx.payload.diagnostics import Diagnostic
from tcpx.transform.language.source import Source

_ENDS = frozenset(("_NL", "LBRACE", "RBRACE"))
_ITEMS = frozenset("IMPORT FUNCTION MATCHER VIEW SEQUENCE SCHEDULE".split())


@dataclass(slots=True)
class _Block:
    """An open brace, the indentation of the statement it belongs to, and that of the first statement in it."""

    brace: Token
    outside: int
    inside: int | None = None

    def ends_before(self, token: Token, indent: int) -> bool:
        """Whether what begins a line here is outside of the block by its indentation."""
        if token.line == self.brace.line:
            return False
        if self.inside is None:
            self.inside = indent
        is_end = token.type in ("RBRACE", "ELSE")
        return indent < self.outside or (indent == self.outside < self.inside and not is_end)


def unclosed_block(source: Source, token: Token, before: Sequence[Token]) -> Diagnostic | None:
    """What is wrong where the text ends, or declares something, within a block that its layout does not go on with."""
    if token.type != "$END" and token.type not in _ITEMS:
        return None
    opened: list[_Block] = []
    previous, outside = "_NL", 0
    for one in [*before, token]:
        line = one.line or 1
        begins = previous in _ENDS and one.type not in ("_NL", "$END")
        if begins and (not opened or line != opened[-1].brace.line):
            outside = _indent(source, line)
        if opened and (begins or one.type == "RBRACE") and opened[-1].ends_before(one, _indent(source, line)):
            return _not_closed(source, opened[-1].brace, f"`{one}` at line {line}, outside of it by its indentation")
        if one.type == "LBRACE":
            opened.append(_Block(one, outside))
        elif one.type == "RBRACE" and opened:
            opened.pop()
        previous = one.type
    if token.type == "$END" and opened:
        return _not_closed(source, opened[-1].brace, "the end of the file")
    return None


def _not_closed(source: Source, brace: Token, found: str) -> Diagnostic:
    return Diagnostic("`{` is not closed", schedule=source.of_token(brace), required="`}`", found=found)


def _indent(source: Source, line: int) -> int:
    text = source.lines[line - 1].expandtabs(8)
    return len(text) - len(text.lstrip())
