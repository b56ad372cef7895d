"""Text as other languages have it: patterns of the line where a grammar is left, and what is written here."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.records import frozen

AT: Final = "\0"
"""Stands before the place of the error in the text that patterns are matched with."""
_HERE: Final = "here"
QUOTES: Final = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b'"
"""What editors and other languages put around a text where `"` is required."""

_LONGEST: Final = 1000
"""Characters of lines that are compared with patterns: the time of some grows with the square of the length."""

Fix = str | Callable[[re.Match[str]], str | None]


@frozen
class Habit:
    """A pattern, with `AT` where the grammar is left, and the fix, which names its groups as in `re.Match.expand` or is
    made of the match. The group `here` is what the fix is about; without it, the place of the error stays. Without a
    message, or what is required, the error says what the grammar expects."""

    pattern: re.Pattern[str]
    fix: Fix
    message: str = ""
    required: str = ""


@frozen
class Recognized:
    """What was recognized. `start` and `end` are (lines before that of the error, column from 1); None keeps its
    place."""

    fix: str
    message: str
    required: str
    start: tuple[int, int] | None = None
    end: tuple[int, int] | None = None


def habits(*entries: tuple[str, Fix] | tuple[str, Fix, str] | tuple[str, Fix, str, str]) -> Sequence[Habit]:
    """A table of habits, the more special ones first; lines begin at `^`. The texts after a fix are the message, and
    what is required."""
    made: list[Habit] = []
    for pattern, fix, *words in entries:
        message, required = (*words, "", "")[:2]
        made.append(Habit(re.compile(pattern, re.MULTILINE), fix, message, required))
    return tuple(made)


def recognize(known: Iterable[Habit], before: str, line: str, column: int) -> Recognized | None:
    """The first habit that fits a line with an error at a column from 1, and the line before it, if that is no longer
    than what people write. None for a line that is."""
    before = before if len(before) <= _LONGEST else ""
    if len(line) > _LONGEST:
        return None
    text = f"{before}\n{line[: column - 1]}{AT}{line[column - 1 :]}"
    for habit in known:
        match = habit.pattern.search(text)
        fix = _fix_of(habit, match) if match is not None else None
        if match is None or fix is None:
            continue
        message = match.expand(habit.message).replace(AT, "")
        if _HERE not in match.re.groupindex or match.start(_HERE) < 0:
            return Recognized(fix, message, habit.required)
        return Recognized(
            fix, message, habit.required, _place(text, match.start(_HERE)), _place(text, match.end(_HERE))
        )
    return None


def _fix_of(habit: Habit, match: re.Match[str]) -> str | None:
    written = habit.fix(match) if callable(habit.fix) else match.expand(habit.fix)
    if written is None:
        return None
    text = written.replace(AT, "")
    return Direction(text) if isinstance(written, Direction) or isinstance(habit.fix, Direction) else text


def _place(text: str, offset: int) -> tuple[int, int]:
    start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", offset), offset - start + 1 - text.count(AT, start, offset)
