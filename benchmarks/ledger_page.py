"""What was kept, as one HTML file that needs nothing else: for each processor, each workload over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Final

import tcpx
from benchmarks.ledger import FOLDER, Run, Times
from benchmarks.registry import AGAIN, CLANG, TCPX
from tcpx.plurals import counted
from tcpx.quantities import duration, percent
from tcpx.report.styles import style_of
from tcpx.tune.page.drawing import BLUE, FAINT, GREY, ORANGE, LogScale, dot, drawing, line, path, words
from tcpx.tune.statistics import geometric_mean
from tcpx.written_paths import file_to_write

PAGE: Final = Path(__file__).with_suffix(".html")
OWN: Final = (TCPX.name, AGAIN, CLANG)
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 170, 52, 10, 8, 24
MOST_MARKS: Final = 5
LIMIT_DASHES, PEER_DASHES = "2 3", "7 3"
BAR_WIDTH: Final = 5.0


@dataclass(frozen=True, slots=True)
class Point:
    """A workload in a run: times of tcpx and of the fastest peer in seconds, with its name, and the limit."""

    run: Run
    own: Times | None
    peer: tuple[str, float] | None
    limit: tuple[float, str] | None

    @property
    def title(self) -> str:
        """When, and of which commit."""
        changed = ", changed since" if self.run.changed else ""
        return f"{self.run.date[:10]} {self.run.commit[:8] or 'commit not known'}{changed}"


def write_page(runs: Sequence[Run], path: str) -> Path:
    """Write the page. Raises ArgumentError where nothing was kept."""
    if not runs:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                "there is nothing to show",
                required=f"runs in {FOLDER}",
                found="none",
                fix="tcpx bench --keep, then the page again",
            )
        )
    made = file_to_write(path)
    made.write_text(page(runs), encoding="utf-8")
    return made


def page(runs: Sequence[Run]) -> str:
    """The page of some runs, in the order of their dates."""
    template = Template(PAGE.read_text(encoding="utf-8"))
    processors = {name: list(of) for name, of in groupby(sorted(runs, key=_processor), key=_processor)}
    sections = [_section(number, name, of) for number, (name, of) in enumerate(processors.items())]
    names = "\n".join(f'<li><a href="#p{k}">{escape(name)}</a></li>' for k, name in enumerate(processors))
    return template.substitute(
        style=style_of("document"), processors=names, legend=_legend(), sections="\n".join(sections)
    )


def points_of(runs: Sequence[Run]) -> dict[tuple[str, int], list[Point]]:
    """For each workload and number of threads what the runs say of it, in their order."""
    found: dict[tuple[str, int], list[Point]] = {}
    for run in runs:
        for workload, times in run.times.items():
            peers = {name: held[0] for name, held in times.items() if name not in OWN}
            fastest = min(peers, key=lambda name: peers[name], default=None)
            peer = (fastest, peers[fastest]) if fastest is not None else None
            point = Point(run, times.get(TCPX.name), peer, run.limits.get(workload))
            found.setdefault((workload, run.threads), []).append(point)
    return found


def _processor(run: Run) -> str:
    return run.processor


def _section(number: int, name: str, runs: Sequence[Run]) -> str:
    """A processor: what its last runs say on the whole, and a picture for each workload, by families."""
    points = points_of(runs)
    families: dict[str, list[tuple[str, int]]] = {}
    for key in sorted(points):
        families.setdefault(key[0].partition("/")[0], []).append(key)
    parts = [f'<h2 id="p{number}">{escape(name)}</h2>', _summary(runs)]
    for family, keys in families.items():
        pictures = "\n".join(_figure(*key, points[key]) for key in keys)
        shown = " open" if any(len(points[key]) > 1 for key in keys) else ""
        parts.append(
            f"<details{shown}><summary>{escape(family)} <small>{counted(len(keys), 'picture')}</small></summary>"
            f'<div class="grid">\n{pictures}\n</div></details>'
        )
    return "\n".join(parts)


def _summary(runs: Sequence[Run]) -> str:
    head = "<tr><th>measured</th><th>commit</th><th>threads</th><th>workloads</th><th>fastest peer / tcpx</th></tr>"
    return f"<table>{head}\n{''.join(map(_row, runs))}</table>"


def _row(run: Run) -> str:
    pairs = [
        point.peer[1] / point.own[0]
        for held in points_of([run]).values()
        for point in held
        if point.own is not None and point.peer is not None
    ]
    mean = f"{geometric_mean(pairs, [1.0] * len(pairs)):.2f} of {len(pairs)}" if pairs else ""
    commit = f"{run.commit[:8]}{' and changes' if run.changed else ''}"
    cells = [run.date.replace("T", " "), commit, str(run.threads), str(len(run.times)), mean]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>\n"


def _figure(workload: str, threads: int, points: Sequence[Point]) -> str:
    title = f"{workload}, {counted(threads, 'thread')}"
    return (
        f"<figure><figcaption><b>{escape(title)}</b><br>{escape(_latest(workload, points))}</figcaption>\n"
        f"{_picture(title, points)}</figure>"
    )


def _latest(workload: str, points: Sequence[Point]) -> str:
    """The last time, what it is beside the fastest peer and the limit of the same run, and what the remarks name."""
    point = next((held for held in reversed(points) if held.own is not None), None)
    if point is None or point.own is None:
        return "tcpx has no time"
    seconds = point.own[0]
    parts = [duration(seconds)]
    if point.peer is not None:
        parts.append(f"fastest peer {point.peer[0]}: {point.peer[1] / seconds:.2f} of it")
    if point.limit is not None:
        parts.append(f"{percent(point.limit[0] / seconds)} of the limit")
    if workload in point.run.slow:
        causes = [f"{cause} {factor:.1f}" for cause, factor in point.run.slow[workload]]
        parts.append(f"remarks: {', '.join(causes) or 'none'}")
    return ", ".join(parts)


def _picture(title: str, points: Sequence[Point]) -> str:
    """Time over runs, which stand side by side at equal distances, on a scale of ratios."""
    own = [seconds for point in points if point.own is not None for seconds in point.own]
    others = [point.peer[1] for point in points if point.peer is not None]
    scale = LogScale.around(
        [*own, *others, *(point.limit[0] for point in points if point.limit is not None)], HEIGHT - BOTTOM, TOP
    )
    right = WIDTH - RIGHT
    step = (right - LEFT - 20) / max(1, len(points) - 1)
    xs = [LEFT + 10 + k * step if len(points) > 1 else (LEFT + right) / 2 for k in range(len(points))]
    parts = [*_axes(scale, points, xs), *_limit(scale, points, xs), *_peer(scale, points, xs), *_own(scale, points, xs)]
    return drawing(WIDTH, HEIGHT, parts, f"{title}: time over runs")


def _axes(scale: LogScale, points: Sequence[Point], xs: Sequence[float]) -> Iterator[str]:
    for mark in scale.marks(MOST_MARKS):
        y = scale.place(mark)
        yield line(LEFT, y, WIDTH - RIGHT, y, FAINT)
        yield words(LEFT - 5, y + 4, duration(mark), "end")
    first, last = points[0].run.date[:10], points[-1].run.date[:10]
    if len(points) == 1:
        yield words(xs[0], HEIGHT - 8, first, "middle")
    else:
        yield words(LEFT, HEIGHT - 8, first)
        yield words(WIDTH - RIGHT, HEIGHT - 8, last, "end")


def _limit(scale: LogScale, points: Sequence[Point], xs: Sequence[float]) -> Iterator[str]:
    held = [(x, point.limit) for x, point in zip(xs, points, strict=True) if point.limit is not None]
    if held:
        places = [(x, scale.place(limit[0])) for x, limit in held]
        # Of a single run, a line as wide as the picture.
        yield path(
            places if len(places) > 1 else [(LEFT, places[0][1]), (WIDTH - RIGHT, places[0][1])], GREY, LIMIT_DASHES
        )
        for (x, y), (_, (seconds, by)) in zip(places, held, strict=True):
            yield dot(x, y, GREY, f"the limit, set by {by}: {duration(seconds)}", 2.5)


def _peer(scale: LogScale, points: Sequence[Point], xs: Sequence[float]) -> Iterator[str]:
    held = [(x, point, point.peer) for x, point in zip(xs, points, strict=True) if point.peer is not None]
    places = [(x, scale.place(peer[1])) for x, _, peer in held]
    yield path(places, ORANGE, PEER_DASHES)
    for (x, y), (_, point, (name, seconds)) in zip(places, held, strict=True):
        yield dot(x, y, ORANGE, f"{point.title}\n{name}, the fastest peer: {duration(seconds)}", 3)


def _own(scale: LogScale, points: Sequence[Point], xs: Sequence[float]) -> Iterator[str]:
    held = [(x, point, point.own) for x, point in zip(xs, points, strict=True) if point.own is not None]
    yield path([(x, scale.place(own[0])) for x, _, own in held], BLUE)
    for x, point, (median, low, high) in held:
        yield line(x, scale.place(low), x, scale.place(high), BLUE, BAR_WIDTH / 2)
        yield dot(x, scale.place(median), BLUE, _said(point, (median, low, high)), 4)


def _said(point: Point, own: Times) -> str:
    median, low, high = own
    said = [point.title, f"tcpx: {duration(median)} ({duration(low)} to {duration(high)})"]
    if point.peer is not None:
        said.append(f"{point.peer[0]}, the fastest peer: {duration(point.peer[1])}, {point.peer[1] / median:.2f} of it")
    if point.limit is not None:
        said.append(
            f"the limit, set by {point.limit[1]}: {duration(point.limit[0])}, {percent(point.limit[0] / median)} of it"
        )
    return "\n".join(said)


def _legend() -> str:
    shown: Mapping[str, tuple[str, str]] = {
        "tcpx, with its 95 % interval": (BLUE, ""),
        "the fastest peer of the run": (ORANGE, PEER_DASHES),
        "the limit of the machine": (GREY, LIMIT_DASHES),
    }
    parts: list[str] = []
    for k, (label, (colour, dashes)) in enumerate(shown.items()):
        x = 10 + 230 * k
        parts += [path([(x, 12), (x + 34, 12)], colour, dashes), dot(x + 17, 12, colour, label, 3.5)]
        parts.append(words(x + 42, 16, label))
    return drawing(720, 24, parts, "legend")
