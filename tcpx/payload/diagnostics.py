"""The one diagnostic type of tcpx: what was required, what was found, where, and a fix where one is known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


@dataclass(frozen=True, slots=True)
class Location:
    """A span of source text; lines and columns count from 1, `text` is the first source line."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def caret(self) -> str:
        """The source line with a caret line under the span."""
        if not self.text:
            return ""
        single = self.end_line in (0, self.line) and self.end_column > self.column
        stop = self.end_column if single else len(self.text) + 1
        width = max(1, min(stop, len(self.text) + 1) - self.column)
        gutter = f"{self.line:>5} | "
        return f"{gutter}{self.text}\n{' ' * (len(gutter) - 2)}| {' ' * (self.column - 1)}{'^' * width}"


class Kind(Enum):
    """Silenceable: a precondition is not met, `try` may recover. Definite: abort. Internal: a bug of tcpx."""

    SILENCEABLE = "error"
    DEFINITE = "definite error"
    INTERNAL = "internal error"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One failure, with its places in the schedule and in the payload."""

    message: str
    kind: Kind = Kind.DEFINITE
    schedule: Location | None = None
    payload: Location | None = None
    required: str | None = None
    found: str | None = None
    notes: tuple[str, ...] = ()
    fix: str | None = None
    calls: tuple[tuple[str, Location], ...] = ()

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
            lines.append(f"  fix: {self.fix}")
        lines += [f"  in {name}, called from {place}" for name, place in self.calls]
        return "\n".join(lines)


class TcpxError(Exception):
    """Base of every error tcpx raises on purpose; `diagnostic` holds the facts."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.render())
        self.diagnostic = diagnostic

    def with_places(self, schedule: Location | None = None, payload: Location | None = None) -> TcpxError:
        """The same error with places filled in where it has none yet."""
        known = self.diagnostic
        return type(self)(replace(known, schedule=known.schedule or schedule, payload=known.payload or payload))


class ParseError(TcpxError):
    """A payload or schedule text that does not follow the grammar."""


class VerifyError(TcpxError):
    """A payload that breaks a rule of the IR."""


class ScheduleError(TcpxError):
    """A schedule that does not check, or a transform that does not apply."""


class ArgumentError(TcpxError, TypeError, ValueError):
    """A kernel or evaluator called with arguments of the wrong count, rank, dtype, shape or aliasing."""


class CompileError(TcpxError):
    """The C compiler is missing or refused the emitted code."""
