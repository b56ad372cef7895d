"""The roofline as a picture: operations a second over operations per byte, both logarithmic, as SVG."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from tcpx.measure.limits import Limits
from tcpx.measure.rows import Row

WIDTH, HEIGHT, MARGIN = 900, 560, 60
FONT: Final = 'font-family="sans-serif" font-size="11"'
COLOURS: Final = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933", "#882255", "#aaaaaa"),
    *("#6a3d9a", "#b15928", "#44dd44"),
)
LINE_HEIGHT: Final = 14
LEGEND_WIDTH, LEGEND_LINE = 110, 16
LEVELS: Final = ("read_l1", "read_l2", "read_l3", "read_memory")


class _Axes:
    """From operations per byte and operations a second to places in the picture."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.left, self.right = floor(log10(min(xs))), max(ceil(log10(max(xs))), floor(log10(min(xs))) + 1)
        self.low, self.high = floor(log10(min(ys))), max(ceil(log10(max(ys))), floor(log10(min(ys))) + 1)

    def x(self, value: float) -> float:
        return MARGIN + (log10(value) - self.left) / (self.right - self.left) * (WIDTH - 2 * MARGIN)

    def y(self, value: float) -> float:
        return HEIGHT - MARGIN - (log10(value) - self.low) / (self.high - self.low) * (HEIGHT - 2 * MARGIN)


def roofline_svg(rows: Sequence[Row], limits: Limits) -> str:
    """The measured rows as points, a colour per peer, the first one on top, under the roofs of each bandwidth and each
    peak in use."""
    points = [row for row in rows if row.median_s and row.operations and row.bytes]
    peaks = {name: rate for name, rate in limits.rates.items() if name.startswith(("fma", "dot", "add"))}
    bandwidths = {name: limits.rates[name] for name in LEVELS if name in limits.rates}
    reached = [row.operations / row.median_s for row in points if row.median_s]
    axes = _Axes(
        [0.1, *(row.operations / row.bytes for row in points), 100.0],
        [1e9, *reached, max(peaks.values(), default=1e12)],
    )
    peers = list(dict.fromkeys(row.peer for row in points))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_grid(axes),
        *_roofs(axes, peaks, bandwidths),
        *(_point(axes, row, COLOURS[peers.index(row.peer) % len(COLOURS)]) for row in reversed(points)),
        *_legend(peers),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, words: str, anchor: str = "start", colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _grid(axes: _Axes) -> list[str]:
    parts: list[str] = []
    for power in range(axes.left, axes.right + 1):
        x = axes.x(10.0**power)
        parts.append(_line(x, MARGIN, x, HEIGHT - MARGIN, "#ddd"))
        parts.append(_text(x, HEIGHT - MARGIN + 16, f"{10.0**power:g}", "middle"))
    for power in range(axes.low, axes.high + 1):
        y = axes.y(10.0**power)
        parts.append(_line(MARGIN, y, WIDTH - MARGIN, y, "#ddd"))
        parts.append(_text(MARGIN - 6, y + 4, f"{10.0 ** (power - 9):g}", "end"))
    parts.append(_text(WIDTH / 2, HEIGHT - 16, "operations per byte", "middle"))
    parts.append(_text(8, MARGIN - 20, "10^9 operations a second"))
    return parts


def _roofs(axes: _Axes, peaks: dict[str, float], bandwidths: dict[str, float]) -> list[str]:
    """A slope per bandwidth up to the highest peak, a level line per peak."""
    left, right, low, high = 10.0**axes.left, 10.0**axes.right, 10.0**axes.low, max(peaks.values(), default=1e12)
    parts: list[str] = []
    for name, rate in bandwidths.items():
        start, end = max(left, low / rate), min(right, high / rate)
        if start < end:
            x, y = axes.x(start), axes.y(rate * start)
            parts.append(_line(x, y, axes.x(end), axes.y(rate * end), "#888"))
            parts.append(_text(x + 4, y - 4, f"{name} {rate / 1e9:.0f} GB/s", colour="#888"))
    widest = max(bandwidths.values(), default=0.0)
    for rate in peaks.values():
        start = max(left, rate / widest) if widest else left
        parts.append(_line(axes.x(min(start, right)), axes.y(rate), axes.x(right), axes.y(rate), "#888"))
    return parts + _peak_names(axes, peaks)


def _peak_names(axes: _Axes, peaks: dict[str, float]) -> list[str]:
    """A name above each line; those of lines too close for that share one."""
    groups: list[tuple[float, list[str]]] = []
    for name, rate in sorted(peaks.items(), key=lambda peak: -peak[1]):
        shown, y = f"{name} {rate / 1e9:.0f}", axes.y(rate)
        if groups and y - groups[-1][0] < LINE_HEIGHT:
            groups[-1][1].append(shown)
        else:
            groups.append((y, [shown]))
    return [_text(axes.x(10.0**axes.right), y - 4, ", ".join(names), "end", "#888") for y, names in groups]


def _point(axes: _Axes, row: Row, colour: str) -> str:
    seconds = row.median_s or 1.0
    x, y = axes.x(row.operations / row.bytes), axes.y(row.operations / seconds)
    title = f"{row.workload}, {row.peer}: {row.operations / seconds / 1e9:.1f}"
    share = f", {100 * row.fraction:.0f} % of the limit" if row.fraction is not None else ""
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" fill-opacity="0.7">'
    return f"{circle}<title>{escape(title + share)}</title></circle>"


def _legend(peers: Sequence[str]) -> list[str]:
    """At the lower right, where a program that reads so little is never so slow."""
    parts: list[str] = []
    x = WIDTH - MARGIN - LEGEND_WIDTH
    for k, peer in enumerate(peers):
        y = HEIGHT - MARGIN - LEGEND_LINE * (len(peers) - k)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{COLOURS[k % len(COLOURS)]}"/>')
        parts.append(_text(x + 10, y, peer))
    return parts
