"""What was measured, kept: a file for each processor in benchmarks/results, a line for each run and number of threads.

    python -m benchmarks.ledger out.json --date 2026-11-29     # rows that `-o` wrote, of this machine or another

A line is JSON: `date`, `commit` and whether the tree was `changed`, `cpu` and `target`, `threads`, the `versions` of
the peers, for each workload the `times` of each peer (median, low, high in seconds) and its `limits` (seconds, and what
sets them), for those below 0.7 of the fastest peer the causes and factors of the remarks (`slow`).
Lines are only ever added, so that two branches that measured are merged line by line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import tcpx
from benchmarks.registry import ROOT, TCPX
from benchmarks.revisions import Revision, Tree, this_tree
from benchmarks.slow_cells import cells_of
from tcpx.measure.rows import Row, read_rows
from tcpx.measure.session import MACHINE

FOLDER: Final = ROOT / "benchmarks" / "results"
SUFFIX: Final = ".jsonl"
DIGITS: Final = 4
"""Of a time that is kept."""
COMMIT: Final = 12
"""Digits of the hash of a commit."""

Times = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Run:
    """A line of a file. `times` are by workload and peer; tcpx is the peer `tcpx`, of whatever commit."""

    date: str
    commit: str
    changed: bool
    cpu: str
    target: str
    threads: int
    times: Mapping[str, Mapping[str, Times]]
    limits: Mapping[str, tuple[float, str]] = field(default_factory=dict[str, "tuple[float, str]"])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    slow: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict[str, "Sequence[tuple[str, float]]"])

    @property
    def processor(self) -> str:
        """Its name and the table of its kind, which tells apart what the makers name the same."""
        return f"{self.cpu}, {self.target.partition('@')[0]}"

    @property
    def file_name(self) -> str:
        """`amd-epyc-zen4.jsonl`."""
        plain = re.sub(r"\((r|tm)\)", "", self.cpu.lower())
        words = re.findall(r"[a-z0-9_]+", f"{plain} {self.target.partition('@')[0]}")
        return "-".join(words) + SUFFIX


def runs_of(rows: Sequence[Row], date: str, tree: Tree, revision: Revision | None = None) -> list[Run]:
    """The runs that rows are of: one for each number of threads, and before it one of the other revision."""
    made: list[Run] = []
    for machine in (row for row in rows if row.peer == MACHINE):
        own = [row for row in rows if row.threads == machine.threads and row.median_s is not None]
        facts = machine.facts
        where = (str(facts.get("cpu", "unknown")), str(facts.get("target", "unknown")), machine.threads)
        if revision is not None:
            others = [row for row in own if row.peer == revision.peer]
            times = {row.workload: {TCPX.name: _times(row)} for row in others}
            made.append(Run(date, revision.commit[:COMMIT], False, *where, times, _limits(others)))
        here = [row for row in own if not row.peer.startswith(f"{TCPX.name}@")]
        times = dict[str, dict[str, Times]]()
        for row in here:
            times.setdefault(row.workload, {})[row.peer] = _times(row)
        versions = {row.peer: row.version for row in here if row.peer != TCPX.name}
        slow = {cell.name: cell.causes for cell in cells_of(here) if cell.is_slow}
        made.append(Run(date, tree.commit[:COMMIT], tree.changed > 0, *where, times, _limits(here), versions, slow))
    return [run for run in made if run.times]


def keep(runs: Sequence[Run], folder: Path = FOLDER) -> list[Path]:
    """Add runs to the files of their processors; the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        with (folder / run.file_name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run), separators=(",", ":"), allow_nan=False) + "\n")
    return list(dict.fromkeys(folder / run.file_name for run in runs))


def kept(folder: Path = FOLDER) -> list[Run]:
    """All runs, in the order of their dates. Raises ArgumentError for a line that is none."""
    found: list[Run] = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found.append(_read(text, f"{path}:{number}"))
    return sorted(found, key=lambda run: run.date)


def now() -> str:
    """The time, in UTC, to the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")


def _read(text: str, place: str) -> Run:
    try:
        held = cast("dict[str, Any]", json.loads(text))
        times = {name: {peer: _three(given) for peer, given in peers.items()} for name, peers in held["times"].items()}
        limits = {name: (float(seconds), str(by)) for name, (seconds, by) in held.get("limits", {}).items()}
        slow = {name: [(str(cause), float(f)) for cause, f in found] for name, found in held.get("slow", {}).items()}
        return Run(**{**held, "times": times, "limits": limits, "slow": slow})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"cannot read a run of {place}",
                required="a JSON object with date, commit, changed, cpu, target, threads and times",
                found=f"{text:.120} ({type(error).__name__}: {error})",
                fix="take the line out, or restore the file with git checkout",
            )
        ) from error


def _three(given: Sequence[float]) -> Times:
    median, low, high = map(float, given)
    return median, low, high


def _times(row: Row) -> Times:
    held = [row.median_s, row.low_s, row.high_s]
    median, low, high = (float(f"{row.median_s if seconds is None else seconds:.{DIGITS}g}") for seconds in held)
    return median, low, high


def _limits(rows: Sequence[Row]) -> dict[str, tuple[float, str]]:
    return {row.workload: (float(f"{row.limit_s:.{DIGITS}g}"), row.limited_by) for row in rows if row.limit_s}


def main() -> int:
    """Keep the rows of files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json", help="rows, as `tcpx bench -o` writes them")
    parser.add_argument("--date", default=now(), help="when they were measured; default: now")
    parser.add_argument("--commit", default=this_tree().commit, help="of which commit; default: this tree's")
    parser.add_argument("--target", help="the table of the processor; default: that of the rows")
    options = parser.parse_args()
    try:
        for name in options.files:
            rows = [_with_target(row, options.target) for row in read_rows(Path(name))]
            for path in keep(runs_of(rows, options.date, Tree(options.commit, 0))):
                print(f"kept in {path}")
    except tcpx.ArgumentError as error:
        print(error.diagnostic.render(), file=sys.stderr)
        return 1
    return 0


def _with_target(row: Row, target: str | None) -> Row:
    return replace(row, facts={**row.facts, "target": target}) if target and row.peer == MACHINE else row


if __name__ == "__main__":
    sys.exit(main())
