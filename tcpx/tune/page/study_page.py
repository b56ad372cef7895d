"""A study as one HTML file that needs nothing else: style and pictures are in it, and there is no script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final

from tcpx.measure.picture import Point, roofline_svg
from tcpx.plurals import counted
from tcpx.quantities import percent
from tcpx.report.styles import style_of
from tcpx.tune.importance import importance
from tcpx.tune.page.effects import effect_svg
from tcpx.tune.page.history import history_svg
from tcpx.tune.verdicts import Candidate, Verdict

if TYPE_CHECKING:
    from tcpx.tune.study import Study

MOST_REASONS: Final = 3
CANDIDATES: Final = "candidates"


def study_page(study: Study) -> str:
    """The page. Every text of the payload, the schedule and the compiler is escaped."""
    folder = files("tcpx.tune.page")
    template, style = ((folder / name).read_text(encoding="utf-8") for name in ("study.html", "study.css"))
    main = study.module.main.name
    return Template(template).substitute(
        title=escape(f"Tuning of @{main} for {study.target}, {counted(study.threads, 'thread')}"),
        style=f"{style_of('document')}\n{style.strip()}",
        summary=escape(study.text()),
        history=history_svg(study.candidates, study.names) if study.candidates else "",
        effects="\n".join(_effects(study)) or "<p>No knob was tried with two values.</p>",
        verdicts=_verdicts(study.candidates),
        roofline=_roofline(study),
        params=_table(("knob", "value"), ((study.names(path), value) for path, value in study.params.items())),
        provenance=_table(("", ""), {**study.key.facts, **study.provenance()}.items()),
    )


def _effects(study: Study) -> Iterable[str]:
    """A plot for each knob, those that mattered most first."""
    weights = importance(study.candidates)
    paths = dict.fromkeys([*weights, *(path for c in study.candidates for path in c.point)])
    for path in paths:
        plot = effect_svg(path, study.candidates)
        if plot is not None:
            share = f"{percent(weights[path])} of the variance" if path in weights else ""
            yield f"<figure><figcaption>{escape(study.names(path))} <em>{share}</em></figcaption>{plot}</figure>"


def _verdicts(candidates: Sequence[Candidate]) -> str:
    """How many candidates ended how, and why most of them."""
    rows: list[tuple[object, ...]] = []
    for verdict in Verdict:
        held = [c for c in candidates if c.verdict is verdict]
        if held:
            reasons = Counter(c.reason for c in held if c.reason).most_common(MOST_REASONS)
            rows.append((verdict.value, len(held), "; ".join(f"{reason} ({count})" for reason, count in reasons)))
    return _table(("verdict", "candidates", "most of all"), rows)


def _roofline(study: Study) -> str:
    roof = study.roof
    if roof is None:
        return "<p>Nothing that this payload does has a limit that was measured.</p>"
    final, best = study.final, study.best
    times: list[tuple[str, float]] = [
        (CANDIDATES, c.comparison.seconds) for c in study.candidates if c.comparison is not None and c != best
    ]
    for name, found in (("without a schedule", final.against_no_schedule), ("the defaults", final.against_defaults)):
        if found is not None:
            times.append((name, found.seconds / found.ratio))
    if best is not None and best.comparison is not None:
        fastest = f"#{best.number}" if study.keeps_defaults else "the winner"
        times.append((fastest, final.seconds or best.comparison.seconds))
    points = [
        Point(
            name if name != CANDIDATES else "",
            name,
            roof.operations,
            roof.bytes,
            seconds,
            f"{percent(roof.fraction(seconds))} of the limit",
        )
        for name, seconds in times
    ]
    return roofline_svg(points, roof.limits)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["<table>"]
    if any(head):
        lines.append(f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>")
    lines += [f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])
