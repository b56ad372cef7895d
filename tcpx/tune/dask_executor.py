"""Candidates tried by the workers of a Dask cluster, each with an evaluator of its own.

A worker gets a candidate together with the incumbent, which it builds for itself: ratios are of two kernels on one
machine. When a worker dies, Dask gives its candidate to another one. Workers run whatever their scheduler sends them:
see docs/tuning.md on trust.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

import distributed
from distributed.scheduler import KilledWorker

import tcpx
from tcpx.measure.limits import Limits as MachineLimits
from tcpx.tune.duel import Effort
from tcpx.tune.evaluation import Evaluator
from tcpx.tune.problem import Problem
from tcpx.tune.slots import Limits, TrialError
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Candidate, Comparison, Verdict
from tcpx.tuned import cpu_name

CONNECT_SECONDS: Final = 20
MOST_LOSSES: Final = 4


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to try candidates of a study. `key` tells studies apart."""

    key: str
    problem: Problem
    limits: Limits
    effort: Effort


class DaskExecutor:
    """An executor on the workers of a cluster with one kind of processor; each has one candidate at a time."""

    def __init__(self, address: str, cpu: str, problem: Problem, limits: Limits, effort: Effort) -> None:
        self._client = _connected(address)
        self._cpu = cpu
        self._cpus: dict[str, str] = {}
        self._own_job = Job(uuid.uuid4().hex, problem, limits, effort)
        self._job: Any = self._client.scatter(self._own_job, broadcast=True)
        self._known: dict[str, Candidate] = {}
        self.incumbent: Candidate | None = None

    def __enter__(self) -> DaskExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del kind, error, trace
        self._client.close()

    @property
    def workers(self) -> int:
        """As many as there are now."""
        return max(1, len(self._addresses()))

    def remember(self, candidates: Sequence[Candidate]) -> None:
        """Candidates of before: those of the same C are not tried again."""
        for candidate in candidates:
            if candidate.c_hash and candidate.verdict is not Verdict.RUNNING and candidate.alike is None:
                self._known.setdefault(candidate.c_hash, candidate)

    def reinstate(self, candidate: Candidate) -> None:
        """Every worker builds it when it is first needed."""
        self.incumbent = candidate

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """One candidate for each worker; one of a worker that dies goes to another."""
        addresses = self._addresses()
        count = max(1, len(addresses))
        futures = [
            self._submitted(candidate, addresses[k % count : k % count + 1] if self._is_uniform else addresses)
            for k, candidate in enumerate(candidates)
        ]
        found = [self._result(future, candidate) for future, candidate in zip(futures, candidates, strict=True)]
        for candidate in found:
            self.remember([candidate])
            held = self.incumbent
            beats = candidate.comparison is not None and (held is None or candidate.comparison.is_faster)
            if beats and candidate.alike is None and (held is None or (candidate.relative or 1) < (held.relative or 1)):
                self.incumbent = candidate
        return found

    def estimates(self, points: Sequence[Mapping[str, Value]]) -> list[float | None]:
        """On one worker."""
        return cast("list[float | None]", self._on_a_worker(estimates_here, points))

    def final(self, winner: Candidate, rivals: Sequence[Candidate | None], processes: int) -> list[Comparison | str]:
        """On one worker; on another, where it dies."""
        return cast("list[Comparison | str]", self._on_a_worker(final_here, winner, rivals, processes))

    def machine_limits(self, beaten: MachineLimits | None = None) -> MachineLimits:
        """Those of one worker."""
        return cast("MachineLimits", self._on_a_worker(limits_here, beaten))

    def _on_a_worker(self, function: Callable[..., object], *arguments: object) -> object:
        for _ in range(MOST_LOSSES):
            future = self._client.submit(function, self._job, *arguments, workers=self._addresses() or None, pure=False)
            try:
                return future.result()
            except CancelledError:
                self._job = self._client.scatter(self._own_job, broadcast=True)
        raise TrialError(Verdict.CRASHED, f"{MOST_LOSSES} workers died while it was measured")

    def _addresses(self) -> list[str]:
        """The workers that have the processor of this study; new ones are asked which they have."""
        found = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        strangers = [address for address in found if address not in self._cpus]
        if strangers:
            self._cpus |= cast("dict[str, str]", self._client.run(cpu_name, workers=strangers, on_error="ignore"))
        return [address for address in found if self._cpus.get(address) == self._cpu]

    @property
    def _is_uniform(self) -> bool:
        """Whether any worker will do."""
        return set(self._cpus.values()) <= {self._cpu}

    def _submitted(self, candidate: Candidate, workers: Sequence[str]) -> Any:  # noqa: ANN401 - Dask's future
        return self._client.submit(
            evaluate_here,
            self._job,
            candidate,
            self.incumbent,
            list(self._known.values()),
            workers=workers or None,
            allow_other_workers=bool(workers) and self._is_uniform,
            pure=False,
        )

    def _result(self, future: Any, candidate: Candidate) -> Candidate:  # noqa: ANN401 - Dask's future
        for _ in range(MOST_LOSSES):
            try:
                return cast("Candidate", future.result())
            except KilledWorker as error:
                return replace(candidate, verdict=Verdict.CRASHED, reason=f"workers died while it was tried: {error}")
            except CancelledError:  # the worker that died was the only one that held the job
                self._job = self._client.scatter(self._own_job, broadcast=True)
                future = self._submitted(candidate, [] if self._is_uniform else self._addresses())
        return replace(candidate, verdict=Verdict.CRASHED, reason=f"{MOST_LOSSES} workers died while it was tried")


def cpus_of_cluster(address: str) -> list[str]:
    """The kinds of processors that workers have, the one that most have first. Raises ArgumentError where there are no
    workers."""
    with _connected(address) as client:
        found = Counter(cast("dict[str, str]", client.run(cpu_name)).values())
    if not found:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"no worker is connected to {address}",
                required="one worker or more",
                found="a scheduler without workers",
            )
        )
    return [name for name, _ in sorted(found.items(), key=lambda held: (-held[1], held[0]))]


def _connected(address: str) -> Any:  # noqa: ANN401 - Dask's client has no types
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"no Dask scheduler answers at {address}",
                required="the address of a scheduler that runs, such as dask://host:8786",
                found=str(error) or type(error).__name__,
            )
        ) from error


_evaluators: dict[str, Evaluator] = {}
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
        return _evaluator_of(job).final(winner, rivals, processes)


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
        folder = Path(tempfile.mkdtemp(prefix="tcpx-tune-"))
        found = _evaluators[job.key] = Evaluator(job.problem, folder, job.limits, job.effort, 1, owns_folder=True)
    return found


def close_evaluators() -> None:
    """End what the worker holds."""
    for evaluator in _evaluators.values():
        evaluator.close()
    _evaluators.clear()


atexit.register(close_evaluators)
