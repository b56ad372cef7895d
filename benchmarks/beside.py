"""This tree beside another revision: the ratio of the times of each workload, and what is slower."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.ledger import keep, now, runs_of
from benchmarks.registry import TCPX
from benchmarks.revisions import Revision, Tree, revision, this_tree
from tcpx.measure.peer_process import Launch
from tcpx.measure.protocol import Task
from tcpx.measure.rows import Row
from tcpx.measure.session import Check, Session
from tcpx.plurals import counted
from tcpx.quantities import duration
from tcpx.tune.statistics import geometric_mean, interval_of

LEAST: Final = 0.02
"""What is off by less is not slower or faster: two processes of one tree differ so much."""
WIDTHS: Final = (34, 7, 11, 11, 7, 15)


@dataclass(frozen=True, slots=True)
class Ratio:
    """The time of this tree as a part of that of the revision, where it lies with 95 % confidence, by the rounds in
    which both were timed."""

    ratio: float
    low: float
    high: float

    @property
    def is_slower(self) -> bool:
        """Whether this tree is, beyond noise."""
        return self.low > 1 and self.ratio > 1 + LEAST

    @property
    def is_faster(self) -> bool:
        """Whether this tree is, beyond noise."""
        return self.high < 1 and self.ratio < 1 / (1 + LEAST)

    def text(self) -> str:
        """`1.083 (1.061..1.105)`."""
        return f"{self.ratio:.3f} ({self.low:.3f}..{self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload on both: their rows, and the ratios of the first processes and of fresh ones, which are started where
    the first say that this tree is slower. None: not both have times."""

    own: Row
    other: Row
    first: Ratio | None
    fresh: Ratio | None = None

    @property
    def verdict(self) -> str:
        """`slower`, `faster`, `lost` where only the revision has a result, `not compared`; else empty."""
        if self.first is None:
            return "lost" if self.own.status != "unsteady" and self.other.median_s is not None else "not compared"
        if self.first.is_slower:
            return "slower" if self.fresh is not None and self.fresh.is_slower else ""
        return "faster" if self.first.is_faster else ""

    def line(self) -> str:
        """A row of the table."""
        times = [duration(row.median_s) if row.median_s is not None else row.status for row in (self.own, self.other)]
        ratio = f"{self.first.ratio:.3f}" if self.first is not None else ""
        reach = f"{self.first.low:.3f}..{self.first.high:.3f}" if self.first is not None else ""
        again = f", in fresh processes {self.fresh.text()}" if self.fresh is not None else ""
        return (
            _line(self.own.workload, str(self.own.threads), *times, ratio, reach) + f"  {self.verdict}{again}".rstrip()
        )


def ratio_of(own: Row, other: Row) -> Ratio | None:
    """By the rounds that both have."""
    pairs = zip(own.rounds, other.rounds, strict=False)
    found = [mine / theirs for mine, theirs in pairs if mine is not None and theirs is not None]
    return Ratio(*interval_of(found)) if found else None


def compared(rows: Sequence[Row], peer: str, again: Callable[[Sequence[str]], Sequence[Row]]) -> Compared:
    """tcpx and another revision among the rows of a workload; `again` times both once more in fresh processes."""
    own, other = _pair(rows, peer)
    made = Compared(own, other, ratio_of(own, other))
    if made.first is None or not made.first.is_slower:
        return made
    return replace(made, fresh=ratio_of(*_pair(again([TCPX.name, peer]), peer)))


@dataclass(slots=True)
class Beside:
    """What `--against` and `--keep` ask of a run; `found` are the workloads so far. Without a revision nothing is
    compared."""

    tree: Tree
    revision: Revision | None
    launches: Sequence[Launch]
    keeps: bool
    found: list[Compared] = field(default_factory=list[Compared])

    @staticmethod
    def of(options: argparse.Namespace) -> Beside:
        """Says what is compared, and unpacks the revision. Raises ArgumentError."""
        tree, other = this_tree(), revision(options.against) if options.against else None
        if other is not None:
            print(f"{tree.title} beside {other.title}")
            if other.commit == tree.commit and not tree.changed:
                print("both are the same commit: the ratios say how far two measurements of one thing are apart")
        keeps = options.keep if options.keep is not None else other is not None and not options.quick
        return Beside(tree, other, [other.launch()] if other is not None else [], keeps)

    def note(self, session: Session, task: Task, rows: Sequence[Row], check: Check) -> None:
        """Compare, once a workload was measured."""
        if self.revision is not None:
            peer = self.revision.peer
            self.found.append(compared(rows, peer, lambda names: session.again(task, names, check)))

    def finish(self, rows: Sequence[Row]) -> bool:
        """Print the comparison, keep the rows; whether this tree is slower somewhere, or does not run what the revision
        runs."""
        if self.revision is not None:
            print("\n".join(_report(self.found, self.tree, self.revision)))
        if self.keeps:
            for path in keep(runs_of(rows, now(), self.tree, self.revision)):
                print(f"kept in {path}")
        return any(each.verdict in ("slower", "lost") for each in self.found)


def _report(found: Sequence[Compared], tree: Tree, revision: Revision) -> Iterator[str]:
    yield f"\n{tree.title} beside {revision.title}: the ratio of their times"
    yield _line("workload", "threads", "this tree", revision.short, "ratio", "95 % interval")
    yield from (each.line() for each in found)
    ratios = [each.first.ratio for each in found if each.first is not None]
    if not ratios:
        yield "nothing was timed on both"
        return
    of = {verdict: [each for each in found if each.verdict == verdict] for verdict in ("faster", "slower", "lost")}
    mean = geometric_mean(ratios, [1.0] * len(ratios))
    told = f"{len(of['faster'])} faster, {len(of['slower'])} slower"
    same = len(ratios) - len(of["faster"]) - len(of["slower"])
    yield f"geometric mean of {counted(len(ratios), 'workload')}: {mean:.3f}; {told}, {same} not told apart"
    for verdict in ("slower", "lost"):
        for each in of[verdict]:
            fresh = f", in fresh processes {each.fresh.text()}" if each.fresh is not None else ""
            how = f"{each.first.text()}{fresh}" if each.first is not None else f"{each.own.status}: {each.own.reason}"
            yield f"{verdict}: {each.own.workload} on {counted(each.own.threads, 'thread')}, {how}"


def _pair(rows: Sequence[Row], peer: str) -> tuple[Row, Row]:
    by_peer: Mapping[str, Row] = {row.peer: row for row in rows}
    return by_peer[TCPX.name], by_peer[peer]


def _line(*cells: str) -> str:
    """The first two to the left, figures to the right."""
    aligned = [
        cell.ljust(width) if k < 2 else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return "  ".join(aligned)
