"""What a tuning run found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import tcpx
from tcpx.tune.export import counts
from tcpx.tune.importance import importance
from tcpx.tune.ledger import StudyKey
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Candidate, Comparison
from tcpx.tuned import record_of, setting_of, write_record

SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class Study:
    """The candidates of a study, and the fastest.

    `against_defaults` compares the fastest with the first candidate (the defaults of the schedule, where these are a
    point) in fresh processes; None where they are the same, or where it was not measured. `notes` say what a reader
    should know: why it ended, what tied.
    """

    module: tcpx.Module
    schedule: tcpx.Schedule
    target: str
    threads: int
    key: StudyKey
    candidates: tuple[Candidate, ...]
    best: Candidate | None
    first: Candidate | None
    against_defaults: Comparison | None = None
    notes: tuple[str, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict[str, Value])

    @property
    def params(self) -> dict[str, Value]:
        """What `tcpx.compile` takes to get the fastest kernel."""
        return {**self.fixed, **(self.best.params if self.best is not None else {})}

    def record(self, path: str | Path) -> tcpx.TunedRecord:
        """Write the fastest into a file of tuned records, for `tcpx.compile(.., tuned=path)`.

        Raises ArgumentError where nothing won.
        """
        if self.best is None:
            raise tcpx.ArgumentError(
                tcpx.Diagnostic(
                    "there is nothing to record",
                    required="a study with a winner",
                    found=counts(self.candidates),
                )
            )
        setting = setting_of(self.module, self.schedule, tcpx.load_target(self.target), self.threads)
        setting = replace(setting, cpu=self.key.facts.get("cpu", setting.cpu))
        made = record_of(self.module, setting, self.params, self.provenance())
        write_record(path, made)
        return made

    def provenance(self) -> dict[str, str]:
        """Where the values come from, in words."""
        found = self.against_defaults
        told = {
            "study": self.key.key,
            "workloads": self.key.facts.get("workloads", ""),
            "candidates": counts(self.candidates),
            "tcpx": tcpx.__version__,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        if found is not None:
            told["time"] = f"{found.ratio:.3f} of that of the defaults ({found.low:.3f}..{found.high:.3f})"
        return told

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
        best, found = self.best, self.against_defaults
        if best is None:
            lines.append("no candidate is right: there is no winner")
        else:
            knobs = ", ".join(f"{path}={value}" for path, value in best.point.items()) or "no knobs"
            lines.append(f"best: #{best.number} {knobs}")
        if found is not None:
            width = f"{found.low:.3f}..{found.high:.3f}"
            shaky = "" if found.steady else "; the machine was busy"
            lines.append(f"  {found.ratio:.3f} of the time of the defaults, in fresh processes ({width}{shaky})")
            if found.low <= 1 <= found.high:
                lines.append("  which does not tell it from the defaults: the interval holds 1")
        elif best is not None and self.first is not None and best.number == self.first.number:
            lines.append("  nothing is faster than the defaults")
        weights = importance(self.candidates)
        if weights:
            shown = ", ".join(f"{path} {weight:.0%}" for path, weight in list(weights.items())[:SHOWN])
            lines.append(f"  what mattered: {shown}")
        tied = self.tied
        if tied:
            shown = ", ".join(f"#{c.number}" for c in tied[:SHOWN]) + (", .." if len(tied) > SHOWN else "")
            lines.append(f"  not known to be slower: {shown}")
        return "\n".join([*lines, *self.notes])
