"""The fastest so far, with its interval, by candidate; what came of the others."""

from collections.abc import Sequence
from typing import Final

import tcpx
from tcpx.tune.page.drawing import BLUE, FAINT, GREY, ORANGE, LogScale, area, dot, drawing, line, path, words
from tcpx.tune.progress import line_of
from tcpx.tune.verdicts import Candidate

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 300, 56, 16, 18, 46
SLOWEST: Final = 4.0
"""Times above so many times the first candidate's are drawn at the edge."""


def history_svg(candidates: Sequence[Candidate], names: tcpx.KnobNames) -> str:
    """Times relative to the first candidate's, on a logarithmic scale; what has no time stands below."""
    measured = [c for c in candidates if c.is_measured]
    edges = [bound for c in candidates if c.was_incumbent for bound in interval_of(c)]
    times = [min(c.relative or 1.0, SLOWEST) for c in measured]
    scale = LogScale.around([1.0, *times, *edges], HEIGHT - BOTTOM - 14, TOP)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(candidates) - 1)

    def x(number: int) -> float:
        return LEFT + positions[number] * step

    positions = {c.number: k for k, c in enumerate(candidates)}
    parts: list[str] = []
    for mark in scale.marks():
        parts.append(line(LEFT, scale.place(mark), WIDTH - RIGHT, scale.place(mark), FAINT))
        parts.append(words(LEFT - 8, scale.place(mark) + 4, f"{mark:g}", "end"))
    for candidate in candidates:
        if candidate.is_measured and candidate.relative is not None:
            y = scale.place(candidate.relative)
            colour = GREY if not candidate.was_incumbent else BLUE
            parts.append(dot(x(candidate.number), y, colour, line_of(candidate, names, candidates)))
        else:
            parts.append(dot(x(candidate.number), HEIGHT - BOTTOM, ORANGE, line_of(candidate, names, candidates), 2.5))
    best, low, high = _steps(candidates)
    end = len(candidates) - 1
    for points, draw in (([*low, *reversed(high)], area), (best, path)):
        if points:
            parts.append(draw([(LEFT + k * step, scale.place(value)) for k, value in points], BLUE))
    numbers = sorted({0, end // 4, end // 2, 3 * end // 4, end})
    parts += [words(LEFT + k * step, HEIGHT - 22, str(candidates[k].number), "middle") for k in numbers if k >= 0]
    parts.append(words(WIDTH / 2, HEIGHT - 4, "candidate", "middle"))
    parts.append(words(LEFT, 10, "time, of the first candidate's"))
    return drawing(WIDTH, HEIGHT, parts, "the fastest so far by candidate")


def interval_of(candidate: Candidate) -> tuple[float, float]:
    """Where the time of a candidate lies with 95 % confidence, relative to the first one's."""
    found, relative = candidate.comparison, candidate.relative or 1.0
    if found is None:
        return relative, relative
    return relative * found.low / found.ratio, relative * found.high / found.ratio


Points = list[tuple[int, float]]


def _steps(candidates: Sequence[Candidate]) -> tuple[Points, Points, Points]:
    """The time of the incumbent, and the ends of its interval, as steps."""
    lines: tuple[Points, Points, Points] = ([], [], [])
    held: Candidate | None = None
    for k, candidate in enumerate(candidates):
        is_better = held is None or (candidate.relative or 1.0) < (held.relative or 1.0)
        last = k == len(candidates) - 1
        now = candidate if candidate.was_incumbent and is_better else held
        for was in (held, now) if now is not held else (now,) if last else ():
            if was is not None:
                for points, value in zip(lines, (was.relative or 1.0, *interval_of(was)), strict=True):
                    points.append((k, value))
        held = now
    return lines
