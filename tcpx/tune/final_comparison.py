"""The winner beside what there was before: the defaults, and no schedule at all."""

from collections.abc import Callable, Sequence

from tcpx.columns import aligned
from tcpx.quantities import duration, percent
from tcpx.records import frozen
from tcpx.tune.executor import Executor
from tcpx.tune.fresh_processes import MOST_TIMES
from tcpx.tune.roof import Roof
from tcpx.tune.slots import TrialError
from tcpx.tune.verdicts import Candidate, Comparison


@frozen
class FinalComparison:
    """The times of the winner as parts of those of the defaults and of the payload compiled without the schedule, in
    fresh processes; None where they are the same, or where it was not measured."""

    against_defaults: Comparison | None = None
    against_no_schedule: Comparison | None = None
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The shortest median time of the winner."""
        found = [held.seconds for held in (self.against_defaults, self.against_no_schedule) if held is not None]
        return min(found, default=None)

    def lines(self, best: Candidate, first: Candidate | None, roof: Roof | None) -> list[str]:
        """A table for a terminal."""
        seconds = self.seconds or (best.comparison.seconds if best.comparison is not None else None)
        rows: list[tuple[str, ...]] = []
        beside = self.against_defaults
        name = "the winner" if beside is None or beside.is_faster else f"#{best.number}"
        if seconds is not None:
            rows.append((name, duration(seconds), *_of_limit(roof, seconds)))
        rivals = [("the defaults", self.against_defaults), ("without a schedule", self.against_no_schedule)]
        for rival, found in rivals:
            if found is not None and seconds is not None:
                shaky = "; the machine was busy" if not found.steady else ""
                unknown = "; the interval contains 1: that does not tell the two apart"
                same = unknown if found.low <= 1 <= found.high else ""
                other = found.seconds / found.ratio
                part = f"{name} takes {found.shown} of it, in fresh processes{shaky}{same}"
                rows.append((rival, duration(other), *_of_limit(roof, other), part))
        lines = [f"  {line}" for line in aligned(rows, (0, 3))]
        if self.against_defaults is None and first is not None and best.number == first.number:
            lines.append("  nothing is faster than the defaults")
        return lines


def measured_again(
    executor: Executor,
    best: Candidate,
    first: Candidate | None,
    bare: bool,
    processes: int,
    said: Callable[[str], None],
) -> FinalComparison:
    """The winner beside the defaults, where these are another kernel, and with `bare` beside no schedule;
    no `processes`: nothing is. `said` hears what begins."""
    rivals: list[Candidate | None] = []
    if processes == 0:
        return FinalComparison()
    if first is not None and first.c_hash != best.c_hash:
        rivals.append(first)
    if bare:
        rivals.append(None)
    names = ["the defaults" if rival is not None else "the payload without a schedule" for rival in rivals]
    least = max(2, processes)
    try:
        if rivals:
            said(announced(names, [best, *rivals], least))
        found = executor.final(best, rivals, least, said)
    except TrialError as error:
        return FinalComparison(notes=(f"the winner was not measured again: {error}",))
    notes = [f"{name}: {held}" for name, held in zip(names, found, strict=True) if isinstance(held, str)]
    measured = {rival is None: held for rival, held in zip(rivals, found, strict=True) if isinstance(held, Comparison)}
    return FinalComparison(measured.get(False), measured.get(True), tuple(notes))


def announced(names: Sequence[str], compared: Sequence[Candidate | None], least: int) -> str:
    """What the final comparison is, and about how long it takes: each set as long as the candidates took in the search.
    A payload without a schedule counts as the winner, the first of those compared."""
    first, most = least, MOST_TIMES * least
    took = [_seconds_of(held or compared[0]) for held in compared]
    return (
        f"measuring the winner again beside {' and '.join(names)}, in {first} to {most} sets of fresh processes: "
        f"about {first * sum(took):.0f} to {most * sum(took):.0f} s, beyond the budget"
    )


def _seconds_of(candidate: Candidate | None) -> float:
    return 0.0 if candidate is None or candidate.finished is None else candidate.finished - candidate.started


def _of_limit(roof: Roof | None, seconds: float) -> tuple[str, ...]:
    """A cell with the part of the limit that so many seconds reach; without a roof, an empty one."""
    return (f"{percent(roof.fraction(seconds))} of the limit ({roof.by})",) if roof is not None else ("",)
