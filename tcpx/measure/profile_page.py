"""A profile as one HTML file that needs nothing else: a flame picture, a roofline, a table."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import tcpx
from tcpx.measure.limits import Limits
from tcpx.measure.picture import COLOURS, FONT, roofline_svg
from tcpx.measure.profile_table import summary_of, title_of
from tcpx.measure.rows import Row

WIDTH: Final = 1100
LINE: Final = 24
NARROWEST: Final = 0.4
"""Of a box that is drawn, in units of the picture."""
LETTER: Final = 6.6
DEEPEST: Final = 40

_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font-family: sans-serif; margin: 2em auto; max-width: 1140px; color: #222; background: #fff; }}
table {{ border-collapse: collapse; font-size: 13px; }}
td, th {{ padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; }}
td:last-child, th:last-child {{ text-align: left; font-family: monospace; }}
svg {{ width: 100%; }}
</style></head><body>
<h1>{title}</h1>
<p>{summary}. Boxes are as wide as their part of the time; below a call is what it
runs. Workspace {workspace} bytes, constants {constants} bytes.</p>
{flame}
{roofline}<h2>Statements</h2>
<table><tr>{columns}</tr>
{rows}
</table></body></html>
"""
_ROOFLINE: Final = """\
<h2>Operations a second over operations per byte</h2>
{}
"""
_MEASURED: Final = ("share", "us", "runs", "GFLOP/s", "GB/s")
_LIMITED: Final = ("of the limit", "set by")


def profile_page(profile: tcpx.Profile, rows: Sequence[Row] = (), limits: Limits | None = None) -> str:
    """The page, with a roofline where the limits of the machine are known; `rows` are those of `shown_rows` then."""
    columns = (*_MEASURED, *(_LIMITED if limits is not None else ()), "statement")
    roofline = ""
    if limits is not None:
        roofline = _ROOFLINE.format(roofline_svg([row for row in rows if row.operations and row.bytes], limits))
    return _PAGE.format(
        title=escape(title_of(profile)),
        summary=escape(summary_of(profile)),
        workspace=profile.workspace_bytes,
        constants=profile.constants_bytes,
        flame=_flame(profile),
        roofline=roofline,
        columns="".join(f"<th>{column}</th>" for column in columns),
        rows="\n".join(_table(profile, rows)),
    )


def _table(profile: tcpx.Profile, rows: Sequence[Row]) -> Iterator[str]:
    pairs = zip(profile.rows, rows or [None] * len(profile.rows), strict=True)
    for held, row in sorted(pairs, key=lambda pair: -pair[0].seconds):
        cells = [
            f"{profile.share(held):.1%}",
            f"{held.seconds * 1e6:.2f}",
            f"{held.runs:g}",
            f"{held.gflops:.1f}" if held.operations else "",
            f"{held.gigabytes:.1f}" if held.l2_bytes else "",
            *((f"{row.fraction:.0%}" if row.fraction is not None else "", row.limited_by) if row is not None else ()),
            f"@{held.function}: {held.title}{f' ({held.node})' if held.node else ''}",
        ]
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _flame(profile: tcpx.Profile) -> str:
    """The statements of the kernel side by side, and those of the functions that they call below them."""
    boxes = list(_boxes(profile, profile.kernel, 0.0, 1.0, 0))
    height = LINE * (2 + max((level for *_, level in boxes), default=0))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>']
    for label, start, part, level in [(f"@{profile.kernel}", 0.0, 1.0, -1), *boxes]:
        if part * WIDTH >= NARROWEST:
            parts.append(_box(label, start, part, level + 1))
    return "\n".join([*parts, "</svg>"])


def _boxes(
    profile: tcpx.Profile, function: str, start: float, part: float, level: int
) -> Iterator[tuple[str, float, float, int]]:
    """Label, beginning and width as parts of the whole, level. Of a function that is called at several places, each has
    its part."""
    own = [row for row in profile.rows if row.function == function]
    whole = sum(row.seconds for row in own) if level else profile.seconds
    for row in own if whole > 0 and level < DEEPEST else ():
        width = part * row.seconds / whole
        yield (f"@{row.callee}" if row.callee else row.operation), start, width, level
        if row.callee:
            yield from _boxes(profile, row.callee, start, width, level + 1)
        start += width


def _box(label: str, start: float, part: float, level: int) -> str:
    x, width, y = start * WIDTH, part * WIDTH, level * LINE
    colour = COLOURS[sum(map(ord, label)) % len(COLOURS)]
    letters = int((width - 6) / LETTER)
    shown = label if len(label) <= letters else f"{label[: letters - 2]}.." if letters > 3 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 16}">{escape(shown)}</text>' if shown else ""
    return (
        f"<g><title>{escape(label)}: {part:.1%}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 2}" fill="{colour}" fill-opacity="0.45"/>'
        f"{text}</g>"
    )
