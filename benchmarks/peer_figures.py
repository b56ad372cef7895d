"""Whether a run counts: every peer measured and verified, or unable to do the workload, and as fast as it is known to
be (`peer_figures.yaml`), so that being ahead of it means something, and tcpx as fast as tcpx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from benchmarks.registry import AGAIN
from benchmarks.self_spread import MOST, self_spreads
from tcpx.measure.rows import Row
from tcpx.measure.session import MACHINE

FILE: Final = Path(__file__).with_suffix(".yaml")
SHARE: Final = 0.95
"""Of its figure, what a peer must reach."""


@dataclass(frozen=True, slots=True)
class PeerFigure:
    """The fraction of the limit that a peer is known to reach."""

    workload: str
    threads: int
    peer: str
    fraction: float


@dataclass(frozen=True, slots=True)
class PeerVerdict:
    """A figure beside the fraction of this run; None where the run has no measured row of this peer."""

    figure: PeerFigure
    found: float | None

    @property
    def is_reached(self) -> bool:
        """Whether it is `SHARE` of the figure at least."""
        return self.found is not None and self.found >= SHARE * self.figure.fraction

    def text(self) -> str:
        """One line."""
        found = "not measured" if self.found is None else f"{self.found:.3f}"
        least = f"{self.figure.peer} >= {SHARE:g} * {self.figure.fraction:g} of the limit"
        where = f"{self.figure.workload}, {self.figure.threads} thread(s)"
        return f"{'ok' if self.is_reached else 'LOW':>10}  {where}: {least}: {found}"


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The figures of the peers in a run, what is wrong with their rows, and by number of threads how far tcpx and
    tcpx again are apart."""

    figures: tuple[PeerVerdict, ...]
    faults: tuple[str, ...]
    spreads: Mapping[int, float] = field(default_factory=dict[int, float])

    @property
    def counts(self) -> bool:
        """Whether all peers are as they should be."""
        return not self.faults and all(verdict.is_reached for verdict in self.figures)

    def text(self) -> str:
        """A line per figure and fault, and one that sums up."""
        lines = [verdict.text() for verdict in self.figures]
        for threads, spread in self.spreads.items():
            lines.append(
                f"{'':>10}  tcpx against tcpx, {threads} thread(s): {spread:.2%} apart, required under {MOST:.1%}"
            )
        lines += [f"{'FAULT':>10}  {fault}" for fault in self.faults]
        reached = sum(verdict.is_reached for verdict in self.figures)
        summed = f"{reached} of {len(self.figures)} figures of peers reached, {len(self.faults)} faults"
        return "\n".join([*lines, f"the run {'counts' if self.counts else 'does not count'}: {summed}"])


def load_peer_figures(path: Path = FILE) -> list[PeerFigure]:
    """The figures of a file."""
    held: dict[int, dict[str, dict[str, float]]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return [
        PeerFigure(workload, threads, peer, fraction)
        for threads, workloads in held.items()
        for workload, given in workloads.items()
        for peer, fraction in given.items()
    ]


def judge_run(figures: Sequence[PeerFigure], peers: Sequence[str], rows: Sequence[Row]) -> RunVerdict:
    """The figures of the workloads that the run has, and the faults of these peers in all of its workloads."""
    found = {(row.workload, row.threads, row.peer): row for row in rows}
    places = list(dict.fromkeys((row.workload, row.threads) for row in rows if row.workload != MACHINE))
    verdicts: list[PeerVerdict] = []
    for figure in figures:
        if (figure.workload, figure.threads) in places:
            row = found.get((figure.workload, figure.threads, figure.peer))
            verdicts.append(PeerVerdict(figure, row.fraction if row is not None else None))
    faults: list[str] = []
    for peer in peers:
        said = Counter(_fault(found.get((*place, peer))) for place in places)
        faults += [f"{peer}: {fault} in {count} of {len(places)} workloads" for fault, count in said.items() if fault]
    spreads = self_spreads(rows)
    faults += [
        f"{AGAIN}: too far from tcpx with {threads} thread(s)" for threads in spreads if spreads[threads] >= MOST
    ]
    return RunVerdict(tuple(verdicts), tuple(faults), spreads)


def _fault(row: Row | None) -> str:
    """What is wrong with the row of a peer; nothing if it was measured and verified, or is unsupported for a reason."""
    if row is None:
        return "missing"
    if row.status == "measured":
        return "not verified" if row.error is None else ""
    if row.status == "unsupported":
        return "" if row.reason else "unsupported without a reason"
    return row.status
