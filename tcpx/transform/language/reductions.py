"""Lark's terminals and tables, run for speed: one regular expression, no reductions that only hand one child on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

from lark import Lark, Token, Tree
from lark.grammar import Rule
from lark.lark import PostLex
from lark.lexer import TerminalDef
from lark.parsers.lalr_analysis import Shift

States = dict[int, dict[str, tuple[Any, Any]]]
"""By state and symbol: a shift and the next state, or a reduction and its rule."""
_BELOW = -1
"""Stands below the first state."""


_NO_TOKEN = ""
"""The kind of a character that no terminal starts with."""


class _Tables(Protocol):
    """What of Lark's tables is used here."""

    states: States
    callbacks: dict[Rule, Callable[[list[Any]], Any]]
    start_state: int
    end_state: int


class _State(Protocol):
    parse_conf: _Tables


class _Interactive(Protocol):
    parser_state: _State


class _Lexer(Protocol):
    terminals: list[TerminalDef]
    ignore: list[str]


class _Lark(Protocol):
    lexer_conf: _Lexer

    def parse(self, text: str) -> Tree[Token]: ...

    def parse_interactive(self, text: str) -> _Interactive: ...


class Scanner:
    """The tokens of a text, by the terminals of a grammar with the basic lexer; only those of `lines` span lines."""

    def __init__(self, lark: Lark, lines: frozenset[str]) -> None:
        lexer = cast("_Lark", lark).lexer_conf
        groups = (f"(?P<{t.name}>{t.pattern.to_regexp()})" for t in _in_order(lexer.terminals))
        self._pattern = re.compile("|".join(groups))
        self._ignored, self._lines = frozenset(lexer.ignore), lines

    def tokens(self, text: str) -> Iterator[Token]:
        """The tokens, the last of no kind where no terminal fits."""
        ignored, lines = self._ignored, self._lines
        line, line_start, position = 1, 0, 0
        for match in self._pattern.finditer(text):
            start, end = match.span()
            if start != position:
                break
            kind, position = match.lastgroup or _NO_TOKEN, end
            if kind in ignored:
                continue
            column, value, first = start - line_start + 1, match.group(), line
            if kind in lines and "\n" in value:
                line += value.count("\n")
                line_start = start + value.rindex("\n") + 1
            yield Token(kind, value, start, first, column, line, position - line_start + 1, position)
        if position < len(text):
            yield Token(_NO_TOKEN, text[position])


def _in_order(terminals: Iterable[TerminalDef]) -> list[TerminalDef]:
    """The order in which Lark's lexer tries terminals."""
    return sorted(terminals, key=lambda t: (-t.priority, -t.pattern.max_width, -len(t.pattern.value), t.name))


class Reductions:
    """Parses with the tables of a grammar; the tree, its places and the errors are those of `Lark.parse`.

    A `?` rule of one child makes no node, and there are some ten of them above every operand. Which state a row of them
    leads to depends on the state below, the state above and the token behind, and is remembered.
    """

    def __init__(self, lark: Lark, scanner: Scanner, token_filter: PostLex) -> None:
        self._lark = cast("_Lark", lark)
        self._scanner, self._filter = scanner, token_filter
        self._led_to: dict[tuple[int, int, str], int] = {}
        self._tables = self._lark.parse_interactive("").parser_state.parse_conf

    def parse(self, text: str) -> Tree[Token]:
        """The parse tree of a text."""
        tree = self._run(_with_end(self._filter.process(self._scanner.tokens(text))))
        return tree if tree is not None else self._lark.parse(text)

    def _run(self, tokens: Iterable[Token]) -> Tree[Token] | None:
        """The tree; None where a token does not fit: Lark says what would."""
        conf, led_to = self._tables, self._led_to
        states, callbacks = conf.states, conf.callbacks
        path: list[int] = [_BELOW, conf.start_state]
        values: list[Any] = []
        firsts: list[Token | None] = []
        lasts: list[Token | None] = []
        for token in tokens:
            kind = token.type
            while True:
                led = led_to.get((path[-2], path[-1], kind))
                if led is not None:
                    path[-1] = led
                found = states[path[-1]].get(kind)
                if found is None:
                    return None
                if found[0] is Shift:
                    path.append(found[1])
                    values.append(token)
                    firsts.append(token)
                    lasts.append(token)
                    break
                rule: Rule = found[1]
                size = len(rule.expansion)
                if size == 1 and _hands_on(rule):
                    led_to[path[-2], path[-1], kind] = self._led(path[-2], path[-1], kind, states)
                    continue
                given: list[Any] = []
                first = last = None
                if size:
                    given = values[-size:]
                    first = firsts[-size] or next(filter(None, firsts[-size:]), None)
                    last = lasts[-1] or next(filter(None, lasts[-1 : -size - 1 : -1]), None)
                    del path[-size:], values[-size:], firsts[-size:], lasts[-size:]
                path.append(states[path[-1]][rule.origin.name][1])
                made = callbacks[rule](given)
                values.append(made)
                firsts.append(first)
                lasts.append(last)
                if first is not None and last is not None:
                    _place(made, first, last)
                if path[-1] == conf.end_state:
                    return values[-1]
        return None

    def _led(self, below: int, state: int, kind: str, states: States) -> int:
        """The state behind all reductions that hand their child on, one after the other."""
        while True:
            found = states[state].get(kind)
            if found is None or found[0] is Shift or len(found[1].expansion) != 1 or not _hands_on(found[1]):
                return state
            state = states[below][found[1].origin.name][1]


def _place(tree: Tree[Token], first: Token, last: Token) -> None:
    """Say where a new node stands; what a `?` rule hands on stands where it stood."""
    meta = tree.meta
    if meta.empty:
        meta.empty = False
        meta.line, meta.column, meta.start_pos = first.line or 0, first.column or 0, first.start_pos or 0
        meta.end_line, meta.end_column, meta.end_pos = last.end_line or 0, last.end_column or 0, last.end_pos or 0


def _with_end(tokens: Iterable[Token]) -> Iterator[Token]:
    last: Token | None = None
    for token in tokens:
        last = token
        yield token
    yield Token.new_borrow_pos("$END", "", last) if last is not None else Token("$END", "", 0, 1, 1)


def _hands_on(rule: Rule) -> bool:
    """Whether a rule of one symbol makes no node."""
    return rule.options.expand1 and rule.alias is None and not rule.expansion[0].is_term
