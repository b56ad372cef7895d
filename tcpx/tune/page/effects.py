"""The times that go with each value of a knob."""

from collections.abc import Sequence
from typing import Final

from tcpx.plurals import counted
from tcpx.tune.page.drawing import BLUE, FAINT, GREY, LogScale, dot, drawing, line, words
from tcpx.tune.space import Value
from tcpx.tune.statistics import geometric_mean, middle_of
from tcpx.tune.verdicts import Candidate

WIDTH, ROW, LEFT, RIGHT, TOP = 430, 18, 84, 14, 16
MOST_VALUES: Final = 24


def effect_svg(path: str, candidates: Sequence[Candidate]) -> str | None:
    """For each value that was tried: the mean time of its candidates, from the fastest to the slowest, as a part of
    the middle time of all. None where there are not two values."""
    times: dict[Value, list[float]] = {}
    for candidate in candidates:
        if candidate.is_measured and candidate.alike is None and path in candidate.point:
            times.setdefault(candidate.point[path], []).append(candidate.relative or 1.0)
    if len(times) < 2:
        return None
    middle = middle_of([time for held in times.values() for time in held])
    ratios = {value: [time / middle for time in held] for value, held in sorted(times.items(), key=_order)}
    shown = list(ratios.items())[:: -(-len(ratios) // MOST_VALUES)]
    scale = LogScale.around([1.0, *(ratio for _, held in shown for ratio in held)], LEFT, WIDTH - RIGHT)
    height = TOP + ROW * len(shown) + 22
    parts: list[str] = []
    for mark in scale.marks(6):
        parts.append(line(scale.place(mark), TOP, scale.place(mark), height - 20, GREY if mark == 1 else FAINT))
        parts.append(words(scale.place(mark), height - 6, f"{mark:g}", "middle"))
    for k, (value, held) in enumerate(shown):
        y = TOP + ROW * (k + 0.5)
        mean = geometric_mean(held, [1.0] * len(held))
        parts.append(words(LEFT - 8, y + 4, str(value)[:12], "end"))
        parts.append(line(scale.place(min(held)), y, scale.place(max(held)), y, GREY, 2))
        said = f"{value}: {mean:.3f} on average, {min(held):.3f} at best, {counted(len(held), 'candidate')}"
        parts.append(dot(scale.place(mean), y, BLUE, said, 4))
    more = f"; {len(shown)} of {len(ratios)} values" if len(ratios) > len(shown) else ""
    parts.append(words(LEFT, 10, f"time, of the median candidate's{more}"))
    return drawing(WIDTH, height, parts, f"times by value of {path}")


def _order(item: tuple[Value, list[float]]) -> tuple[bool, float, str]:
    """Numbers by size, then words."""
    value = item[0]
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, str(value)
