"""Lines, dots and words of a plot, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from tcpx.records import frozen

BLUE, ORANGE, GREY, FAINT = "#0072b2", "#d55e00", "#8a8d93", "var(--line)"
STEPS: Final = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0)
"""Where marks may stand in a decade."""
FEWEST: Final = 3


@frozen
class LogScale:
    """From positive numbers between `low` and `high` to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    @staticmethod
    def around(values: Sequence[float], start: float, end: float) -> LogScale:
        """A scale with room for all of these."""
        low, high = min(values) / 1.05, max(values) * 1.05
        return LogScale(low, high, start, end)

    def place(self, value: float) -> float:
        """Where a number stands; one outside stands at the edge."""
        held = min(max(value, self.low), self.high)
        part = (log10(held) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return self.start + part * (self.end - self.start)

    def marks(self, most: int = 8) -> list[float]:
        """Round numbers of the scale, few enough to be told apart."""
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        inside: list[float] = []
        for steps in (STEPS, (1.0, 1.5, 2.0, 5.0), (1.0, 3.0), (1.0,)):
            found = [step * 10.0**decade for decade in decades for step in steps]
            inside = [mark for mark in found if self.low <= mark <= self.high]
            if len(inside) <= most:
                break
        return inside if len(inside) >= FEWEST else self._even_marks(most)

    def _even_marks(self, most: int) -> list[float]:
        """Numbers at equal distances, for a scale that has few round ones."""
        width = self.high - self.low
        unit = 10.0 ** floor(log10(width))
        distance = next(unit * part for part in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if width / (unit * part) <= most)
        return [round(k * distance, 9) for k in range(ceil(self.low / distance), floor(self.high / distance) + 1)]


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    """A straight line."""
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {places} stroke="{colour}" stroke-width="{width:g}"/>'


def path(points: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> str:
    """A line through points, whole or of dashes: their lengths and the gaps between."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def area(points: Sequence[tuple[float, float]], colour: str) -> str:
    """What points go round."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polygon points="{places}" fill="{colour}" fill-opacity="0.18"/>'


def dot(x: float, y: float, colour: str, words: str, radius: float = 3.0) -> str:
    """A dot that says what it is when it is pointed at."""
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f'<circle {place} fill="{colour}" fill-opacity="0.7"><title>{escape(words)}</title></circle>'


def words(x: float, y: float, text: str, anchor: str = "start") -> str:
    """A text, in the colour of the page."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def drawing(width: float, height: float, parts: Sequence[str], label: str) -> str:
    """The parts as one picture; `label` is for those who do not see it."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(label)}">'
    return "\n".join([start, *parts, "</svg>"])
