"""The messages that stand in the source of tcpx, and which of them the tests of a run provoked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.diagnostics.ledger import ROOT, Record

_OPERATION = re.compile(r"(?:nothing proves that `\w+` fits: )?(?:(?:a tile of )?%\S+ \([\w.]+\)|\w+\.[\w.]+):? ")
LEAST = 6
"""Letters that a message has of its own: of one with fewer, nobody could tell it from others."""


@dataclass(frozen=True, slots=True)
class Message:
    """The first text of a call that says what is `required`: what it becomes matches `pattern`."""

    place: str
    text: str
    pattern: re.Pattern[str]


def messages() -> Iterator[Message]:
    """All messages, in the order of the files."""
    for path in sorted((ROOT / "tcpx").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and any(_says_what_is_required(keyword) for keyword in call.keywords):
                parts = next((found for argument in call.args if (found := _parts(argument)) is not None), [])
                if sum(c.isalpha() for part in parts for c in part or "") >= LEAST:
                    text = "".join(".." if part is None else part for part in parts)
                    pattern = "".join(".*" if part is None else re.escape(part) for part in parts)
                    place = f"{path.relative_to(ROOT)}:{call.lineno}"
                    yield Message(place, text, re.compile(pattern, re.DOTALL))


def _says_what_is_required(keyword: ast.keyword) -> bool:
    """Not the `required=True` of an option of a command."""
    return keyword.arg == "required" and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is True)


def _parts(text: ast.expr) -> list[str | None] | None:
    """The pieces of a text, None for what is put in; None for what is no text."""
    match text:
        case ast.Constant(value=str(value)):
            return [value]
        case ast.JoinedStr(values=values):
            return [str(v.value) if isinstance(v, ast.Constant) else None for v in values]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = _parts(left), _parts(right)
            return None if sides == (None, None) else [part for side in sides for part in side or [None]]
        case _:
            return None


def unprovoked(records: Iterable[Record], said: Iterable[str] = ()) -> list[Message]:
    """The messages that none of these is, with or without the operation that it is said of."""
    told = {*(record.message for record in records), *said}
    found = {text for message in told for text in (message, _OPERATION.sub("", message))}
    return [message for message in messages() if not any(message.pattern.fullmatch(text) for text in found)]
