"""Tokens and comments -> statements, blocks and brackets: as much of the syntax as laying it out takes."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

from tcpx.limits import DEEPEST_BRACKETS
from tcpx.payload.diagnostics import Diagnostic, ParseError
from tcpx.records import frozen
from tcpx.transform.language.parser import ParsedText
from tcpx.transform.language.source import Source
from tcpx.transform.language.tokens import Comment

_CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_OPERANDS = frozenset("NAME INT FLOAT STRING RPAR RSQB TRUE FALSE".split())


@frozen
class Remark:
    """A comment or doc, slashes included; `own_line` if it begins its line, `spaced` if an empty line is before it."""

    text: str
    own_line: bool
    spaced: bool


@frozen
class Leaf:
    """One token of a statement, with the comments in front of it."""

    text: str
    kind: str
    remarks: tuple[Remark, ...] = ()
    space: bool = True
    """Whether a blank separates it from the token before."""
    padded: bool = False
    """Whether the author left more than one blank."""


@frozen
class Group:
    """`( .. )`, `[ .. ]` or `{ .. }` round equations; each item ends with its comma."""

    open: Leaf
    items: tuple[tuple[Element, ...], ...]
    close: Leaf


Element = Leaf | Group


@frozen
class Block:
    """`{ .. }`; `behind` stands directly behind the opening brace, `one_line` is how the author wrote it."""

    open: Leaf
    behind: Remark | None
    body: tuple[Statement | Remark, ...]
    one_line: bool


@frozen
class Part:
    """A head and the block it governs: `if c { .. }`, then `else { .. }`. Without a block: the last part."""

    head: tuple[Element, ...]
    block: Block | None = None


@frozen
class Statement:
    """A statement, arm or item; `behind` is the comment behind it, `spaced` an empty line before it."""

    parts: tuple[Part, ...]
    behind: Remark | None
    spaced: bool

    @property
    def is_simple(self) -> bool:
        return len(self.parts) == 1 and self.parts[0].block is None


class StructureReader:
    """Reads one text that parses."""

    def __init__(self, source: Source, parsed: ParsedText) -> None:
        self.source = source
        self.lines = source.lines
        self.tokens = list(parsed.tokens)
        self.comments = list(parsed.comments)
        types = [(t.meta.start_pos, t.meta.end_pos) for t in parsed.tree.find_data("type")]
        self.type_brackets = {
            token.start_pos
            for token in parsed.tokens
            if token.type in ("LESSTHAN", "MORETHAN") and any(a <= (token.start_pos or 0) < b for a, b in types)
        }
        self.position = 0
        self.previous: Token | None = None

    def file(self) -> tuple[Statement | Remark, ...]:
        return tuple(self._body(in_case=False))

    # -- statements --------------------------------------------------------------------------------------------------

    def _body(self, in_case: bool) -> Iterator[Statement | Remark]:
        """Up to the closing brace or the end."""
        while True:
            while self._kind() == "_NL":
                self.position += 1
            yield from self._remarks()
            if self._kind() in ("", "RBRACE"):
                return
            yield self._statement(in_case)

    def _statement(self, in_case: bool) -> Statement:
        first = self.tokens[self.position]
        spaced = self._spaced(first.line or 0, first.column or 0)
        parts: list[Part] = []
        head: list[Element] = []
        while self._kind() not in ("", "_NL", "RBRACE"):
            is_pattern = self.previous is not None and self.previous.type == "CARDINALITY"
            if self._kind() != "LBRACE" or is_pattern or (in_case and not head):
                head.append(self._element())
                continue
            is_case = first.type == "CASE" or (first.type == "TUNE" and len(head) > 1)
            parts.append(Part(tuple(head), self._block(is_case)))
            head = []
            if in_case:
                break
        if head:
            parts.append(Part(tuple(head)))
        return Statement(tuple(parts), self._remark_behind(), spaced)

    def _block(self, is_case: bool) -> Block:
        first = self.tokens[self.position].line
        opening = self._leaf()
        behind = self._remark_behind()
        body = tuple(self._body(in_case=is_case))
        last = self.tokens[self.position].line
        self._leaf()
        return Block(opening, behind, body, one_line=first == last)

    # -- expressions -------------------------------------------------------------------------------------------------

    def _element(self, depth: int = 0) -> Element:
        if self._kind() not in _CLOSING:
            return self._leaf()
        if depth >= DEEPEST_BRACKETS:
            raise self._too_deep(depth)
        closing = _CLOSING[self._kind()]
        opening = self._leaf()
        items: list[tuple[Element, ...]] = []
        item: list[Element] = []
        while self._kind() != closing:
            element = self._element(depth + 1)
            item.append(element)
            if isinstance(element, Leaf) and element.kind == "COMMA":
                items.append(tuple(item))
                item = []
        if item:
            items.append(tuple(item))
        return Group(opening, tuple(items), self._leaf())

    def _too_deep(self, depth: int) -> ParseError:
        return ParseError(
            Diagnostic(
                f"brackets stand more than {DEEPEST_BRACKETS} deep within one another here, which is not formatted",
                schedule=self.source.of_token(self.tokens[self.position]),
                required=f"at most {DEEPEST_BRACKETS} of them",
                found=f"{depth + 1} of them",
                fix="remove those that only group, or name a part with `let`",
            )
        )

    def _leaf(self) -> Leaf:
        remarks = tuple(self._remarks())
        token, before = self.tokens[self.position], self.previous
        self.position += 1
        self.previous = token
        unary = token.type == "MINUS" and (before is None or before.type not in _OPERANDS)
        padded = before is not None and before.line == token.line and self._blanks_before(token) > 1
        made = Leaf(str(token), "NEGATIVE" if unary else token.type, remarks, self._space(token, before), padded)
        if unary:
            self.previous = Token.new_borrow_pos("NEGATIVE", str(token), token)
        return made

    def _space(self, token: Token, before: Token | None) -> bool:
        if before is None or before.type in ("LPAR", "LSQB", "DOT", "_DOTDOT", "NEGATIVE"):
            return False
        if before.type == "LESSTHAN" and before.start_pos in self.type_brackets:
            return False
        if token.type == "LPAR":
            return before.type not in _OPERANDS
        if token.type in ("LESSTHAN", "MORETHAN"):
            return token.start_pos not in self.type_brackets
        return token.type not in ("RPAR", "RSQB", "COMMA", "COLON", "DOT", "_DOTDOT")

    def _blanks_before(self, token: Token) -> int:
        before = self.lines[(token.line or 1) - 1][: (token.column or 1) - 1]
        return len(before) - len(before.rstrip())

    # -- comments ----------------------------------------------------------------------------------------------------

    def _kind(self) -> str:
        return self.tokens[self.position].type if self.position < len(self.tokens) else ""

    def _remarks(self) -> Iterator[Remark]:
        """The comments in front of the next token."""
        while self.comments and self._is_before_next(self.comments[0]):
            yield self._remark(self.comments.pop(0))

    def _remark_behind(self) -> Remark | None:
        """The comment on the line of the token before, where no other token follows on it."""
        if self.comments and not self.comments[0].own_line and self._is_before_next(self.comments[0]):
            return self._remark(self.comments.pop(0))
        return None

    def _is_before_next(self, comment: Comment) -> bool:
        following = next((t for t in self.tokens[self.position :] if t.type != "_NL"), None)
        if following is None:
            return True
        return (comment.line, comment.column) < (following.line or 0, following.column or 0)

    def _remark(self, comment: Comment) -> Remark:
        raw = self.lines[comment.line - 1][comment.column - 1 :].rstrip()
        slashes = raw[: len(raw) - len(raw.lstrip("/"))]
        rest = raw[len(slashes) :]
        text = slashes + (" " if rest and not rest.startswith((" ", "\t")) else "") + rest
        return Remark(text, comment.own_line, self._spaced(comment.line, comment.column))

    def _spaced(self, line: int, column: int) -> bool:
        """Whether what begins here begins its line, below an empty one."""
        return line >= 2 and not self.lines[line - 2].strip() and not self.lines[line - 1][: column - 1].strip()
