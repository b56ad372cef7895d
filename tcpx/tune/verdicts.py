"""What came of a candidate."""

import traceback
from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from tcpx.records import brief, frozen
from tcpx.tune.space import Value


class Verdict(Enum):
    """Every candidate ends with one; `RUNNING` is one that is not through yet, `WORKERS_GONE` one that nobody was left
    to try."""

    RUNNING = "running"
    OK = "ok"
    CONSTRAINT = "constraint"
    TRANSFORM_FAILED = "transform failed"
    COMPILE_FAILED = "compile failed"
    WRONG_RESULT = "wrong result"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    PRUNED = "pruned"
    WORKERS_GONE = "workers gone"


@frozen
class Comparison:
    """The time of a candidate as a part of that of another, the incumbent, measured in the same rounds.

    `low` and `high` bound `ratio` with 95 % confidence. `steady` says whether the machine ran at full speed. `seconds`
    is the median time of a call of the candidate.
    """

    ratio: float
    low: float
    high: float
    rounds: int
    seconds: float
    steady: bool = True

    @property
    def shown(self) -> str:
        """The ratio and its interval: `0.913 (0.901..0.925)`."""
        return f"{self.ratio:.3f} ({self.low:.3f}..{self.high:.3f})"

    @property
    def is_faster(self) -> bool:
        """Whether it is, with 95 % confidence."""
        return self.high < 1

    @property
    def is_slower(self) -> bool:
        """Whether it is, with 95 % confidence."""
        return self.low > 1

    @property
    def width(self) -> float:
        """The width of the interval, relative to the ratio."""
        return (self.high - self.low) / self.ratio


@frozen
class Candidate:
    """A record of the ledger: a point, what came of it, and when, where and why it was tried.

    `relative` is its time as a part of that of the first candidate of the study: the product of the ratios of the
    incumbents between them. `against` is the number of the incumbent. `alike` is that of an earlier candidate whose C
    is the same, which was measured in its place. `estimate` is what the model expects, in seconds.
    """

    number: int
    point: Mapping[str, Value]
    params: Mapping[str, Value]
    verdict: Verdict
    source: str = ""
    reason: str = ""
    c_hash: str = ""
    comparison: Comparison | None = None
    against: int | None = None
    alike: int | None = None
    relative: float | None = None
    build_seconds: float | None = None
    attempts: int = 1
    owner: str = ""
    started: float = 0.0
    finished: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    estimate: float | None = None

    def __repr__(self) -> str:
        relative = f", {self.relative:.3f} of the first's time" if self.relative is not None else ""
        return brief("Candidate", f"#{self.number}, {self.verdict.value}{relative}, {len(self.point)} knob(s)")

    @property
    def was_incumbent(self) -> bool:
        """Whether it was the fastest when it was tried: the first one, or one that was faster than the incumbent."""
        found = self.comparison
        return (
            self.is_measured
            and self.alike is None
            and (self.against == self.number or (found is not None and found.is_faster))
        )

    @property
    def is_settled(self) -> bool:
        """Whether it is known what comes of it; if not, a study that goes on tries it."""
        return self.verdict not in (Verdict.RUNNING, Verdict.WORKERS_GONE)

    @property
    def is_measured(self) -> bool:
        """Whether its time is known."""
        return self.verdict is Verdict.OK and self.relative is not None


def crash_reason(error: Exception) -> str:
    """What was raised, and where, in words."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
