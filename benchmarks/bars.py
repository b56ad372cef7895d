"""Bars: what a measured row of tcpx must reach. They stand beside the workloads.

    {fraction: 0.94}                       of the limit of the run
    {seconds: 3.0e-6}                      of a call at most
    {best_peer: 0.99}                      the time of the fastest other peer over ours; 1.0 is at least as
                                           fast, less the spread of the run (benchmarks/self_spread.py)
    {peer: numpy, at_least: 1.0}           the time of this peer over ours
    {peer: tcpx-clang, apart: 0.05}        how far its time and ours are apart at most, relative to the shorter
    {workload: gemm/1024, at_least: 0.95}  the time of tcpx on that workload over that on this one
    threads: 2, beside any of them         for this number of threads only

Of several workloads, by a glob, the geometric mean:

    {workloads: "tpp/*", best_peer: 1.0}, or `fraction`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from statistics import geometric_mean
from typing import Any, Final

from benchmarks.self_spread import MOST, apart, self_spreads
from tcpx.measure.rows import Row

TCPX: Final = "tcpx"
KEYS: Final = (
    {"fraction"},
    {"seconds"},
    {"best_peer"},
    {"peer", "at_least"},
    {"peer", "apart"},
    {"workload", "at_least"},
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: a figure (`fraction`, `seconds`, `best_peer`, `peer`, `apart`, `workload`, `over_one_thread`), what it
    is against, and the value: the most for `seconds`, `apart` and `over_one_thread`, the least for the others."""

    figure: str
    value: float
    against: str = ""
    threads: int | None = None

    @property
    def is_upper(self) -> bool:
        """Whether the value is the most there may be."""
        return self.figure in ("seconds", "apart", "over_one_thread")

    @property
    def is_parity(self) -> bool:
        """Whether it asks to be as fast as the fastest peer: noise decides then."""
        return self.figure == "best_peer" and self.value == 1

    def __str__(self) -> str:
        sign = "<=" if self.is_upper else ">="
        return f"{self.figure}{f' {self.against}' if self.against else ''} {sign} {self.value:g}"


@dataclass(frozen=True, slots=True)
class GroupBar:
    """A bar for the geometric mean of the workloads that a glob names."""

    workloads: str
    bar: Bar


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar beside what was measured; `found` is None where the run does not have what the bar speaks of. One whose
    result was wrong, or that did not end well, has `failed`. `slack` is taken off what it must reach."""

    workload: str
    threads: int
    bar: Bar
    found: float | None
    reason: str = ""
    failed: bool = False
    slack: float = 0.0

    @property
    def is_missed(self) -> bool:
        """Whether it was judged and not reached."""
        if self.found is None:
            return self.failed
        return self.found > self.bar.value if self.bar.is_upper else self.found < self.bar.value - self.slack

    def text(self) -> str:
        """One line."""
        verdict = "MISSED" if self.is_missed else "not judged" if self.found is None else "ok"
        figure = None if self.found is None else f"{self.found:.4g}"
        found = ", ".join(filter(None, [figure, self.reason]))
        slack = f" - {self.slack:.2g}" if self.slack else ""
        return f"{verdict:>10}  {self.workload}, {self.threads} thread(s): {self.bar}{slack}: {found}"


def bar_of(given: Mapping[str, Any], sizes: Mapping[str, int]) -> Bar:
    """The bar of an entry. Raises ValueError."""
    keys = set(given) - {"threads"}
    if keys not in KEYS:
        shown = "; ".join(" and ".join(sorted(each)) for each in KEYS)
        raise ValueError(f"required a bar with one of {shown}, found {dict(given)!r}")
    if "apart" in given:
        return Bar("apart", float(given["apart"]), str(given["peer"]), given.get("threads"))
    figure = next(key for key in ("fraction", "seconds", "best_peer", "peer", "workload") if key in given)
    if "at_least" in given:
        return Bar(figure, float(given["at_least"]), str(given[figure]).format(**sizes), given.get("threads"))
    return Bar(figure, float(given[figure]), "", given.get("threads"))


def group_bar_of(given: Mapping[str, Any]) -> GroupBar:
    """The bar of an entry of `geometric_means`. Raises ValueError."""
    rest = {key: value for key, value in given.items() if key != "workloads"}
    if "workloads" not in given or set(rest) - {"threads"} not in ({"fraction"}, {"best_peer"}):
        raise ValueError(f"required `workloads` and one of fraction, best_peer, found {dict(given)!r}")
    return GroupBar(given["workloads"], bar_of(rest, {}))


def judge_groups(groups: Sequence[GroupBar], rows: Sequence[Row]) -> list[Verdict]:
    """Each geometric mean, per number of threads; not judged where a workload of the run has no figure."""
    verdicts: list[Verdict] = []
    for group in groups:
        ours = [row for row in rows if row.peer == TCPX and fnmatch(row.workload, group.workloads)]
        for threads in sorted({row.threads for row in ours}):
            if group.bar.threads in (None, threads):
                each = judge({row.workload: [group.bar] for row in ours if row.threads == threads}, rows)
                each = [verdict for verdict in each if verdict.threads == threads]
                found = [verdict.found for verdict in each if verdict.found]
                without = len(each) - len(found)
                name = f"geometric mean of {len(each)} {group.workloads}"
                if without:
                    verdicts.append(Verdict(name, threads, group.bar, None, f"{without} without a figure"))
                else:
                    verdicts.append(Verdict(name, threads, group.bar, geometric_mean(found)))
    return verdicts


def judge(bars: Mapping[str, Sequence[Bar]], rows: Sequence[Row]) -> list[Verdict]:
    """Every bar of the workloads, by name, against the rows of one run."""
    spreads = {threads: found for threads, found in self_spreads(rows).items() if found < MOST}
    times = {(row.workload, row.threads, row.peer): row.median_s for row in rows}
    verdicts: list[Verdict] = []
    for row in rows:
        if row.peer == TCPX:
            for bar in bars.get(row.workload, ()):
                if bar.threads in (None, row.threads):
                    made = _verdict(bar, row, rows, times)
                    verdicts.append(replace(made, slack=spreads.get(row.threads, 0.0)) if bar.is_parity else made)
    return verdicts


def _verdict(bar: Bar, row: Row, rows: Sequence[Row], times: Mapping[tuple[str, int, str], float | None]) -> Verdict:
    made = Verdict(row.workload, row.threads, bar, None)
    if row.median_s is None:
        return replace(made, reason=f"{row.status}: {row.reason}", failed=row.status != "unsteady")
    if bar.figure == "fraction":
        return replace(made, found=row.fraction, reason="no limit is known" if row.fraction is None else "")
    if bar.figure == "seconds":
        return replace(made, found=row.median_s)
    if bar.figure == "best_peer":
        others = [
            r.median_s
            for r in rows
            if (r.workload, r.threads) == (row.workload, row.threads) and r.median_s and not r.peer.startswith(TCPX)
        ]
        other, absent = min(others, default=None), "no other peer was measured"
    elif bar.figure in ("peer", "apart"):
        other, absent = times.get((row.workload, row.threads, bar.against)), f"{bar.against} was not measured"
    else:
        other, absent = times.get((bar.against, row.threads, TCPX)), f"{bar.against} was not measured"
    if other is None:
        return replace(made, reason=absent)
    found = apart(other, row.median_s) if bar.figure == "apart" else other / row.median_s
    return replace(made, found=found)
