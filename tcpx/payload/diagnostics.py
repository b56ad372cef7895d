"""The one diagnostic type of tcpx: what was required, what was found, where, and a fix where one is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from enum import Enum
from pathlib import Path, PurePath
from typing import Final, Self

from tcpx.records import brief, frozen

_WIDEST_LINE: Final = 110
"""Of a source line, as much as a terminal shows beside the gutter."""
_WIDEST_CARET: Final = 60
_CUT: Final = "..."
_LONGEST_WORD: Final = 1_000
_LONGEST_TEXT: Final = 100_000
"""Characters that a message quotes of one word, and that one of its texts has."""
_PICTURES: Final = {code: 0x2400 + code for code in range(0x20) if code != ord("\t")}
"""Control characters as a terminal may show them."""


@frozen
class Location:
    """A span of source text; lines and columns count from 1, `text` is the first source line.

    `printed` is the file and line of the text that a schedule written in Python prints as.
    """

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0
    text: str = ""
    printed: tuple[str, int] | None = None

    def __str__(self) -> str:
        return f"{_without_middle(self.file, _LONGEST_WORD)}:{self.line}:{self.column}"

    @property
    def short(self) -> str:
        """`gemm.tcps:31`: for tables, and for pages that people see who do not have the folder."""
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def span(self) -> str:
        """The text of the place, or its first line."""
        is_single = self.end_line in (0, self.line) and self.end_column > self.column
        return self.text[self.column - 1 : self.end_column - 1 if is_single else None].strip()

    def caret(self) -> str:
        """The source line, or the part of a long one where the span begins, with carets under the span or its
        beginning."""
        if not self.text:
            return ""
        single = self.end_line in (0, self.line) and self.end_column > self.column
        stop = self.end_column if single else len(self.text) + 1
        shown, column = self._excerpt()
        shown = shown.translate(_PICTURES)
        width = max(1, min(stop - self.column, _WIDEST_CARET, len(shown) + 1 - column))
        gutter = f"{self.line:>5} | "
        return f"{gutter}{shown}\n{' ' * (len(gutter) - 2)}| {' ' * (column - 1)}{'^' * width}"

    def _excerpt(self) -> tuple[str, int]:
        """As much of the line as is shown, and the column of the span in it."""
        if len(self.text) <= _WIDEST_LINE:
            return self.text, self.column
        start = max(0, min(self.column - 1 - _WIDEST_LINE // 3, len(self.text) - _WIDEST_LINE))
        stop = start + _WIDEST_LINE
        before, behind = _CUT if start else "", _CUT if stop < len(self.text) else ""
        return f"{before}{self.text[start:stop]}{behind}", self.column - start + len(before)


class Kind(Enum):
    """Silenceable: a precondition is not met, `try` may recover. Definite: abort. Internal: a bug of tcpx.
    Warning: a remark of a checker; it is never raised."""

    SILENCEABLE = "error"
    DEFINITE = "definite error"
    INTERNAL = "internal error"
    WARNING = "warning"


class Direction(str):
    """A fix that says what to do where no text is known that can be written as it stands."""

    __slots__ = ()


@frozen
class Diagnostic:
    """One failure, with its places in the schedule and in the payload.

    `fix` is text that can be written as it stands, or a `Direction`. A remark on slow code has a `cause`, one of those
    in `tcpx/remarks/causes.py`, and the `factor` by which the kernel would be faster without, by a model; 0 where that
    is not known. `statement` is the function and the nest in the C that it is about, as a profile names them.
    """

    message: str
    kind: Kind = Kind.DEFINITE
    schedule: Location | None = None
    payload: Location | None = None
    required: str | None = None
    found: str | None = None
    notes: tuple[str, ...] = ()
    fix: str | None = None
    calls: tuple[tuple[str, Location], ...] = ()
    cause: str = ""
    factor: float = 0.0
    statement: tuple[str, str] = ("", "")

    def __post_init__(self) -> None:
        """Clip what the texts quote: a name in a file may have millions of characters."""
        for name in ("message", "required", "found", "fix"):
            text: str | None = getattr(self, name)
            if text is not None and len(text) > _LONGEST_WORD:
                object.__setattr__(self, name, clipped(text))
        if any(len(note) > _LONGEST_WORD for note in self.notes):
            object.__setattr__(self, "notes", tuple(map(clipped, self.notes)))

    def __repr__(self) -> str:
        return brief("Diagnostic", self.message)

    @property
    def is_error(self) -> bool:
        """Whether it stands in the way of what was asked for, as all but remarks do."""
        return self.kind is not Kind.WARNING

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """Text for a terminal: message, the two carets, required / found / fix, call stack."""
        lines = [f"{self.kind.value}: {self.message}"]
        for label, place in (("schedule", self.schedule), ("payload", self.payload)):
            if place is not None:
                lines.append(f"  --> {place} ({label})")
                if place.text:
                    lines.append(place.caret())
        lines += [
            f"  {label}: {text}"
            for label, text in (("required", self.required), ("found", self.found))
            if text is not None
        ]
        lines += [f"  note: {note}" for note in self.notes]
        if self.fix is not None:
            label = "hint" if isinstance(self.fix, Direction) else "fix"
            lines.append(f"  {label}: {self.fix}".replace("\n", "\n       "))
        lines += [f"  in {name}, called from {place}" for name, place in self.calls]
        return "\n".join(lines).encode(errors="backslashreplace").decode()  # half a pair of surrogates has no bytes


def clipped(text: str) -> str:
    """A text without the middle of words that are too long to read, and of no more than some characters."""
    short = re.sub(rf"\S{{{_LONGEST_WORD + 1},}}", lambda word: _without_middle(word.group(), _LONGEST_WORD), text)
    return _without_middle(short, _LONGEST_TEXT)


def _without_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}{_CUT}{text[-(most // 2) :]}"


def either(words: Sequence[str]) -> str:
    """`a, b or c`; empty if there are none."""
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def statements_to_write(statements: Sequence[str], note: str = "") -> str:
    """The fix that is payload text: one statement on the line of the fix, several below it."""
    lead = f"write ({note})" if note else "write"
    return f"{lead}: {statements[0]}" if len(statements) == 1 else "\n".join((f"{lead}:", *statements))


class TcpxError(Exception):
    """Base of every error tcpx raises on purpose; `diagnostic` holds the facts."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic

    def with_places(self, schedule: Location | None = None, payload: Location | None = None) -> Self:
        """The same error with places filled in where it has none yet."""
        known, error = self.diagnostic, copy(self)
        error.diagnostic = replace(known, schedule=known.schedule or schedule, payload=known.payload or payload)
        error.args = (error.diagnostic.render(),)
        return error

    def __reduce__(self) -> tuple[Callable[..., TcpxError], tuple[object, ...]]:
        """Pickled and copied by its fields: an error that a pool of processes cannot send ends the pool."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[TcpxError], args: tuple[object, ...], fields: dict[str, object]) -> TcpxError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ParseError(TcpxError):
    """A payload or schedule text that does not follow the grammar."""


class VerifyError(TcpxError):
    """A payload that breaks a rule of the IR."""


class LimitError(VerifyError):
    """A payload whose sizes are too large for 64 bits, or too long to work with: nothing is wrong with who made it."""


class UnprovenError(VerifyError):
    """A payload whose sizes may well agree, but nothing that is known of them says so."""


class ScheduleError(TcpxError):
    """A schedule that does not check, or a transform that does not apply."""


class StepError(ScheduleError):
    """A step that cannot be done, or what does not hold behind the first step of a recipe."""


class ConditionError(ScheduleError):
    """What a schedule requires does not hold, or no case fits: the block is for something else."""


class MissingError(ScheduleError):
    """An operation that is asked for does not exist, such as the producer of an argument. `exists` says no."""


class ScheduleWarning(UserWarning):
    """A remark about a schedule that runs all the same: something in it that nothing reads."""


class ArgumentError(TcpxError, TypeError, ValueError):
    """A kernel or evaluator called with arguments of the wrong count, rank, dtype, shape or aliasing."""


class CompileError(TcpxError):
    """The C compiler is missing or refused the emitted code."""


class SanitizerError(TcpxError):
    """A sanitized kernel that leaves its memory, or that computes what C does not define."""


def check_text(what: str, given: object, loader: str) -> None:
    """Raise ArgumentError for what is no text, such as a path; `loader` is the function of tcpx that takes a path."""
    if not isinstance(given, str):
        raise unusable_argument(f"text of a {what}", given, "a string", loader)


def python_type_of(given: object) -> str:
    """What `found` says of an argument that is of another Python type than required."""
    return "None" if given is None else f"something of the Python type {type(given).__name__}"


def unusable_argument(what: str, given: object, required: str, loader: str) -> ArgumentError:
    """The error for an argument of another Python type; `loader` is the function of tcpx that takes a path instead."""
    if isinstance(given, str) and "\n" in given:
        parser = loader.replace("load", "parse")
        return ArgumentError(
            Diagnostic(f"this is no {what}", required=required, found="a text", fix=f"tcpx.{parser}(text)")
        )
    is_path = isinstance(given, str | Path)
    found = f'"{given}"' if is_path else python_type_of(given)
    fix = f'tcpx.{loader}("{given}")' if is_path else None
    return ArgumentError(Diagnostic(f"this is no {what}", required=required, found=found, fix=fix))
