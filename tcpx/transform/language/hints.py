"""What was probably meant where a token does not fit: the fix of a syntax error."""

import re
from collections.abc import Callable, Sequence

from lark import Token

from tcpx.payload.diagnostics import Direction
from tcpx.records import frozen
from tcpx.transform.language.tokens import HARD_KEYWORDS
from tcpx.transform.language_versions import NEWEST

Accepted = frozenset[str]
_ONLY = {kind: frozenset((kind,)) for kind in ("ELSE", "EQUAL", "COLON")}
_STATEMENT = frozenset("LET KNOB REQUIRE OPTIONAL FOR IF CASE TRY SPECIALIZE VERSIONS TUNE RETURN".split())
_ITEM = frozenset("IMPORT FUNCTION MATCHER VIEW SEQUENCE SCHEDULE".split())
_ASSIGNING = frozenset("PLUS MINUS TIMES DIVIDE MODULO".split())
_BEGINS_VALUE = frozenset("NAME INT FLOAT STRING LSQB TRUE FALSE".split())

FOREIGN_WORDS = {
    "while": Direction("repeat with `for x in ..`, over a list, a range or a match"),
    "elif": "write `else if`",
    "elseif": "write `else if`",
    "except": "write `else`",
    "catch": "write `else`",
    "fail": Direction('`fail` stands behind `else`: write `require false ".."`'),
    "assert": Direction('write `require condition "why"`'),
    "raise": Direction('write `require false ".."`'),
    "throw": Direction('write `require false ".."`'),
    "def": Direction("write `sequence name(x: op) { .. }`, or `function` for an expression"),
    "fn": Direction("write `sequence name(x: op) { .. }`, or `function` for an expression"),
    "func": Direction("write `sequence name(x: op) { .. }`, or `function` for an expression"),
    "proc": Direction("write `sequence name(x: op) { .. }`"),
    "var": Direction("a name is bound by `let`, once"),
    "const": Direction("a name is bound by `let`, once"),
    "auto": Direction("a name is bound by `let`, once"),
    "switch": Direction("write `case x { matmul => { .. } else => { .. } }`"),
    "with": Direction("blocks belong to `for`, `if`, `case`, `try`, `specialize` and `tune`"),
    "from": Direction('write `import "lib/gemm.tcps" as gemm`'),
    "include": Direction('write `import "lib/gemm.tcps" as gemm`'),
    "pass": Direction("a block that does nothing is `{ }`"),
    "break": Direction("a `for` goes through all items: ask about each with `if`"),
    "continue": Direction("a `for` goes through all items: ask about each with `if`"),
    "yield": Direction("a sequence gives its results by `return`; a schedule has none"),
    "foreach": "write `for`",
    "alternatives": Direction("write `try { .. } else { .. }`"),
    "apply_patterns": Direction("write `canonicalize(root)`, `cse(root)` or `dce(root)`"),
}
"""What begins a statement in other languages, and what this one has for it."""

FOREIGN_VALUES = {
    "True": "write `true`",
    "False": "write `false`",
    "transform": Direction(
        "this is MLIR's transform dialect: write `tile(mm, [m: 6, n: 16])`; docs/coming-from.md has a table"
    ),
    **dict.fromkeys(
        ("None", "none", "null", "nil", "nullptr"), Direction("there is no empty value: leave the argument out")
    ),
}
"""Values of other languages, and what this one has for them."""

FOREIGN_CALLS = {
    "isinstance": Direction("write `x.is_a(matmul)`"),
    "is_a": Direction("write `x.is_a(matmul)`"),
    "range": Direction("a range has both ends: write `0..n - 1` for `range(n)`"),
    "match_op": Direction("write `match one matmul in root`"),
    **dict.fromkeys(("mod", "divmod", "rem"), Direction("write `a % b`")),
    "ceil_div": "write `ceildiv`",
    "cdiv": "write `ceildiv`",
    "round_up": "write `align_up`",
}
"""Functions of other languages, and what this one has for them."""

ITEM_FORMS = {
    "language": f"language {NEWEST}",
    "function": "function f(n: int) -> int = 2 * n",
    "view": "view product(mm: op<contract>) { let columns = innermost(dims(mm.out)) }",
    "matcher": "matcher m(r: op<max>) { require rank(r) == 2 }",
}
"""How what begins with a word that is no keyword elsewhere goes on."""

_NUMBER = re.compile(r"[0-9][\w.]*([+-][0-9]+)?")


@frozen
class Place:
    """A token that does not fit: what comes before it, what else would fit, and the text of its line."""

    token: Token
    seen: Sequence[Token]
    accepted: Accepted
    text: str

    @property
    def kind(self) -> str:
        return self.token.type

    @property
    def behind(self) -> str:
        """The line behind the token."""
        return self.text[(self.token.end_column or 1) - 1 :].strip()

    @property
    def value(self) -> str:
        """What stands behind the token in its place of a list."""
        depth = 0
        for at, character in enumerate(self.behind):
            depth += (character in "([{") - (character in ")]}")
            if depth < 0 or (depth == 0 and character == ","):
                return self.behind[:at].strip() or ".."
        return self.behind or ".."

    def ends(self, *kinds: str) -> bool:
        """Whether the tokens before it are of these kinds."""
        return tuple(t.type for t in self.seen[-len(kinds) :]) == kinds

    @property
    def bracket(self) -> str:
        """The kind of the bracket round it; empty outside of brackets."""
        opened: list[str] = []
        for token in self.seen:
            if token.type in ("LPAR", "LSQB", "LBRACE"):
                opened.append(token.type)
            elif token.type in ("RPAR", "RSQB", "RBRACE") and opened:
                opened.pop()
        return opened[-1] if opened and opened[-1] != "LBRACE" else ""

    @property
    def statement(self) -> Sequence[Token]:
        """The tokens of its statement before it."""
        starts = (k + 1 for k in range(len(self.seen) - 1, -1, -1) if self.seen[k].type in ("_NL", "LBRACE", "RBRACE"))
        return self.seen[next(starts, 0) :]


def hint(token: Token, seen: Sequence[Token], accepted: Accepted, text: str) -> str | None:
    """The fix for a token where others are accepted; `seen` are the tokens before it, `text` is its line."""
    place = Place(token, seen, accepted, text)
    for applies, fix in _HINTS:
        if applies(place):
            text = fix.format(token=token, before=seen[-1] if seen else "", value=place.value)
            return Direction(text) if isinstance(fix, Direction) else text
    if token.type.lower() in HARD_KEYWORDS and "NAME" in accepted and "INT" not in accepted:
        return Direction(f"`{token}` is a keyword: choose another name")
    return None


def _is_name_of_an_entry(place: Place) -> bool:
    return place.kind == "EQUAL" and place.seen[-1].type == "NAME" and place.seen[-2].type in ("LSQB", "LPAR", "COMMA")


def _begins(place: Place, *kinds: str) -> bool:
    statement = place.statement
    return bool(statement) and statement[0].type in kinds


Applies = Callable[[Place], bool]
_HINTS: Sequence[tuple[Applies, str]] = (
    (
        lambda p: p.kind == "MATCH" and p.accepted >= _STATEMENT,
        Direction("a match is a value: write `let x = match ..`, or `for x in match ..`"),
    ),
    (
        lambda p: p.kind in _STATEMENT and p.ends("OPTIONAL"),
        Direction(
            "`optional` stands before a step: write `optional tile(..)`; several statements go into `try {{ .. }}`"
        ),
    ),
    (
        lambda p: p.kind == "OPTIONAL",
        Direction("what `optional` leaves out has no value: write `let i = optional tile(..)`, and ask `exists(i)`"),
    ),
    (lambda p: p.kind == "FOR" and p.ends("CARDINALITY"), Direction("loops are matched as `loop`")),
    (
        lambda p: p.kind == "FOR" and p.bracket == "LSQB",
        Direction("a list is written item by item; go through what matches with `for x in match ..`"),
    ),
    (
        lambda p: p.kind == "_NL" and "LBRACE" in p.accepted,
        Direction("the `{{` stands on the line of what it belongs to"),
    ),
    (
        lambda p: p.kind == "COLON" and "LBRACE" in p.accepted,
        Direction("a block stands in braces: write `{{` in place of `:`, and `}}` behind the last statement"),
    ),
    (lambda p: p.kind == "COLON" and _begins(p, "LET"), Direction("a `let` has no type: write `let x = ..`")),
    (
        lambda p: p.kind == "WHERE" and (p.ends("CARDINALITY", "NAME") or p.ends("CARDINALITY", "STRING")),
        Direction("the place stands before the condition: `match one .. in root where ..`"),
    ),
    (
        lambda p: p.kind == "WHERE",
        Direction("`where` belongs to a match: `match any .. in .. where ..`; ask about an item of a list with `if`"),
    ),
    (lambda p: p.kind == "FAIL" and "_FATARROW" in p.accepted, Direction('in a `case`, write `else => fail ".."`')),
    (
        lambda p: p.accepted == _ONLY["ELSE"],
        Direction(
            '`specialize` says what is done otherwise: `else {{ }}` leaves it as it is, `else fail ".."` refuses it'
        ),
    ),
    (
        lambda p: p.kind == "ELSE" and "ELSE" not in p.accepted,
        Direction(
            "`else` stands directly behind a block of `if`, `try` or `specialize`, or as the last arm of a `case`"
        ),
    ),
    (
        lambda p: "ELSE" in p.accepted and "PLUS" in p.accepted,
        Direction("a value under a condition has an `else`: write `a if c else b`"),
    ),
    (lambda p: p.kind in ("COLON", "_ARROW") and "_FATARROW" in p.accepted, "write `=>`"),
    (
        lambda p: p.kind in ("COMMA", "RPAR") and p.accepted == _ONLY["COLON"],
        Direction("a parameter has a type, as in `root: func` and `x: op<contract>`"),
    ),
    (lambda p: p.ends("INT", "DOT"), "a float has digits on both sides of the point: `3.0`"),
    (
        lambda p: p.kind == "DOT" and p.behind[:1].isdigit(),
        Direction("a float has digits on both sides of the point: `0.5`"),
    ),
    (_is_name_of_an_entry, "a name and its value are separated by `:`: write `{before}: {value}`"),
    (
        lambda p: p.kind == "EQUAL" and "COMPARISON" in p.accepted,
        Direction("`==` compares; `let name = ...` binds a name"),
    ),
    (
        lambda p: p.kind == "EQUAL" and bool(p.seen) and p.seen[-1].type in ("NAME", "RPAR"),
        Direction("a name is bound by `let`, once"),
    ),
    (
        lambda p: p.kind in _ASSIGNING and len(p.statement) == 1 and p.behind.startswith(("=", "+", "-")),
        Direction("a name is bound once: write `let` and another name"),
    ),
    (
        lambda p: p.kind in ("COMPARISON", "LESSTHAN", "MORETHAN"),
        Direction("comparisons do not chain: write `a < b and b < c`"),
    ),
    (lambda p: p.kind == "FLOAT" and "INT" in p.accepted, Direction("an integer is needed here")),
    (
        lambda p: bool(p.seen) and p.seen[-1] == "lambda",
        Direction("a function has a name: write `function f(n: int) -> int = n + 1` outside of the schedule"),
    ),
    (lambda p: p.token == "is", Direction("write `x.is_a(matmul)`")),
    (
        lambda p: p.kind in ("IN", "NOT") and _begins(p, "IF", "REQUIRE"),
        Direction("write `contains(list, x)`; `x in loop` chooses copies"),
    ),
    (
        lambda p: p.kind == "NAME" and p.accepted >= {"STRING", "IN"},
        Direction(
            'a match takes names as text in quotes, such as `"fc*"`: write `match .. in .. where it.name == {token}`'
        ),
    ),
    (
        lambda p: p.kind == "LSQB" and p.bracket == "" and "LPAR" in p.accepted,
        Direction("a list is gone through by `for x in list`; `outermost(list)` and `innermost(list)` are its ends"),
    ),
    (
        lambda p: p.kind in _BEGINS_VALUE and p.bracket != "" and "COMMA" in p.accepted,
        "a `,` is missing before `{token}`",
    ),
    (
        lambda p: p.kind == "COMMA" and p.bracket == "LPAR" and "RPAR" in p.accepted,
        Direction("a list is written with brackets: `[1, 2]`"),
    ),
    (
        lambda p: p.ends("CARDINALITY", "STRING") and p.accepted == frozenset(("IN",)),
        Direction(
            "a match takes names as text in quotes; to compare with a value: `match .. op in .. where it.name == x`"
        ),
    ),
    (lambda p: p.kind == "COMMA" and _begins(p, "LET"), Direction("each value has a `let` of its own")),
    (lambda p: p.kind == "LPAR" and p.ends("FOR"), Direction("write `for i in 0..3 {{ .. }}`")),
    (lambda p: p.ends("IMPORT"), Direction('the path of a file is text in quotes: `import "lib/gemm.tcps" as gemm`')),
    (lambda p: p.kind == "NAME" and p.ends("IMPORT", "STRING"), "write `as {token}`"),
    (
        lambda p: p.kind in _ITEM and bool(p.accepted & _STATEMENT),
        Direction("`{token}` stands outside of other blocks"),
    ),
    (
        lambda p: p.kind in _STATEMENT and p.accepted >= _ITEM,
        Direction("a statement stands in a `schedule` or `sequence`: write `schedule s(root: func) {{ .. }}` round it"),
    ),
    (lambda p: p.kind == "RBRACE" and "$END" in p.accepted, Direction("no block is open here: remove it")),
    (
        lambda p: p.kind == "STRING" and p.seen[-1].type == "NAME" and p.accepted >= {"_DOTDOT", "IN"},
        Direction("text is joined with `+`"),
    ),
)


def number_fix(text: str) -> str | None:
    """How a number is written that has other signs in it than digits."""
    found = _NUMBER.match(text)
    number = found.group().lower() if found is not None else ""
    if number[:2] in ("0x", "0b", "0o"):
        try:
            return f"write `{int(number, 0)}`"
        except ValueError:
            return None
    if re.fullmatch(r"[0-9]+e[+-]?[0-9]+", number):
        return f"a float has digits on both sides of the point: `{number.replace('e', '.0e')}`"
    if re.fullmatch(r"[0-9_]+", number):
        return f"write `{number.replace('_', '')}`"
    return None
