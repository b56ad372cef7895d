"""What is said while a study runs: events, and plain lines made of them."""

from collections.abc import Callable, Sequence

import tcpx
from tcpx.records import frozen
from tcpx.tune.verdicts import Candidate


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


Listener = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Says nothing."""
    del progress


def line_of(candidate: Candidate, names: tcpx.KnobNames) -> str:
    """One candidate in a line."""
    knobs = " ".join(f"{names(path)}={value}" for path, value in candidate.point.items())
    found = candidate.comparison
    if candidate.alike is not None:
        return f"#{candidate.number:<4} the C of #{candidate.alike}  {knobs}"
    if found is None or candidate.relative is None:
        return f"#{candidate.number:<4} {candidate.verdict.value}: {candidate.reason}  {knobs}"
    of = f"{found.ratio:.3f} ({found.low:.3f}..{found.high:.3f}) of #{candidate.against}"
    busy = "" if found.steady else ", machine busy"
    return f"#{candidate.number:<4} {found.seconds * 1e6:.1f} us, {of}{busy}  {knobs}"
