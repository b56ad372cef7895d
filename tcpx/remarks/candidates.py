"""What may make a statement slow, and which of that is beyond the bounds of its cause."""

from collections.abc import Iterable, Mapping, Sequence

from tcpx.costs.visits import Statement
from tcpx.costs.work import Place
from tcpx.records import frozen
from tcpx.remarks.causes import LEAST_FACTOR, LEAST_SHARE, LEAST_TIME, MOST, Cause


@frozen
class Candidate:
    """A cause, its place, how long the statement would take without it, and what was found."""

    cause: Cause
    place: Place
    after: float
    found: str


Together = Mapping[tuple[Cause, Place], float]
"""What all statements lose by a cause at a place."""


def lost_together(candidates: Mapping[Statement, Sequence[Candidate]], totals: Mapping[Statement, float]) -> Together:
    """What statements lose that take so long each: as one does, two that copy the operands of a concatenation."""
    lost: dict[tuple[Cause, Place], float] = {}
    for statement, those in candidates.items():
        total = totals[statement]
        for each in those:
            if each.place is not None and total >= each.cause.least * each.after:
                key = each.cause, each.place
                lost[key] = lost.get(key, 0.0) + total - each.after
    return lost


def lost_by(each: Candidate, total: float, whole: float, together: Together) -> float:
    """What the kernel loses by a cause: what its statement does, or what all do at the same place where that is too
    little to be named."""
    own = total - each.after
    return own if whole >= each.cause.gain * (whole - own) else max(own, together.get((each.cause, each.place), 0.0))


def worst_of(candidates: Iterable[Candidate], total: float, whole: float, together: Together) -> list[Candidate]:
    """The causes that cost most of those that are beyond their bounds, each once."""
    least = max(LEAST_SHARE * whole, LEAST_TIME)
    those = [
        each
        for each in candidates
        if total >= each.cause.least * each.after
        and total - each.after >= least
        and (
            whole >= each.cause.gain * (whole - lost_by(each, total, whole, together))
            or total >= LEAST_FACTOR * each.after
        )
    ]
    once = {each.cause.name: each for each in sorted(those, key=lambda candidate: -candidate.after)}
    return sorted(once.values(), key=lambda candidate: candidate.after)[:MOST]
