"""Where candidates are tried: on this machine, or by workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

import tcpx
from tcpx.measure.limits import Limits as MachineLimits
from tcpx.tune.duel import Effort
from tcpx.tune.evaluation import Evaluator
from tcpx.tune.problem import Problem
from tcpx.tune.slots import Limits
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Candidate, Comparison

LOCAL: Final = "local"
DASK: Final = "dask://"


class Executor(Protocol):
    """A context manager that tries candidates, `workers` at once. `incumbent` is the fastest so far."""

    incumbent: Candidate | None

    @property
    def workers(self) -> int:
        """How many candidates are tried at once."""
        ...

    def __enter__(self) -> Executor: ...

    def __exit__(self, kind: object, error: object, trace: object, /) -> None: ...

    def remember(self, candidates: Sequence[Candidate]) -> None:
        """Candidates of before: those of the same C are not tried again."""
        ...

    def reinstate(self, candidate: Candidate) -> None:
        """Make a candidate of before the incumbent. Raises TrialError where it does not run any more."""
        ...

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """What comes of at most `workers` candidates; the verdict of one that nobody is left to try is
        WORKERS_GONE."""
        ...

    def estimates(self, points: Sequence[Mapping[str, Value]]) -> list[float | None]:
        """What the model expects of some params, in seconds; None of those whose schedule does not run.
        Raises TrialError where nobody is left to say."""
        ...

    def final(
        self,
        winner: Candidate,
        rivals: Sequence[Candidate | None],
        processes: int,
        on_set: Callable[[str], None],
    ) -> list[Comparison | str]:
        """The winner beside each rival in fresh processes; None is the payload without the schedule. For one that does
        not run, why. `on_set` hears which set of processes begins on this machine. Raises TrialError for the winner."""
        ...

    def machine_limits(self, beaten: MachineLimits | None = None) -> MachineLimits:
        """The limits of the machine; measured again where a candidate was faster than they allow. Raises TrialError
        where nobody is left to measure them."""
        ...


def cpus_of(executor: str) -> list[str | None]:
    """The kinds of processors behind an executor, the one that most workers have first; None for this machine."""
    if executor == LOCAL:
        return [None]
    _require_dask(executor)
    from tcpx.tune.dask_workers import cpus_of_cluster

    return [*cpus_of_cluster(executor.removeprefix(DASK))]


def make_executor(
    executor: str, cpu: str | None, problem: Problem, folder: Path, limits: Limits, effort: Effort, workers: int
) -> Executor:
    """`local`, or `dask://HOST:PORT`, of whose workers those with this processor are used. Raises ArgumentError for
    another one, or where the extra is not installed."""
    if executor == LOCAL:
        return Evaluator(problem, folder, limits, effort, workers)
    _require_dask(executor)
    from tcpx.tune.dask_executor import DaskExecutor

    return DaskExecutor(executor.removeprefix(DASK), cpu or "", problem, limits, effort)


def _require_dask(executor: str) -> None:
    host, colon, port = executor.removeprefix(DASK).rpartition(":")
    if not (executor.startswith(DASK) and host and colon and port.isdecimal()):
        raise tcpx.ArgumentError(
            tcpx.Diagnostic("there is no such executor", required="local, or dask://HOST:PORT", found=executor)
        )
    if find_spec("distributed") is None:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                "the executor needs a package that is not installed",
                required="distributed",
                found="no module distributed",
                fix="pip install 'tcpx[dask]', or tune on this machine",
            )
        )
