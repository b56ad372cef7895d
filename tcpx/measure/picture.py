"""The roofline as a picture: operations a second over operations per byte, both logarithmic, as SVG."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from html import escape
from math import atan2, ceil, cos, degrees, floor, log10, radians, sin, sqrt
from typing import Final

from tcpx.measure.labels import LETTER, Box, box_of, placed
from tcpx.measure.limits import Limits
from tcpx.measure.rows import Row
from tcpx.quantities import duration, percent
from tcpx.records import frozen

WIDTH, HEIGHT = 960, 540
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 34, 52
COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#999933", "#882255", "#9a9a9a"),
    *("#6a3d9a", "#b15928", "#44bb44"),
)
LINE_HEIGHT: Final = 14
LEGEND_LINE: Final = 16
BESIDE: Final = 1.2
"""The name of a slope begins so many times as far to the right as the slope."""
ROOM: Final = 1.5
"""The axes go so many times farther than points."""
LEVELS: Final = ("read_l1", "read_l2", "read_l3", "read_memory")
LONGEST: Final = 28
"""Letters of a name beside a point."""
SMALLEST, WIDEST = 3.5, 9.0
"""The radius of a point of no time, and what one of all time has more."""
STYLE: Final = """\
.roofline { font: 11px system-ui, "DejaVu Sans", sans-serif; }
.roofline .back { fill: #fff; } .roofline text { fill: #44474d; } .roofline .grid { stroke: #e8e7e2; }
.roofline .roof { stroke: #8a8d93; stroke-width: 1.4; } .roofline .name { fill: #6c6f76; }
.roofline .far { stroke: #b4b6ba; } .roofline circle { fill-opacity: .75; stroke: #fff; stroke-width: 1; }
.roofline .names { pointer-events: none; }
.roofline .names text { paint-order: stroke; stroke: #fff; stroke-width: 3px; }
.roofline g:hover circle { fill-opacity: 1; stroke: #1d1f23; }
@media (prefers-color-scheme: dark) {
  .roofline .back { fill: #171a1f; } .roofline text { fill: #c3c6cc; } .roofline .grid { stroke: #2a2e35; }
  .roofline .roof { stroke: #7c818b; } .roofline .name { fill: #9a9fa8; } .roofline .far { stroke: #5f656f; }
  .roofline circle, .roofline .names text { stroke: #171a1f; } .roofline g:hover circle { stroke: #e3e5e8; }
}"""


@frozen
class Point:
    """What runs so many operations and reads and writes so many bytes in `seconds`. Points of a `group` have a colour;
    `name` stands beside it where there is room, `more` is said when it is pointed at. The size of a point is its
    `share`."""

    name: str
    group: str
    operations: float
    bytes: float
    seconds: float
    more: str = ""
    share: float = 0.05

    @property
    def rate(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes


class _Axes:
    """From operations per byte and operations a second to places in the picture."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.left, self.right = floor(log10(min(xs))), max(ceil(log10(max(xs))), floor(log10(min(xs))) + 1)
        self.low, self.high = floor(log10(min(ys))), max(ceil(log10(max(ys))), floor(log10(min(ys))) + 1)

    def x(self, value: float) -> float:
        return LEFT + (log10(value) - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (log10(value) - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    @property
    def slope(self) -> float:
        """The angle of a line of constant bandwidth, in degrees, as SVG turns."""
        return -degrees(atan2(self.y(10.0**self.low) - self.y(10.0 ** (self.low + 1)), self.x(10) - self.x(1)))


@frozen
class _Text:
    x: float
    y: float
    words: str
    anchor: str = "start"
    kind: str = ""
    turned: float = 0.0

    def __str__(self) -> str:
        kind = f' class="{self.kind}"' if self.kind else ""
        turned = f' transform="rotate({self.turned:.1f} {self.x:.1f} {self.y:.1f})"' if self.turned else ""
        place = f'x="{self.x:.1f}" y="{self.y:.1f}" text-anchor="{self.anchor}"'
        return f"<text {place}{kind}{turned}>{escape(self.words)}</text>"

    @property
    def box(self) -> Box:
        return box_of(self.x, self.y, self.words, self.anchor)


def points_of(rows: Sequence[Row]) -> list[Point]:
    """A point for each row that was measured, in the group of its peer."""
    return [
        Point(
            row.workload,
            row.peer,
            row.operations,
            row.bytes,
            row.median_s,
            f"{percent(row.fraction)} of the limit" if row.fraction is not None else "",
        )
        for row in rows
        if row.median_s and row.operations and row.bytes
    ]


def roofline_svg(points: Sequence[Point], limits: Limits, only: Collection[str] | None = None) -> str:
    """Points, a colour for each group, the first one on top, under the roofs of each bandwidth and each peak, or of the
    peaks in `only`."""
    peaks = {name: rate for name, rate in limits.rates.items() if name.startswith(("fma", "dot", "add"))}
    peaks = {name: rate for name, rate in peaks.items() if only is None or name in only} or peaks
    bandwidths = {name: limits.rates[name] for name in LEVELS if name in limits.rates}
    axes = _Axes(
        [0.1, *(held for p in points for held in (p.intensity / ROOM, p.intensity * ROOM)), 100.0],
        [1e9, *(point.rate / ROOM for point in points), max(peaks.values(), default=1e12)],
    )
    groups = list(dict.fromkeys(point.group for point in points))
    colours = {group: COLOURS[k % len(COLOURS)] for k, group in enumerate(groups)}
    names, legend = _names(axes, peaks, bandwidths), _legend(colours)
    taken = [text.box for text in names if not text.turned] + [text.box for _, text in legend]
    drawn, beside = _points(axes, points, colours, [*taken, *_boxes_of_slopes(names)])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" class="roofline" role="img" '
        'aria-label="operations a second over operations per byte">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        *_grid(axes),
        *_roofs(axes, peaks, bandwidths),
        *reversed(drawn),
        '<g class="names">',
        *map(str, names),
        *beside,
        "</g>",
        *(f"{dot}{text}" for dot, text in legend),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _grid(axes: _Axes) -> Iterator[str]:
    for power in range(axes.left, axes.right + 1):
        x = axes.x(10.0**power)
        yield _line(x, TOP, x, HEIGHT - BOTTOM, "grid")
        yield str(_Text(x, HEIGHT - BOTTOM + 16, f"{10.0**power:g}", "middle"))
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        yield _line(LEFT, y, WIDTH - RIGHT, y, "grid")
        yield str(_Text(LEFT - 6, y + 4, f"{10.0 ** (power - 9):g}", "end"))
    yield str(_Text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "operations per byte (op/byte)", "middle"))
    yield str(_Text(8, TOP - 16, "10^9 operations a second (Gop/s)"))


def _roofs(axes: _Axes, peaks: Mapping[str, float], bandwidths: Mapping[str, float]) -> Iterator[str]:
    """A slope per bandwidth up to the highest peak, a level line per peak."""
    left, right, high = 10.0**axes.left, 10.0**axes.right, max(peaks.values(), default=1e12)
    for rate in bandwidths.values():
        start, end = _start(axes, rate), min(right, high / rate)
        if start < end:
            yield _line(axes.x(start), axes.y(rate * start), axes.x(end), axes.y(rate * end), "roof")
    widest = max(bandwidths.values(), default=0.0)
    for rate in peaks.values():
        start = max(left, rate / widest) if widest else left
        yield _line(axes.x(min(start, right)), axes.y(rate), axes.x(right), axes.y(rate), "roof")


def _start(axes: _Axes, rate: float) -> float:
    """The operations per byte at which a slope enters the picture."""
    return max(10.0**axes.left, 10.0**axes.low / rate)


def _names(axes: _Axes, peaks: Mapping[str, float], bandwidths: Mapping[str, float]) -> list[_Text]:
    """Those of peaks above their lines, at the right, those of bandwidths along theirs, at the left; lines that are too
    close for two share one."""
    levels = _together([(name, rate, axes.y(rate)) for name, rate in peaks.items()])
    names = [_Text(axes.x(10.0**axes.right) - 2, y - 4, f"{words} Gop/s", "end", "name") for _, y, words in levels]
    for rate, _, words in _together([(name, rate, axes.y(rate)) for name, rate in bandwidths.items()]):
        at = _start(axes, rate) * BESIDE
        names.append(_Text(axes.x(at), axes.y(rate * at) - 5, f"{words} GB/s", kind="name", turned=axes.slope))
    return names


def _together(lines: Sequence[tuple[str, float, float]]) -> list[tuple[float, float, str]]:
    """The highest rate, its height, and the names of lines that are too close for two, with 10^9 of their rates; lines
    are given as name, rate and height."""
    groups: list[tuple[float, float, list[str]]] = []
    for name, rate, y in sorted(lines, key=lambda line: -line[1]):
        words = f"{name} {rate / 1e9:.3g}"
        if groups and y - groups[-1][1] < LINE_HEIGHT:
            groups[-1][2].append(words)
        else:
            groups.append((rate, y, [words]))
    return [(rate, y, ", ".join(words)) for rate, y, words in groups]


def _boxes_of_slopes(names: Sequence[_Text]) -> Iterator[Box]:
    """What names that are turned cover: a box for each letter."""
    for text in names:
        right, down = LETTER * cos(radians(text.turned)), LETTER * sin(radians(text.turned))
        for k in range(len(text.words) if text.turned else 0):
            x, y = text.x + k * right, text.y + k * down
            yield Box(x - 3, y - 9, x + 6, y + 3)


def _points(
    axes: _Axes, points: Sequence[Point], colours: Mapping[str, str], taken: Sequence[Box]
) -> tuple[list[str], list[str]]:
    """The points, and their names, each name once; those of the largest points find their places first."""
    order = sorted(range(len(points)), key=lambda k: -points[k].share)
    places: list[tuple[float, float, float, str]] = []
    said: set[str] = set()
    for k in order:
        point = points[k]
        radius = SMALLEST + WIDEST * sqrt(min(1.0, point.share))
        words = "" if point.name in said else _short(point.name)
        said.add(point.name)
        places.append((axes.x(point.intensity), axes.y(point.rate), radius, words))
    room = Box(LEFT + 2, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM - 2)
    drawn, names = [""] * len(points), list[str]()
    for k, (x, y, radius, words), label in zip(order, places, placed(places, taken, room), strict=True):
        point = points[k]
        circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colours[point.group]}"/>'
        drawn[k] = f"<g><title>{escape(_said_of(point))}</title>{circle}</g>"
        if label is not None:
            names += [_line(x, y, label.x, label.y - 4, "far")] if label.is_far else []
            names.append(str(_Text(label.x, label.y, words, label.anchor)))
    return drawn, names


def _said_of(point: Point) -> str:
    figures = f"{duration(point.seconds)}, {point.rate / 1e9:.1f} Gop/s, {point.intensity:.3g} op/byte"
    return f"{point.name}, {point.group}: {figures}{f', {point.more}' if point.more else ''}"


def _short(name: str) -> str:
    """The end of a long name, which tells it from others: of a path, whole parts."""
    if len(name) <= LONGEST:
        return name
    _, parted, end = name[-LONGEST:].partition("/")
    return end if parted else f"..{name[2 - LONGEST :]}"


def _legend(colours: Mapping[str, str]) -> list[tuple[str, _Text]]:
    """At the lower right, where a program that reads so little is never so slow."""
    width = max((box_of(0, 0, group).right for group in colours), default=0.0)
    x = WIDTH - RIGHT - 12 - width
    made: list[tuple[str, _Text]] = []
    for k, (group, colour) in enumerate(colours.items()):
        y = HEIGHT - BOTTOM - 10 - LEGEND_LINE * (len(colours) - 1 - k)
        made.append((f'<circle cx="{x - 10:.1f}" cy="{y - 4}" r="4" fill="{colour}"/>', _Text(x, y, group)))
    return made
