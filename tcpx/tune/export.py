"""The candidates of a study as a table, as CSV and as JSON."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import tcpx
from tcpx.plurals import counted
from tcpx.tune.progress import changed_knobs
from tcpx.tune.verdicts import Candidate, Verdict

COLUMNS = "number verdict reason source relative ratio low high rounds seconds steady against alike attempts".split()


def as_json(candidates: Sequence[Candidate]) -> str:
    """A list of objects with all that is known."""
    return json.dumps([{**asdict(c), "verdict": c.verdict.value} for c in candidates], indent=1) + "\n"


def as_csv(candidates: Sequence[Candidate]) -> str:
    """One line per candidate; a column per knob, empty where it does not count."""
    paths = list(dict.fromkeys(path for candidate in candidates for path in candidate.point))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *paths])
    for candidate in candidates:
        held = {**asdict(candidate), **(asdict(candidate.comparison) if candidate.comparison is not None else {})}
        held["verdict"] = candidate.verdict.value
        cells = [held.get(name) for name in COLUMNS]
        writer.writerow(
            [*("" if cell is None else cell for cell in cells), *(candidate.point.get(p, "") for p in paths)]
        )
    return out.getvalue()


def as_table(candidates: Sequence[Candidate], most: int = 20) -> str:
    """The verdicts, and the fastest candidates, for a terminal."""
    measured = sorted((c for c in candidates if c.is_measured), key=lambda c: c.relative or 0.0)
    lines = [counts(candidates)]
    names = tcpx.KnobNames.of(path for candidate in candidates for path in candidate.point)
    for candidate in measured[:most]:
        knobs = changed_knobs(candidate, names, candidates)
        note = f" (the C of #{candidate.alike})" if candidate.alike is not None else ""
        lines.append(f"  #{candidate.number:<4} {candidate.relative:8.3f}  {knobs}{note}")
    refused = [c for c in candidates if c.verdict not in (Verdict.OK, Verdict.RUNNING)]
    lines += [f"  #{c.number:<4} {c.verdict.value}: {c.reason}" for c in refused[-most:]]
    return "\n".join(lines)


def counts(candidates: Sequence[Candidate]) -> str:
    """`30 candidates: 21 ok, 8 constraint, 1 crashed`."""
    found = Counter(candidate.verdict for candidate in candidates)
    parts = ", ".join(f"{found[verdict]} {verdict.value}" for verdict in Verdict if found[verdict])
    return f"{counted(len(candidates), 'candidate')}{': ' if parts else ''}{parts}"
