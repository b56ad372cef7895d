"""The nested functions of a profile as a picture: boxes as wide as their part of the time."""

from collections.abc import Iterator
from html import escape
from typing import Final

import tcpx
from tcpx.measure.labels import LETTER
from tcpx.measure.picture import COLOURS
from tcpx.quantities import duration, percent
from tcpx.records import frozen

WIDTH: Final = 1100
LINE: Final = 24
NARROWEST: Final = 0.4
"""Of a box that is drawn, in units of the picture."""
DEEPEST: Final = 40
FEWEST_PARTS: Final = 2


@frozen
class _Box:
    """A statement, or with `is_part` an operation in it or what no statement accounts for: where it begins, and its
    width, as parts of the whole."""

    label: str
    said: str
    start: float
    width: float
    level: int
    is_part: bool = False


def flame_svg(profile: tcpx.Profile) -> str:
    """The statements of the kernel side by side; below them those of the functions that they call, or the operations of
    the payload that are fused in them."""
    whole = _Box(f"@{profile.kernel}", duration(profile.seconds), 0.0, 1.0, 0)
    boxes = [box for box in (whole, *_boxes(profile, profile.kernel, 0.0, 1.0, 1)) if box.width * WIDTH >= NARROWEST]
    height = LINE * (1 + max(box.level for box in boxes))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" class="flame" role="img"'
    return "\n".join([f'{head} aria-label="where the time goes">', *map(_drawn, boxes), "</svg>"])


def _boxes(profile: tcpx.Profile, function: str, start: float, part: float, level: int) -> Iterator[_Box]:
    """Of a function that is called at several places, each has its part."""
    own = [row for row in profile.rows if row.function == function]
    whole = sum(row.seconds for row in own) if level > 1 else profile.seconds
    for row in own if whole > 0 and level < DEEPEST else ():
        width = part * row.seconds / whole
        yield _Box(f"@{row.callee}" if row.callee else row.title, duration(row.median), start, width, level)
        if row.callee:
            yield from _boxes(profile, row.callee, start, width, level + 1)
        elif row.inside:
            yield from _called(profile, row, start, width, level + 1)
        elif len(row.parts) >= FEWEST_PARTS:
            yield from _parts(row, start, width, level + 1)
        start += width
    for rest in profile.rest if level == 1 else ():
        if rest.function in ("", profile.kernel):
            width = part * rest.seconds / whole
            yield _Box(rest.title, duration(rest.median), start, width, level, is_part=True)
            start += width


def _called(profile: tcpx.Profile, row: tcpx.ProfileRow, start: float, width: float, level: int) -> Iterator[_Box]:
    """The functions that a nest calls in its loops; where threads run them at the same time, they share its width."""
    spent = {name: sum(held.seconds for held in profile.rows if held.function == name) for name in row.inside}
    whole = max(row.seconds, sum(spent.values()))
    for name, seconds in spent.items():
        part = width * seconds / whole if whole else 0.0
        yield _Box(f"@{name}", duration(seconds), start, part, level)
        yield from _boxes(profile, name, start, part, level + 1)
        start += part


def _parts(row: tcpx.ProfileRow, start: float, width: float, level: int) -> Iterator[_Box]:
    for part in row.parts:
        name = part.node or part.place
        yield _Box(name, "modelled", start, width * part.share, level, is_part=True)
        start += width * part.share


def _drawn(box: _Box) -> str:
    x, width, y = box.start * WIDTH, box.width * WIDTH, box.level * LINE
    colour = COLOURS[sum(map(ord, box.label)) % len(COLOURS)]
    letters = int((width - 6) / LETTER)
    shown = box.label if len(box.label) <= letters else f"{box.label[: letters - 2]}.." if letters > 3 else ""
    text = f'<text x="{x + 3:.1f}" y="{y + 16}">{escape(shown)}</text>' if shown else ""
    kind = ' class="part"' if box.is_part else ""
    return (
        f"<g{kind}><title>{escape(box.label)}: {percent(box.width)}, {box.said}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 2}" fill="{colour}"/>{text}</g>'
    )
