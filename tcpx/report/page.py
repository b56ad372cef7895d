"""A run of a schedule as one HTML file that needs nothing else: data, style and script are in it."""

import json
from importlib.resources import files
from pathlib import PurePath
from string import Template
from typing import Final, cast

from tcpx.interp import TraceEntry
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Location, python_type_of
from tcpx.plurals import counted
from tcpx.report.explanation import Explanation
from tcpx.report.nest_changes import MarkedLine, marked
from tcpx.report.styles import style_of
from tcpx.transform.declaration import transforms
from tcpx.transform.loop_nest import NestLine

VERSIONS: Final = "versions"
"""The category of steps that no transform makes: the versions of `specialize`."""

Json = str | int | float | None | list["Json"] | dict[str, "Json"]


def html_page(explanation: Explanation) -> str:
    """The page. Every text of the payload, the schedule and the C is data in it, never markup or script.

    Raises ArgumentError for what is no explanation.
    """
    if not isinstance(cast("object", explanation), Explanation):
        required, found = "what `tcpx.explain` returns", python_type_of(explanation)
        raise ArgumentError(Diagnostic("this is no explanation", required=required, found=found))
    folder = files("tcpx.report")
    template, script = ((folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.js"))
    return Template(template).substitute(
        title=_escaped(f"@{explanation.func}: {counted(len(explanation.steps), 'step')}"),
        style=style_of("page"),
        script=script.strip(),
        data=_script_text(json.dumps(_data(explanation), ensure_ascii=False, separators=(",", ":"))),
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _script_text(text: str) -> str:
    """JSON that cannot end the element it stands in, nor open a comment there."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class _Table:
    """Texts by number, each once: most lines of a step are those of the step before."""

    def __init__(self) -> None:
        self.texts: list[Json] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known

    def numbers(self, texts: tuple[str, ...]) -> list[Json]:
        return [self.number(text) for text in texts]


def _data(explanation: Explanation) -> Json:
    table = _Table()
    nest = list(explanation.first_nest.lines())
    first = _nest([MarkedLine("|", line) for line in nest], table)
    steps: list[Json] = []
    for step in explanation.steps:
        after = list(step.loops.lines()) if step.loops is not None else None
        steps.append(_step(step, nest, after, table))
        nest = after if after is not None else nest
    return {
        "func": explanation.func,
        "payload": PurePath(explanation.payload_file).name,
        "schedule": PurePath(explanation.schedule_files[0]).name,
        "target": explanation.target,
        "threads": explanation.threads,
        "error": explanation.error.render() if explanation.error is not None else None,
        "before": table.numbers(explanation.before),
        "nest": first,
        "steps": steps,
        "c": _c(explanation, table),
        "knobs": [list(line) for line in explanation.knob_lines()],
        "ran": explanation.ran,
        "leftAlone": explanation.left_alone,
        "remarks": [[*remark.statement, remark.message, remark.render()] for remark in explanation.remarks],
        "texts": table.texts,
    }


def _step(step: TraceEntry, before: list[NestLine], after: list[NestLine] | None, table: _Table) -> Json:
    return {
        "transform": step.transform,
        "category": _category(step),
        "statement": " ".join(step.statement.split()),
        "place": _place(step.location),
        "calls": [[name, _place(place)] for name, place in step.calls],
        "bound": [[name, denoted] for name, denoted in step.bound],
        "made": [[name, denoted] for name, denoted in step.made],
        "changed": [*step.changed],
        "remarks": [*step.remarks, *(f"{name}:\n{text}" for name, text in step.snapshots)],
        "ms": round(step.seconds * 1e3, 3),
        "visited": step.visited,
        "edits": [[e.at, len(e.removed), table.numbers(e.added)] for e in step.edits or ()],
        "nest": _nest(marked(before, after), table) if after is not None else None,
    }


def _category(step: TraceEntry) -> str:
    transform = transforms().get(step.transform)
    return transform.category.value if transform is not None else VERSIONS


def _nest(lines: list[MarkedLine], table: _Table) -> list[Json]:
    return [
        [
            marked_line.mark,
            marked_line.line.depth,
            marked_line.line.kind.value,
            table.number(marked_line.line.name),
            table.number(marked_line.line.subject),
            table.number(_place(marked_line.line.place)),
        ]
        for marked_line in lines
    ]


def _place(place: Location | None) -> str:
    return place.short if place is not None else ""


def _c(explanation: Explanation, table: _Table) -> Json:
    """The lines of the C: text, and for those of an operation its name, its steps (from 1) and its schedule line."""
    if explanation.source is None:
        return []
    lines: list[Json] = []
    for number, text in enumerate(explanation.source.c_source.rstrip("\n").split("\n"), 1):
        origin = explanation.source.origins.get(number)
        if origin is None:
            lines.append([table.number(text)])
        else:
            steps: list[Json] = [*origin.steps]
            lines.append([table.number(text), table.number(origin.operation), steps, _place(origin.schedule)])
    return lines
