"""The text of a recorded file, and where its nodes stand in it: what is printed into the C names that text."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from tcpx.payload.diagnostics import Diagnostic, Kind, Location, ScheduleError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language.printer import print_file

T = TypeVar("T")


def with_printed_places(file: ast.File) -> ast.File:
    """The same tree, whose locations know the line of the printed text. Raises ScheduleError, internal, where the
    text would mean something else."""
    text = print_file(file)
    parsed = parse_schedule(text, file.path)
    if parsed != file:
        raise ScheduleError(
            Diagnostic(
                "the printed schedule is not the recorded one",
                Kind.INTERNAL,
                required="text that parses back equal",
                found=text,
            )
        )
    return _placed(file, parsed)


def _placed(recorded: T, parsed: T) -> T:
    """Both walked in step."""
    if isinstance(recorded, tuple):
        pairs = zip(cast("tuple[object, ...]", recorded), cast("tuple[object, ...]", parsed), strict=True)
        return cast("T", tuple(_placed(a, b) for a, b in pairs))
    if isinstance(recorded, Location) and isinstance(parsed, Location):
        return cast("T", replace(recorded, printed=(parsed.file, parsed.line)))
    if is_dataclass(recorded) and not isinstance(recorded, type):
        node: Any = recorded
        made = {f.name: _placed(getattr(recorded, f.name), getattr(parsed, f.name)) for f in fields(node)}
        return cast("T", replace(node, **made))
    return recorded
