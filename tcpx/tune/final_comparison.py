"""The winner beside what there was before: the defaults, and no schedule at all."""

from collections.abc import Callable

from tcpx.records import frozen
from tcpx.tune.executor import Executor
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
        lines: list[str] = []
        beside = self.against_defaults
        name = "the winner" if beside is None or beside.is_faster else f"#{best.number}"
        if seconds is not None:
            lines.append(f"  {name:<20} {_time(seconds)}{_share(roof, seconds)}")
        rivals = [("the defaults", self.against_defaults), ("without a schedule", self.against_no_schedule)]
        for rival, found in rivals:
            if found is not None and seconds is not None:
                width = f"{found.low:.3f}..{found.high:.3f}"
                shaky = "; the machine was busy" if not found.steady else ""
                other = found.seconds / found.ratio
                part = f"{name} takes {found.ratio:.3f} of it ({width}, fresh processes{shaky})"
                lines.append(f"  {rival:<20} {_time(other)}{_share(roof, other)}; {part}")
                if found.low <= 1 <= found.high:
                    lines.append(f"  {'':<20} the interval contains 1: that does not tell the two apart")
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
    if rivals:
        beside = " and ".join(names)
        said(f"measuring the winner again beside {beside}, in {least} to {3 * least} sets of fresh processes")
    try:
        found = executor.final(best, rivals, least, lambda number: said(f"set {number} of {least} to {3 * least}"))
    except TrialError as error:
        return FinalComparison(notes=(f"the winner was not measured again: {error}",))
    notes = [f"{name}: {held}" for name, held in zip(names, found, strict=True) if isinstance(held, str)]
    measured = {rival is None: held for rival, held in zip(rivals, found, strict=True) if isinstance(held, Comparison)}
    return FinalComparison(measured.get(False), measured.get(True), tuple(notes))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:9.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:9.2f} us"


def _share(roof: Roof | None, seconds: float) -> str:
    return f", {roof.fraction(seconds):4.0%} of the limit ({roof.by})" if roof is not None else ""
