"""Every diagnostic of a test run: one record per message template, whichever process made it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tcpx.payload.diagnostics import Diagnostic, Direction, StepError, TcpxError
from tcpx.transform.language.checker.scope import Problems
from tests.diagnostics.case import Texts
from tests.diagnostics.follow import Fix, template

ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = str(ROOT / "tcpx")
_KEY = "_number_in_the_ledger"
_FIXES_PER_KIND = 2
_MAKERS = ("payload/diagnostics.py", "transform/arguments.py", "interp/frame.py", "checker/scope.py")


@dataclass(frozen=True, slots=True)
class Record:
    """A diagnostic, flat, and how it came about: the files of tcpx that were at work, innermost first."""

    error: str
    kind: str
    message: str
    required: str
    found: str
    rendered: str
    has_schedule: bool
    has_payload: bool
    stack: tuple[str, ...]

    @property
    def template(self) -> str:
        """The message without its names and numbers."""
        return template(self.message)

    @property
    def place(self) -> str:
        """The file of tcpx that found it."""
        return next((f for f in self.stack if not f.endswith(_MAKERS)), self.stack[0] if self.stack else "")


class Ledger:
    """What was recorded in this process; errors that were raised again with more places count once."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.fixes: dict[tuple[str, str], list[Fix]] = {}
        self.said: set[str] = set()
        """The messages of all diagnostics that tcpx made: remarks, which nothing raises, are among them."""
        self.texts = Texts()
        self._next = 0

    def install(self) -> None:
        """Listen to every error of tcpx, and to what its checkers list."""
        raised, listed, made = TcpxError.__init__, Problems.add, Diagnostic.__init__
        ledger = self

        def init(self: TcpxError, diagnostic: Diagnostic) -> None:
            raised(self, diagnostic)
            ledger.note(self, diagnostic)

        def add(self: Problems, *args: Any, **named: Any) -> None:
            listed(self, *args, **named)
            ledger.list(self.found[-1])

        def make(self: Diagnostic, *args: Any, **named: Any) -> None:
            made(self, *args, **named)
            if sys._getframe(1).f_code.co_filename.startswith(_PACKAGE):
                ledger.said.add(str(self.message))

        TcpxError.__init__ = init
        Problems.add = add
        Diagnostic.__init__ = make
        self.texts.install()

    def note(self, error: TcpxError, diagnostic: Diagnostic) -> None:
        """Record an error; what it replaces while it is handled, and says at its end, is forgotten."""
        handled = sys.exc_info()[1]
        if _is_of_edited_text(sys._getframe(2)):
            setattr(error, _KEY, None)
            return
        stack = tuple(_files(sys._getframe(2)))
        is_same = isinstance(error, StepError)  # in the names of the payload
        if isinstance(handled, TcpxError) and (is_same or diagnostic.message.endswith(handled.diagnostic.message)):
            old = self.records.pop(getattr(handled, _KEY, -1), None)
            stack = (*old.stack, *stack) if old is not None else stack
        if stack and stack[0] != "tests" and getattr(handled, _KEY, 0) is not None:
            self._note_fix(diagnostic, sys._getframe(2))
            setattr(error, _KEY, self._keep(_record(type(error).__name__, diagnostic, stack)))
        else:
            setattr(error, _KEY, None)  # made by a test; so is what takes its place

    def list(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic that is listed, not raised."""
        if _is_of_edited_text(sys._getframe(2)):
            return
        self._note_fix(diagnostic, sys._getframe(2))
        self._keep(_record("ScheduleError", diagnostic, tuple(_files(sys._getframe(2)))))

    def _note_fix(self, diagnostic: Diagnostic, frame: FrameType) -> None:
        """Record a fix that can be written as it stands, some of each kind, with the texts that it is for."""
        if diagnostic.fix is None or isinstance(diagnostic.fix, Direction):
            return
        known = self.fixes.setdefault((template(diagnostic.message), template(diagnostic.fix)), [])
        if len(known) < _FIXES_PER_KIND:
            fix = Fix.of(diagnostic, _line(frame), self.texts.case(diagnostic, frame))
            known += [fix] if fix not in known else []

    def _keep(self, record: Record) -> int:
        self._next += 1
        self.records[self._next] = record
        return self._next

    def plain(self, problems: Callable[[Record], Iterable[str]]) -> list[dict[str, Any]]:
        """One record per template, place and what is wrong with it, as xdist carries it from a worker."""
        chosen: dict[tuple[str, str, tuple[str, ...]], Record] = {}
        for record in self.records.values():
            key = record.template, record.place, tuple(problems(record))
            if key not in chosen or order(record) < order(chosen[key]):
                chosen[key] = record
        return [asdict(record) for record in chosen.values()]


def order(record: Record) -> tuple[bool, int, str]:
    """The best example first: complete, then short, then by the alphabet."""
    return not (record.required and record.found), len(record.rendered), record.rendered


def read(plain: list[dict[str, Any]]) -> list[Record]:
    """The inverse of `plain`."""
    return [Record(**{**p, "stack": tuple(p["stack"])}) for p in plain]


def _record(error: str, diagnostic: Diagnostic, stack: tuple[str, ...]) -> Record:
    return Record(
        error=error,
        kind=diagnostic.kind.value,
        message=str(diagnostic.message),  # a token of the parser is a string of its own kind
        required=str(diagnostic.required or ""),
        found=str(diagnostic.found if diagnostic.found is not None else ""),
        rendered=stable(diagnostic.render()),
        has_schedule=diagnostic.schedule is not None,
        has_payload=diagnostic.payload is not None,
        stack=stack,
    )


def _files(frame: FrameType | None) -> Iterator[str]:
    """The files of tcpx and of the tests on the stack, innermost first, each once, up to the first test."""
    last = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PACKAGE):
            shown = f"{Path(name).relative_to(ROOT)}"
        elif name.startswith(str(ROOT / "tests")) and "diagnostics/" not in name:
            yield "tests"
            return
        else:
            shown = last
        if shown != last:
            yield shown
        last = shown
        frame = frame.f_back


def _is_of_edited_text(frame: FrameType | None) -> bool:
    """Whether it is only asked whether a fix helps."""
    while frame is not None and not frame.f_code.co_filename.endswith("diagnostics/follow.py"):
        frame = frame.f_back
    return frame is not None


def _line(frame: FrameType | None) -> str:
    """The line of tcpx that found an error."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PACKAGE) and not name.endswith((*_MAKERS, "payload/ir.py")):
            return f"{Path(name).relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def stable(text: str) -> str:
    """Without what differs between machines and runs."""
    text = text.replace(str(ROOT) + "/", "")
    text = re.sub(r"/tmp/\S*?/(?=[^/\s]+(?:\s|$|:))", "<tmp>/", text)
    return re.sub(r"\b0x[0-9a-f]{6,}\b", "0x..", text)
