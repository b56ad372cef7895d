"""The one token filter behind the lexer: keywords, and which newlines end a statement.

A newline or `;` ends a statement, except inside `( ) [ ]`, after an operator or `, : = ->`, and before
`else or and where .`. Comments and docs leave the stream here and are kept beside it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lark import Token
from lark.lark import PostLex

from tcpx.records import frozen

HARD_KEYWORDS = frozenset(
    "import sequence schedule let knob require optional for in if else case try specialize when tune return "
    "match where and or not true false".split()
)
"""Reserved, except behind a `.`, as the name of an argument, `specialize` as a transform that is called, and `and`,
`or` and `not` where only an operation can be meant."""

SOFT_KEYWORDS = frozenset(
    "language as expects fail remark pad one some any function matcher view separate up_to versions by at".split()
)
"""Words that are keywords in one place only."""

_NAME = re.compile(r"[A-Za-z_]\w*")

_DIVISOR = re.compile(r"\s*[0-9]+[\s)\],]*")

OPERATORS = frozenset(
    "COMPARISON PLUS MINUS TIMES POWER DIVIDE MODULO LESSTHAN MORETHAN AND OR NOT _DOTDOT COMMA COLON EQUAL _ARROW "
    "_FATARROW".split()
)
CONTINUES = frozenset("ELSE OR AND WHERE DOT".split())
_OPENING = {"LPAR": ")", "LSQB": "]", "LBRACE": "}"}
_CLOSING = {"RPAR": "LPAR", "RSQB": "LSQB", "RBRACE": "LBRACE"}
_NEVER_INSIDE = frozenset("LBRACE RBRACE LET KNOB REQUIRE RETURN SEQUENCE SCHEDULE IMPORT".split())
BEFORE_AN_ARM = frozenset("LBRACE RBRACE _NL".split())
_TRIVIA = frozenset(("NEWLINE", "DOC", "COMMENT"))


@frozen
class Comment:
    """A `//` or `///` with its place; `text` without the slashes and one blank."""

    line: int
    column: int
    own_line: bool
    is_doc: bool
    text: str

    @property
    def divides(self) -> bool:
        """Whether it is a number behind code, as if `//` were an operator."""
        return not (self.is_doc or self.own_line) and _DIVISOR.fullmatch(self.text) is not None

    @property
    def end_column(self) -> int:
        """The column behind it, as if one blank were behind its slashes."""
        return self.column + len("// ") + len(self.text)


class UnclosedBracketError(Exception):
    """A bracket is open where a statement starts or the file ends."""

    def __init__(self, bracket: Token, found: Token | None) -> None:
        super().__init__(str(bracket))
        self.bracket = bracket
        self.found = found
        self.closing = _OPENING[bracket.type]


@dataclass
class TokenFilter(PostLex):
    """Filters one text; afterwards `tokens` is what the parser saw and `comments` what it did not."""

    tokens: list[Token] = field(default_factory=list[Token])
    comments: list[Comment] = field(default_factory=list[Comment])
    always_accept = tuple(_TRIVIA)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        self.tokens.clear()
        self.comments.clear()
        brackets: list[Token] = []
        newline: Token | None = None
        for token, following in self._significant(stream):
            if token.type == "NEWLINE":
                newline = newline or token
                continue
            made = self._with_keyword(token, following, brackets)
            if brackets and made.type in _NEVER_INSIDE and not self._is_of_pattern(made, brackets):
                raise UnclosedBracketError(brackets[-1], made)
            if newline is not None and self._ends_statement(made, brackets):
                yield self._emit(Token.new_borrow_pos("_NL", newline.value, newline))
            newline = None
            if made.type in _OPENING and (made.type != "LBRACE" or self._is_of_pattern(made, brackets)):
                brackets.append(made)
            elif brackets and _CLOSING.get(made.type) == brackets[-1].type:
                brackets.pop()
            yield self._emit(made)
        if brackets:
            raise UnclosedBracketError(brackets[-1], None)

    def _emit(self, token: Token) -> Token:
        self.tokens.append(token)
        return token

    def _significant(self, stream: Iterator[Token]) -> Iterator[tuple[Token, Token | None]]:
        """Newlines and tokens, each with the token that follows it; comments are put aside."""
        held: Token | None = None
        fresh_line = True
        for token in stream:
            if token.type in ("DOC", "COMMENT"):
                self.comments.append(_comment(token, fresh_line))
                continue
            fresh_line = token.type == "NEWLINE" and token.value != ";"
            if held is not None:
                yield held, token
            held = token
        if held is not None:
            yield held, None

    def _is_of_pattern(self, brace: Token, brackets: list[Token]) -> bool:
        """Whether a brace is one round equations, and not round a block: where a pattern stands, or an arm begins."""
        if brace.type != "LBRACE":
            return brace.type == "RBRACE" and brackets[-1].type == "LBRACE"
        before = self.tokens[-1].type if self.tokens else ""
        return before == "CARDINALITY" or (not brackets and before in BEFORE_AN_ARM)

    def _ends_statement(self, token: Token, brackets: list[Token]) -> bool:
        if not self.tokens or brackets or token.type in CONTINUES or token.type == "RBRACE":
            return False
        return self.tokens[-1].type not in OPERATORS and self.tokens[-1].type != "LBRACE"

    def _with_keyword(self, token: Token, following: Token | None, brackets: list[Token]) -> Token:
        if token.type != "NAME":
            return token
        word = str(token)
        before = self.tokens[-1].type if self.tokens else ""
        after = following.type if following is not None and str(following) not in HARD_KEYWORDS else ""
        inner = brackets[-1].type if brackets else ""
        if before == "DOT" or (inner == "LPAR" and after == "COLON"):
            return token
        is_in_pattern = any(bracket.type == "LBRACE" for bracket in brackets)
        if word in HARD_KEYWORDS and not _is_free(word, before, after, is_in_pattern):
            return Token.new_borrow_pos(word.upper(), word, token)
        if word in SOFT_KEYWORDS and _is_soft_keyword(word, before, after, inner):
            kind = "CARDINALITY" if word in ("one", "some", "any") else word.upper()
            return Token.new_borrow_pos(kind, word, token)
        return token


def _is_free(word: str, before: str, after: str, is_in_pattern: bool) -> bool:
    """Whether a reserved word is a name here: of a transform, or of an operation where no operator can stand."""
    match word:
        case "and" | "or" | "not" if is_in_pattern:
            return True
        case "specialize":
            return after == "LPAR"
        case "and" | "or":
            return before in ("CARDINALITY", "LESSTHAN", "LPAR", "COMMA", "COLON")
        case "not":
            return before == "CARDINALITY" or after in ("RPAR", "COMMA", "MORETHAN")
        case _:
            return False


def _is_soft_keyword(word: str, before: str, after: str, inner: str) -> bool:
    match word:
        case "language":
            return after == "INT"
        case "as":
            return before == "STRING"
        case "expects":
            return before == "RPAR" and after == "STRING"
        case "fail":
            return before in ("ELSE", "_FATARROW")
        case "remark":
            return before == "ELSE" and after == "NAME"
        case "function" | "matcher" | "view":
            return after == "NAME" and not inner and before != "CARDINALITY"
        case "up_to":
            return before in ("NAME", "INT", "RPAR", "RSQB") and after in ("NAME", "INT") and not inner
        case "versions":
            return after in ("NAME", "LSQB") and not inner and before != "DOT"
        case "by" | "at":
            return before in ("NAME", "RPAR", "RSQB") and after in ("NAME", "INT", "LSQB", "LPAR") and not inner
        case "separate":
            return before == "KNOB" and after == "NAME"
        case "pad":
            return inner == "LSQB" and before in ("NAME", "INT", "RPAR")
        case _:
            return before == "MATCH"


def is_name(text: str) -> bool:
    """Whether a text is a name wherever one may stand."""
    return _NAME.fullmatch(text) is not None and text not in HARD_KEYWORDS


def _comment(token: Token, own_line: bool) -> Comment:
    is_doc = token.type == "DOC"
    text = str(token)[3 if is_doc else 2 :].rstrip()
    return Comment(token.line or 0, token.column or 0, own_line, is_doc, text.removeprefix(" "))
