"""Lark's tables, run without the reductions that only hand one child on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

from lark import Lark, Token, Tree
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

States = dict[int, dict[str, tuple[Any, Any]]]
"""By state and symbol: a shift and the next state, or a reduction and its rule."""
_BELOW = -1
"""Stands below the first state."""


class _Tables(Protocol):
    """What of Lark's tables is used here."""

    states: States
    callbacks: dict[Rule, Callable[[list[Any]], Any]]
    start_state: int
    end_state: int


class _State(Protocol):
    parse_conf: _Tables


class _Lexer(Protocol):
    def lex(self, state: _State) -> Iterator[Token]: ...


class _Interactive(Protocol):
    parser_state: _State
    lexer_thread: _Lexer


class _Lark(Protocol):
    def parse(self, text: str) -> Tree[Token]: ...

    def parse_interactive(self, text: str) -> _Interactive: ...


class Reductions:
    """Parses with the tables of a grammar; the tree, and the errors, are those of `Lark.parse`.

    A `?` rule of one child makes no node, and there are some ten of them above every operand. Which state a row of them
    leads to depends on the state below, the state above and the token behind, and is remembered.
    """

    def __init__(self, lark: Lark) -> None:
        self._lark = cast("_Lark", lark)
        self._led_to: dict[tuple[int, int, str], int] = {}

    def parse(self, text: str) -> Tree[Token]:
        """The parse tree of a text."""
        interactive = self._lark.parse_interactive(text)
        state = interactive.parser_state
        tree = self._run(_with_end(interactive.lexer_thread.lex(state)), state.parse_conf)
        return tree if tree is not None else self._lark.parse(text)

    def _run(self, tokens: Iterable[Token], conf: _Tables) -> Tree[Token] | None:
        """The tree; None where a token does not fit: Lark says what would."""
        states, callbacks, led_to = conf.states, conf.callbacks, self._led_to
        path: list[int] = [_BELOW, conf.start_state]
        values: list[Any] = []
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
                    break
                rule: Rule = found[1]
                size = len(rule.expansion)
                if size == 1 and _hands_on(rule):
                    led_to[path[-2], path[-1], kind] = self._led(path[-2], path[-1], kind, states)
                    continue
                given = values[-size:] if size else []
                if size:
                    del path[-size:], values[-size:]
                path.append(states[path[-1]][rule.origin.name][1])
                values.append(callbacks[rule](given))
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


def _with_end(tokens: Iterable[Token]) -> Iterator[Token]:
    last: Token | None = None
    for token in tokens:
        last = token
        yield token
    yield Token.new_borrow_pos("$END", "", last) if last is not None else Token("$END", "", 0, 1, 1)


def _hands_on(rule: Rule) -> bool:
    """Whether a rule of one symbol makes no node."""
    return rule.options.expand1 and rule.alias is None and not rule.expansion[0].is_term
