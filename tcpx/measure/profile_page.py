"""A profile as one HTML file that needs nothing else: a flame picture, a roofline, a table."""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

import tcpx
from tcpx.measure.flame import flame_svg
from tcpx.measure.limits import Limits
from tcpx.measure.picture import Point, roofline_svg
from tcpx.measure.profile_table import COLUMNS, LEAST, ProfileLine, lines_of, memory_of, summary_of, title_of
from tcpx.measure.roofline import PEAK
from tcpx.measure.rows import Row
from tcpx.quantities import percent
from tcpx.report.styles import style_of

_ROOFLINE: Final = """\
<h2>Roofline</h2>
<p>A point is a statement, as large as its part of the time, in the colour of its function. The lines are what the
machine can do at most: operations a second, and bytes a second from each level of memory. Bytes are those from beyond
the first-level cache; statements without operations or such bytes, and the shortest, are not in the picture.</p>
<figure>{}</figure>
"""
_COUNT: Final = len(COLUMNS)


def profile_page(profile: tcpx.Profile, rows: Sequence[Row] = (), limits: Limits | None = None) -> str:
    """The page, with a roofline where the limits of the machine are known; `rows` are those of `shown_rows` then."""
    folder = files("tcpx.measure")
    template, style, script = (
        (folder / f"profile.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    return Template(template).substitute(
        title=escape(f"Profile of {title_of(profile)}"),
        style=f"{style_of('document')}\n{style.strip()}",
        script=script.strip(),
        summary=escape(f"A call: {summary_of(profile)}; {memory_of(profile)}."),
        flame=flame_svg(profile),
        roofline=_ROOFLINE.format(_roofline(profile, rows, limits)) if limits is not None else "",
        columns="".join(f'<th title="{escape(said)}">{name}</th>' for name, said in COLUMNS.items()),
        rows="\n".join(_bodies(list(lines_of(profile, rows, LEAST)))),
        remarks="".join(f"<pre>{escape(each.render())}</pre>" for each in profile.remarks if not any(each.statement)),
        meanings="\n".join(f"<dt>{name}</dt><dd>{escape(said)}</dd>" for name, said in COLUMNS.items()),
    )


def _roofline(profile: tcpx.Profile, rows: Sequence[Row], limits: Limits) -> str:
    """The statements under the limits, those of most time first."""
    points = [
        Point(
            held.node or held.title,
            f"@{held.function}",
            held.operations,
            held.l2_bytes,
            held.median,
            f"{percent(row.fraction)} of the limit ({row.limited_by})" if row.fraction is not None else "",
            profile.share(held),
        )
        for held, row in zip(profile.rows, rows, strict=True)
        if held.operations and held.l2_bytes and held.median and profile.share(held) >= LEAST
    ]
    points.sort(key=lambda point: point.share, reverse=True)
    used = {peak for held in profile.rows for peak in held.peaks}
    return roofline_svg(points, limits, {PEAK, *used})


def _bodies(lines: Sequence[ProfileLine]) -> Iterator[str]:
    """A body of the table for each line that is no part, with the parts that follow it."""
    for k, line in enumerate(lines):
        if line.kind == "part":
            continue
        parts: list[ProfileLine] = []
        for part in lines[k + 1 :]:
            if part.kind != "part":
                break
            parts.append(part)
        remarks = "".join(map(_remark, line.remarks))
        yield f"<tbody>{_row(line, bool(parts))}{remarks}{''.join(_row(part, False) for part in parts)}</tbody>"


def _remark(remark: tcpx.Diagnostic) -> str:
    """A row with the message, and the whole remark below it."""
    text = f"<details><summary>{escape(remark.message)}</summary><pre>{escape(remark.render())}</pre></details>"
    return f'<tr class="remark"><td colspan="{_COUNT}">{text}</td></tr>'


def _row(line: ProfileLine, opens: bool) -> str:
    *figures, name = (escape(cell.strip()) for cell in line.cells)
    if line.kind in ("statement", "rest"):
        name = f"<button>{name}</button>" if opens else f'<span class="plain">{name}</span>'
    return f'<tr class="{line.kind}">{"".join(f"<td>{cell}</td>" for cell in figures)}<td>{name}</td></tr>'
