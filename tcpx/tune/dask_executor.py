"""Candidates tried by the workers of a Dask cluster, each with an evaluator of its own.

A worker gets a candidate together with the incumbent, which it builds for itself: ratios are of two kernels on one
machine. When a worker dies, its candidate goes to another one (dask_workers). Workers run whatever their scheduler
sends them: see docs/tuning.md on trust.
"""

from __future__ import annotations

import atexit
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import cast

from tcpx.measure.limits import Limits as MachineLimits
from tcpx.records import frozen
from tcpx.tune.dask_workers import DaskWorkers, Task
from tcpx.tune.duel import Effort
from tcpx.tune.evaluation import Evaluator
from tcpx.tune.problem import Problem
from tcpx.tune.slots import Limits, TrialError
from tcpx.tune.space import Value
from tcpx.tune.study_folder import study_folder
from tcpx.tune.verdicts import Candidate, Comparison, Verdict


@frozen
class Job:
    """What a worker needs to try candidates of a study. `key` tells studies apart."""

    key: str
    problem: Problem
    limits: Limits
    effort: Effort


class DaskExecutor:
    """An executor on the workers of a cluster with one kind of processor; each has one candidate at a time."""

    def __init__(self, address: str, cpu: str, problem: Problem, limits: Limits, effort: Effort) -> None:
        self._workers = DaskWorkers(address, cpu, Job(uuid.uuid4().hex, problem, limits, effort))
        self._known: dict[str, Candidate] = {}
        self.incumbent: Candidate | None = None

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.close()

    @property
    def workers(self) -> int:
        """As many as there are now."""
        return max(1, len(self._workers.addresses()))

    def remember(self, candidates: Sequence[Candidate]) -> None:
        """Candidates of before: those of the same C are not tried again."""
        for candidate in candidates:
            if candidate.c_hash and candidate.is_settled and candidate.alike is None:
                self._known.setdefault(candidate.c_hash, candidate)

    def reinstate(self, candidate: Candidate) -> None:
        """Every worker builds it when it is first needed."""
        self.incumbent = candidate

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """One candidate for each worker; one of a worker that dies goes to another."""
        tasks = [self._submitted(candidate) for candidate in candidates]
        found = [self._result(task, candidate) for task, candidate in zip(tasks, candidates, strict=True)]
        for candidate in found:
            self.remember([candidate])
            held = self.incumbent
            beats = candidate.comparison is not None and (held is None or candidate.comparison.is_faster)
            if beats and candidate.alike is None and (held is None or (candidate.relative or 1) < (held.relative or 1)):
                self.incumbent = candidate
        return found

    def _submitted(self, candidate: Candidate) -> Task | TrialError:
        try:
            return self._workers.submit(evaluate_here, candidate, self.incumbent, list(self._known.values()))
        except TrialError as error:
            return error

    def _result(self, task: Task | TrialError, candidate: Candidate) -> Candidate:
        try:
            if isinstance(task, TrialError):
                raise task
            return cast("Candidate", self._workers.result(task))
        except TrialError as error:
            return replace(candidate, verdict=error.verdict, reason=str(error))

    def estimates(self, points: Sequence[Mapping[str, Value]]) -> list[float | None]:
        """On one worker. Raises TrialError where none is left."""
        return cast("list[float | None]", self._on_a_worker(estimates_here, points))

    def final(
        self,
        winner: Candidate,
        rivals: Sequence[Candidate | None],
        processes: int,
        on_set: Callable[[str], None],
    ) -> list[Comparison | str]:
        """On one worker; on another, where it dies. A worker does not say which set it is at."""
        del on_set
        return cast("list[Comparison | str]", self._on_a_worker(final_here, winner, rivals, processes))

    def machine_limits(self, beaten: MachineLimits | None = None) -> MachineLimits:
        """Those of one worker. Raises TrialError where none is left."""
        return cast("MachineLimits", self._on_a_worker(limits_here, beaten))

    def _on_a_worker(self, function: Callable[..., object], *arguments: object) -> object:
        return self._workers.result(self._workers.submit(function, *arguments))


_evaluators: dict[str, Evaluator] = {}
_open = ExitStack()
_one_at_a_time = threading.Lock()


def evaluate_here(job: Job, candidate: Candidate, incumbent: Candidate | None, known: Sequence[Candidate]) -> Candidate:
    """On a worker: what comes of a candidate beside the incumbent."""
    with _one_at_a_time:
        evaluator = _evaluator_of(job)
        evaluator.remember(known)
        held = evaluator.incumbent
        if incumbent is not None and (held is None or held.number != incumbent.number):
            try:
                evaluator.reinstate(incumbent)
            except TrialError as error:
                reason = f"the incumbent #{incumbent.number} does not run on this worker: {error}"
                return replace(candidate, verdict=Verdict.CRASHED, reason=reason)
        return evaluator.evaluate([candidate])[0]


def final_here(
    job: Job, winner: Candidate, rivals: Sequence[Candidate | None], processes: int
) -> list[Comparison | str]:
    """On a worker: the winner beside its rivals in fresh processes. Raises TrialError."""
    with _one_at_a_time:
        return _evaluator_of(job).final(winner, rivals, processes, lambda _: None)


def estimates_here(job: Job, points: Sequence[Mapping[str, Value]]) -> list[float | None]:
    """On a worker: what the model expects of some params."""
    with _one_at_a_time:
        return _evaluator_of(job).estimates(points)


def limits_here(job: Job, beaten: MachineLimits | None) -> MachineLimits:
    """The limits of a worker's machine."""
    with _one_at_a_time:
        return _evaluator_of(job).machine_limits(beaten)


def _evaluator_of(job: Job) -> Evaluator:
    """The evaluator of a study on this worker; those of other studies end."""
    found = _evaluators.get(job.key)
    if found is None:
        close_evaluators()
        folder = _open.enter_context(study_folder())
        found = _open.enter_context(Evaluator(job.problem, folder, job.limits, job.effort, 1))
        _evaluators[job.key] = found
    return found


def close_evaluators() -> None:
    """End what the worker holds."""
    _open.close()
    _evaluators.clear()


atexit.register(close_evaluators)
