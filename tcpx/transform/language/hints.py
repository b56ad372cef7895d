"""What was probably meant where a token does not fit: the fix of a syntax error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lark import Token

from tcpx.transform.language.tokens import HARD_KEYWORDS

Accepted = frozenset[str]
_ONLY = {kind: frozenset((kind,)) for kind in ("ELSE", "EQUAL", "COLON")}
_STATEMENT = frozenset("LET KNOB REQUIRE OPTIONAL FOR IF CASE TRY SPECIALIZE TUNE RETURN".split())

FOREIGN_WORDS = {
    "while": "repeat with `for x in ..`, over a list, a range or a match",
    "elif": "write `else if`",
    "fail": '`fail` stands behind `else`: write `require false ".."`',
    "def": "write `sequence name(x: op) { .. }`, or `function` for an expression",
    "var": "a name is bound by `let`, once",
    "const": "a name is bound by `let`, once",
    "switch": "write `case x { matmul => { .. } else => { .. } }`",
}
"""What begins a statement in other languages, and what this one has for it."""

ITEM_FORMS = {
    "language": "language 1",
    "function": "function f(n: int) -> int = 2 * n",
    "matcher": "matcher m(r: op<max>) { require rank(r) == 2 }",
}
"""How what begins with a word that is no keyword elsewhere goes on."""


def hint(token: Token, seen: Sequence[Token], accepted: Accepted) -> str | None:
    """The fix for a token where others are accepted; `seen` are the tokens up to it."""
    before = [t.type for t in seen if t is not token]
    for applies, text in _HINTS:
        if applies(token.type, before, accepted):
            return text.format(token=token)
    if token.type.lower() in HARD_KEYWORDS and "NAME" in accepted and "INT" not in accepted:
        return f"`{token}` is a keyword: choose another name"
    return None


def _ends(before: Sequence[str], *kinds: str) -> bool:
    return tuple(before[-len(kinds) :]) == kinds


Applies = Callable[[str, Sequence[str], Accepted], bool]
_HINTS: Sequence[tuple[Applies, str]] = (
    (
        lambda token, before, accepted: token == "MATCH" and accepted >= _STATEMENT,
        "a match is a value: write `let x = match ..`, or `for x in match ..`",
    ),
    (
        lambda token, before, accepted: token in _STATEMENT and _ends(before, "OPTIONAL"),
        "`optional` stands before a step: write `optional tile(..)`; several statements go into `try {{ .. }}`",
    ),
    (
        lambda token, before, accepted: token == "OPTIONAL",
        "what `optional` leaves out has no value: write `optional tile(..)` as a statement",
    ),
    (
        lambda token, before, accepted: token == "FOR" and _ends(before, "CARDINALITY"),
        "loops are matched as `loop`",
    ),
    (
        lambda token, before, accepted: token == "_NL" and "LBRACE" in accepted,
        "the `{{` stands on the line of what it belongs to",
    ),
    (
        lambda token, before, accepted: token == "WHERE",
        "`where` belongs to a match: `match any .. in .. where ..`; ask about an item of a list with `if`",
    ),
    (
        lambda token, before, accepted: token == "FAIL" and "_FATARROW" in accepted,
        'in a `case`, write `else => fail ".."`',
    ),
    (
        lambda token, before, accepted: accepted == _ONLY["ELSE"],
        '`specialize` says what is done otherwise: `else {{ }}` leaves it as it is, `else fail ".."` refuses it',
    ),
    (
        lambda token, before, accepted: token == "LBRACE" and accepted == _ONLY["EQUAL"],
        "a function is an expression: `function f(n: int) -> int = 2 * n`; one with statements is a `sequence`",
    ),
    (
        lambda token, before, accepted: token in ("COMMA", "RPAR") and accepted == _ONLY["COLON"],
        "a parameter has a type, as in `root: func` and `x: op<contract>`",
    ),
    (
        lambda token, before, accepted: _ends(before, "INT", "DOT"),
        "a float has digits on both sides of the point: `3.0`",
    ),
    (
        lambda token, before, accepted: token == "EQUAL" and "COMPARISON" in accepted,
        "`==` compares; `let name = ...` binds a name",
    ),
    (
        lambda token, before, accepted: token == "EQUAL" and bool(before) and before[-1] in ("NAME", "RPAR"),
        "a name is bound by `let`, once",
    ),
    (
        lambda token, before, accepted: token in ("COMPARISON", "LESSTHAN", "MORETHAN"),
        "comparisons do not chain: write `a < b and b < c`",
    ),
    (lambda token, before, accepted: token == "FLOAT" and "INT" in accepted, "an integer is needed here"),
)
