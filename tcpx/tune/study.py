"""What a tuning run found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import tcpx
from tcpx.cells import page_cell, text_cell
from tcpx.quantities import percent
from tcpx.records import brief, frozen
from tcpx.tune.export import counts
from tcpx.tune.final_comparison import FinalComparison
from tcpx.tune.importance import importance
from tcpx.tune.ledger import StudyKey
from tcpx.tune.page.study_page import study_page
from tcpx.tune.progress import MOST_KNOBS, changed_knobs
from tcpx.tune.roof import Roof
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload
from tcpx.tune.verdicts import Candidate
from tcpx.tuned import records_of, write_record
from tcpx.written_paths import file_to_write, path_to_write

SHOWN: Final = 6


@frozen
class Study:
    """The candidates of a study, and the fastest.

    `first` is the first candidate: the defaults of the schedule, where these are a point. `final` is the fastest beside
    it and beside no schedule, in fresh processes; `winner` is what is recommended. `roof` is the limit of the machine,
    None where nothing sets one. `notes` say what a reader should know: why it ended, what tied.
    """

    module: tcpx.Module
    schedule: tcpx.Schedule
    target: str
    threads: int
    key: StudyKey
    candidates: tuple[Candidate, ...]
    best: Candidate | None
    first: Candidate | None
    final: FinalComparison = field(default_factory=FinalComparison)
    notes: tuple[str, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict[str, Value])
    roof: Roof | None = None
    workloads: tuple[Workload, ...] = ()
    trials: int = 0
    """How many candidates were asked for at most."""
    cut_off: str = ""
    """Why nobody was left to try more candidates; empty where it came to its end."""
    is_interrupted: bool = False
    """Whether Ctrl-C ended it."""
    is_exhausted: bool = False
    """Whether the space has no points beside the candidates."""
    others: tuple[Study, ...] = ()
    """Those for other kinds of processors of a cluster."""
    seconds: float = 0.0
    """What the search took, from the first candidate to the last."""
    trying: float = 0.0
    """The part of it in which candidates were compiled, checked and timed; the rest is the search's own."""
    preparing: float = 0.0
    """Seconds before it: the space of the schedule, the limits of the machine."""
    measuring: float = 0.0
    """Seconds behind it, which count in no budget: the winner again, in fresh processes."""
    names: tcpx.KnobNames = tcpx.KnobNames({})
    """What knobs are called where people read: the shortest names that tell them apart."""

    def __repr__(self) -> str:
        return brief("Study", self.key.key, f"of {counts(self.candidates)}")

    def _repr_html_(self) -> str:
        return page_cell(
            study_page(self),
            lambda: text_cell(repr(self)[1:-1], self.text(), "print(study.text())"),
            "study.html('page.html')",
        )

    @property
    def searching(self) -> float:
        """The seconds that count in a budget: all but those of the final comparison."""
        return self.preparing + self.seconds

    @property
    def keeps_defaults(self) -> bool:
        """Whether fresh processes did not show that the fastest is faster than the defaults."""
        found = self.final.against_defaults
        return self.first is not None and found is not None and not found.is_faster

    @property
    def winner(self) -> Candidate | None:
        """What is recommended and recorded: the fastest; the defaults where nothing is known to be faster than they
        are; None where no candidate is right."""
        return self.first if self.keeps_defaults else self.best

    @property
    def params(self) -> dict[str, Value]:
        """What `tcpx.compile` takes to get the winner."""
        return {**self.fixed, **(self.winner.params if self.winner is not None else {})}

    def record(self, path: str | Path) -> tcpx.TunedRecord:
        """Write the winner into a file of tuned records, for `tcpx.compile(.., tuned=path)`: for the payload, and for
        each function that is called once the schedule has run, for other payloads that call it.

        Raises ArgumentError where nothing won.
        """
        path_to_write(path)
        if self.winner is None:
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    "there is nothing to record",
                    required="a study with a winner",
                    found=counts(self.candidates),
                )
            )
        target = tcpx.load_target(self.target)
        told, cpu = self.provenance(), self.key.facts.get("cpu", "")
        records = records_of(self.module, self.schedule, target, self.threads, self.params, told, cpu)
        for record in records:
            write_record(path, record)
        return records[0]

    def html(self, path: str | Path) -> None:
        """Write a page with history, effects of knobs, verdicts, a roofline and the winner: one file, for any browser,
        that needs nothing else."""
        file_to_write(path).write_text(study_page(self), encoding="utf-8")

    def provenance(self) -> dict[str, str]:
        """Where the values come from, in words."""
        told = {
            "study": self.key.key,
            "workloads": self.key.facts.get("workloads", ""),
            "candidates": counts(self.candidates),
            **made_today(),
        }
        rivals = {
            "the defaults": self.final.against_defaults,
            "the payload without a schedule": self.final.against_no_schedule,
        }
        times = [f"{found.shown} of that of {name}" for name, found in rivals.items() if found is not None]
        if self.keeps_defaults and self.best is not None:
            times = [f"the defaults: #{self.best.number} took {times[0]}"]
        return {**told, **({"time": "; ".join(times)} if times else {})}

    @property
    def tied(self) -> tuple[Candidate, ...]:
        """Others that are not known to be slower than the fastest: within their interval of it."""
        best = self.best
        if best is None or best.relative is None:
            return ()
        return tuple(
            c
            for c in self.candidates
            if c.comparison is not None
            and c.relative is not None
            and c.alike is None
            and c.number != best.number
            and c.relative * c.comparison.low / c.comparison.ratio <= best.relative
        )

    def text(self) -> str:
        """A summary for a terminal."""
        lines = [counts(self.candidates)]
        if self.seconds > 0:
            parts = {
                "to prepare": self.preparing,
                "in candidates": self.trying,
                "the search itself": self.seconds - self.trying,
                "to measure the winner again": self.measuring,
            }
            told = ", ".join(f"{seconds:.1f} {name}" for name, seconds in parts.items())
            lines.append(f"{sum(parts.values()):.0f} s: {told}")
        best = self.best
        if best is None:
            why = "no candidate is right" if self.candidates else "no candidate was tried"
            lines.append(f"{why}: there is no winner")
        else:
            is_first = best == self.first and len(best.point) > MOST_KNOBS
            knobs = "the defaults" if is_first else changed_knobs(best, self.names, self.candidates) or "no knobs"
            kept = f"the defaults, #{self.first.number}: " if self.keeps_defaults and self.first is not None else ""
            unknown = " is not known to be faster" if kept else ""
            lines.append(f"best: {kept}#{best.number} {knobs}{unknown}")
            lines += self.final.lines(best, self.first, self.roof)
        weights = importance(self.candidates)
        if weights:
            shown = ", ".join(f"{self.names(path)} {percent(weight)}" for path, weight in list(weights.items())[:SHOWN])
            lines.append(f"  what mattered: {shown}")
        tied = self.tied
        if tied:
            shown = ", ".join(f"#{c.number}" for c in tied[:SHOWN]) + (", .." if len(tied) > SHOWN else "")
            lines.append(f"  not known to be slower: {shown}")
        return "\n".join([*lines, *self.notes])


def made_today() -> dict[str, str]:
    """By what a record was made, and when."""
    return {"tcpx": tcpx.__version__, "made": datetime.now(UTC).isoformat(timespec="seconds")}
