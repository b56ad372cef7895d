"""What is said while a study runs: events, and plain lines made of them."""

from collections.abc import Callable, Sequence
from typing import Final

import tcpx
from tcpx.quantities import duration
from tcpx.records import brief, frozen
from tcpx.tune.verdicts import Candidate

MOST_KNOBS: Final = 12
"""Knobs in a line: more are counted."""


@frozen
class Progress:
    """Where a study is: what just came out, all candidates, the fastest, seconds so far and in all. `fraction` is the
    part of the machine's limit that the fastest reaches. `phase` is what begins now, where it is no candidate."""

    finished: tuple[Candidate, ...]
    candidates: Sequence[Candidate]
    best: Candidate | None
    seconds: float
    budget: float | None
    trials: int
    fraction: float | None = None
    phase: str = ""
    names: tcpx.KnobNames = tcpx.KnobNames({})

    def __repr__(self) -> str:
        return brief("Progress", self.phase or f"{len(self.candidates)} candidate(s), {self.seconds:.0f} s")


Listener = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Says nothing."""
    del progress


def line_of(candidate: Candidate, names: tcpx.KnobNames, candidates: Sequence[Candidate]) -> str:
    """One candidate in a line, with the knobs that differ from the first of all candidates; of that, all that fit."""
    knobs = changed_knobs(candidate, names, candidates)
    found = candidate.comparison
    if candidate.alike is not None:
        return f"#{candidate.number:<4} the C of #{candidate.alike}  {knobs}"
    if found is None or candidate.relative is None:
        return f"#{candidate.number:<4} {candidate.verdict.value}: {candidate.reason}  {knobs}"
    of = f"{found.shown} of #{candidate.against}"
    busy = "" if found.steady else ", machine busy"
    return f"#{candidate.number:<4} {duration(found.seconds)}, {of}{busy}  {knobs}"


def changed_knobs(candidate: Candidate, names: tcpx.KnobNames, candidates: Sequence[Candidate]) -> str:
    """The knobs of a candidate that differ from the first of all candidates, all knobs of the first itself, at most
    `MOST_KNOBS` of them."""
    first = min(candidates, key=lambda c: c.number, default=candidate)
    if candidate.number == first.number and len(candidate.point) > MOST_KNOBS:
        return f"{len(candidate.point)} knobs; others say what they change"
    is_first = candidate.number == first.number
    changed = [
        f"{names(path)}={value}"
        for path, value in candidate.point.items()
        if is_first or path not in first.point or first.point[path] != value
    ]
    left = len(changed) - MOST_KNOBS
    return " ".join([*changed[:MOST_KNOBS], *([f".. and {left} more"] if left > 0 else [])])
