"""A payload with some params beside the same with others, in fresh processes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tcpx.tune.duel import Effort
from tcpx.tune.evaluation import Evaluator
from tcpx.tune.interrupts import Interrupts
from tcpx.tune.problem import Problem
from tcpx.tune.slots import Limits, TrialError
from tcpx.tune.space import Value
from tcpx.tune.study_folder import study_folder
from tcpx.tune.verdicts import Candidate, Comparison, Verdict


@dataclass(slots=True)
class Rivals:
    """`problem` is asked for once, when something is compared; with no `processes` nothing is."""

    problem: Callable[[], Problem]
    limits: Limits
    effort: Effort
    processes: int
    say: Callable[[str], None]
    _problem: Problem | None = field(default=None)

    def compared(self, params: Mapping[str, Value], others: Mapping[str, Value]) -> Comparison | str | None:
        """The payload with some params beside it with others: its time as a part of theirs, or why it does not run.
        None where that is not asked for, or where the others do not run."""
        if self.processes == 0:
            return None
        problem = self._problem = self._problem or self.problem()
        least = max(2, self.processes)
        with (
            Interrupts().caught(),
            study_folder() as folder,
            Evaluator(problem, folder, self.limits, self.effort, 2) as evaluator,
        ):
            try:
                (found,) = evaluator.final(
                    _candidate(1, params),
                    [_candidate(0, others)],
                    least,
                    lambda text: self.say(f"fresh processes, {text}"),
                )
            except TrialError as error:
                return str(error)
        return found if isinstance(found, Comparison) else None


def _candidate(number: int, params: Mapping[str, Value]) -> Candidate:
    return Candidate(number, params, params, Verdict.OK)
