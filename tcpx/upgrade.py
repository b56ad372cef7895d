"""Schedules of an older version of the language, in the newest one with the same meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tcpx.interp.contract import expected_payload
from tcpx.interp.engine import run_schedule
from tcpx.loading import PayloadLike, module_of
from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.target import Target, load_target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import check_functions
from tcpx.transform.language.edits import concerned, edited, with_argument, with_language
from tcpx.transform.language.formatter import format_schedule
from tcpx.transform.language.loader import Program, language_of, program_of_text
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language_versions import NEWEST

Place = tuple[Path, int, int]


@frozen
class Upgraded:
    """A text in the newest version of the language, formatted; `changes` say what is different, by lines of the text
    before."""

    text: str
    changes: tuple[str, ...] = ()


def upgrade_schedules(
    texts: Mapping[str, str], payloads: Sequence[PayloadLike] = (), *, target: str | Target = "native"
) -> dict[str, Upgraded]:
    """Schedule texts, by their paths, in the newest version of the language, with the same meaning.

    A statement that the newest version may refuse gets the argument that gives it the meaning it had. The schedules
    among the texts run on the payloads, or each on the one that it `expects`: statements that ran and that the newest
    version does not refuse there stay as they are. Raises ParseError and ScheduleError, also for what the newest
    version cannot say.
    """
    files = {path: parse_schedule(text, path) for path, text in texts.items()}
    old = {path: file for path, file in files.items() if language_of(file) != NEWEST}
    for file in old.values():
        check_functions(file, NEWEST)
    unaffected: set[Place] = set()
    if any(True for file in old.values() for _ in concerned(file)):
        unaffected = _unaffected(texts, [module_of(payload) for payload in payloads], load_target(target))
    return {
        path: _upgraded(text, old[path], unaffected) if path in old else Upgraded(format_schedule(text, path))
        for path, text in texts.items()
    }


def _upgraded(text: str, file: ast.File, unaffected: set[Place]) -> Upgraded:
    edits = [with_language(text, file)]
    changes = [f"{file.items[0].location.line}: language {NEWEST}, was {language_of(file)}"]
    for each in concerned(file):
        if _key(each.place) not in unaffected:
            edits.append(with_argument(text, each))
            done = f"which `{each.difference.subject}` did in language {language_of(file)}"
            changes.append(f"{each.place.line}: {each.difference.argument}: true, {done}")
    return Upgraded(format_schedule(edited(text, edits), file.path), tuple(changes))


def _unaffected(texts: Mapping[str, str], modules: Sequence[Module], target: Target) -> set[Place]:
    """The statements that the schedules of the texts reach on their payloads, and that mean the same there."""
    fired: set[Place] = set()
    outdated: set[Place] = set()
    for path, text in texts.items():
        program = program_of_text(text, path, beside=Path(path).parent)
        for schedule in program.main.schedules.values():
            for module in _payloads(program, schedule, modules):
                trace = run_schedule(copy_module(module), program, target, schedule=schedule.name).trace
                fired |= {(Path(file).resolve(), line, column) for file, line, column in trace.fired}
                outdated |= {_key(place) for _, place in trace.outdated}
    return fired - outdated


def _payloads(program: Program, schedule: ast.Schedule, given: Sequence[Module]) -> Sequence[Module]:
    expected = expected_payload(program, schedule)
    return given if expected is None else [expected]


def _key(place: Location) -> Place:
    return Path(place.file).resolve(), place.line, place.column
