"""What an error came of: the texts and the options of a run, as they are when the error is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from tcpx.interp.engine import run_schedule
from tcpx.lowering import lower
from tcpx.payload.diagnostics import Diagnostic, Kind, Location, ParseError, TcpxError
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.payload.text.syntax import Source as PayloadSource
from tcpx.payload.text.syntax import parse_tree
from tcpx.target import Target, available_targets, load_target
from tcpx.transform.language import program_of_text
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.loader import Program
from tcpx.transform.language.parser import parse_text
from tcpx.transform.language.source import Source as ScheduleSource
from tcpx.transform.language.syntax import walk

_ENGINE = "run_schedule", "check_schedule", "run_and_lower"
_LONGEST = 20_000
"""Texts of more characters test sizes, not messages."""


@dataclass(frozen=True, slots=True)
class Case:
    """A payload, a schedule, or both, with the places of an error in them: line and column of start and end."""

    payload: str = ""
    schedule: str = ""
    target: str = "x86_avx512"
    threads: int = 1
    params: tuple[tuple[str, Any], ...] = ()
    func: str = ""
    lowers: bool = False
    payload_place: tuple[int, ...] = ()
    schedule_place: tuple[int, ...] = ()

    @property
    def follows_grammar(self) -> bool:
        """Whether the texts can be read, whatever is wrong with what they say."""
        try:
            if self.payload:
                parse_tree(self.payload, PayloadSource.of(self.payload, "payload.tcp"))
            if self.schedule:
                parse_text(ScheduleSource("schedule.tcps", self.schedule))
        except ParseError:
            return False
        return True

    def problems(self, file: str = "schedule.tcps") -> list[Diagnostic]:
        """The errors of the texts: all that a checker lists, or the first of a run."""
        try:
            return self._run(file)
        except TcpxError as error:
            return [error.diagnostic]

    def _run(self, file: str) -> list[Diagnostic]:
        module = parse(self.payload, "payload.tcp") if self.payload else None
        if not self.schedule:
            return []
        program = program_of_text(self.schedule, file)
        found = [d for d in check_program(program) if d.is_error]
        if module is None or found:
            return found
        target = load_target(self.target)
        run = run_schedule(
            module, program, target, threads=self.threads, params=dict(self.params), func=self.func,
            is_lowered=self.lowers,
        )  # fmt: skip
        remarks = run.remarks
        if self.lowers:
            remarks = (*remarks, *lower(run.rewriter, module.main, target, self.threads))
        return [d for d in remarks if d.kind is not Kind.WARNING]


class Texts:
    """Every text that was read in this process, by the name of its file, newest last."""

    def __init__(self) -> None:
        self._payloads: dict[str, list[str]] = {}
        self._schedules: dict[str, list[str]] = {}

    def install(self) -> None:
        """Listen to what is read."""
        of_payload, of_schedule = PayloadSource.of, ScheduleSource.__init__
        texts = self

        def of(text: str, file: str) -> PayloadSource:
            _keep(texts._payloads, file, text)
            return of_payload(text, file)

        def init(self: ScheduleSource, file: str, text: str) -> None:
            _keep(texts._schedules, file, text)
            of_schedule(self, file, text)

        PayloadSource.of = staticmethod(of)
        ScheduleSource.__init__ = init

    def case(self, diagnostic: Diagnostic, frame: FrameType | None) -> Case | None:
        """The case of a diagnostic that is made in a frame; None where its texts are not known."""
        known: dict[str, Any] = {}
        lowers = False
        while frame is not None:
            name, values = frame.f_code.co_name, frame.f_locals
            lowers = lowers or (name == "lower" and "rewriter" in values)
            for key, kind in (("program", Program), ("module", Module), ("target", Target)):
                if isinstance(values.get(key), kind):
                    known.setdefault(key, values[key])
            if name in _ENGINE:
                known |= {k: values[k] for k in ("threads", "params", "func") if values.get(k)}
            frame = frame.f_back
        return self._case(diagnostic, known, lowers)

    def _case(self, diagnostic: Diagnostic, known: dict[str, Any], lowers: bool) -> Case | None:
        program, module, target = known.get("program"), known.get("module"), known.get("target")
        of_schedule = [diagnostic.schedule] if diagnostic.schedule is not None else []
        of_payload = [diagnostic.payload] if diagnostic.payload is not None else []
        in_main = program is None or not of_schedule or of_schedule[0].file == program.main.file.path
        if not in_main or (program is not None and len(program.units) > 1 and not _is_plain(program)):
            return None
        schedule = _chosen(
            self._schedules, [*of_schedule, *(node.location for node in (walk(program.main.file) if program else ()))]
        )
        payload = _chosen(self._payloads, [*of_payload, *(_written(module) if module else ())])
        if not (schedule or payload) or (of_schedule and not schedule) or (of_payload and not payload):
            return None
        shipped = target.name if target is not None and target.name in available_targets() else "x86_avx512"
        return Case(
            payload, schedule, shipped, known.get("threads", 1), tuple((known.get("params") or {}).items()),
            known.get("func", ""), lowers, corners(diagnostic.payload), corners(diagnostic.schedule),
        )  # fmt: skip


def _keep(texts: dict[str, list[str]], file: str, text: str) -> None:
    known = texts.setdefault(file, [])
    if len(text) <= _LONGEST and (not known or known[-1] != text):
        known.append(text)


def _is_plain(program: Program) -> bool:
    """Whether what it imports lies in the library."""
    return all(program.is_of_library(Location(unit.file.path, 1, 1)) for unit in program.units[1:])


def _chosen(texts: dict[str, list[str]], places: Iterable[Location]) -> str:
    """The newest text in which all these places are."""
    of_files: dict[str, set[tuple[int, str]]] = {}
    for place in places:
        if place.text:
            of_files.setdefault(place.file, set()).add((place.line, place.text))
    for file, lines in of_files.items():
        for text in reversed(texts.get(file, [])):
            shown = text.removeprefix("\ufeff").split("\n")
            if all(line <= len(shown) and shown[line - 1].rstrip("\r") == content for line, content in lines):
                return text
        return ""
    return ""


def _written(module: Module) -> list[Location]:
    """Where operations of a module were written."""
    return [op.location for op in module.walk() if op.location is not None]


def corners(place: Location | None) -> tuple[int, ...]:
    """Line and column where a place starts and ends."""
    return (place.line, place.column, place.end_line, place.end_column) if place is not None else ()
