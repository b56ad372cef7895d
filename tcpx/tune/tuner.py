"""`tcpx.tune`: search the space of a schedule for a payload, by measuring."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Final

import tcpx
from tcpx.tune.duel import Effort
from tcpx.tune.executor import LOCAL, Executor, cpu_of, make_executor
from tcpx.tune.identity import identity_of
from tcpx.tune.ledger import Ledger, StudyKey
from tcpx.tune.problem import Problem, examples_of
from tcpx.tune.progress import Listener, Progress, silent
from tcpx.tune.samplers.sampler import Sampler, default_sampler, make_sampler
from tcpx.tune.slots import Limits, TrialError, all_cpus
from tcpx.tune.space import Point, Space, Value
from tcpx.tune.space_file import SpaceFile, Workload, read_space_file
from tcpx.tune.study import Study
from tcpx.tune.verdicts import Candidate, Verdict

TRIALS: Final = 100
MOST_REPEATS: Final = 50
"""A sampler that proposes so many known points in a row has no new ones."""
FINAL_PROCESSES: Final = 5


@dataclass(frozen=True, slots=True)
class Request:
    """What `tune` was asked for, with all defaults filled in."""

    module: tcpx.Module
    schedule: tcpx.Schedule
    target: str
    threads: int
    fixed: Mapping[str, Value]
    workloads: tuple[Workload, ...]
    trials: int
    budget: float | None
    sampler: str
    seed: int
    workers: int
    limits: Limits
    effort: Effort
    plugins: tuple[str, ...]
    memory: int
    seeds: tuple[Mapping[str, Value], ...]
    processes: int
    early_stop: int | None
    executor: str


def tune(
    module: tcpx.Module,
    schedule: tcpx.Schedule | tcpx.ScheduleFile | None = None,
    *,
    trials: int | None = None,
    budget: float | None = None,
    storage: str | Path | None = None,
    resume: bool = False,
    sampler: str | None = None,
    seed: int = 0,
    params: Mapping[str, Value] | None = None,
    sizes: Sequence[Mapping[str, int]] = (),
    space: str | Path | SpaceFile | None = None,
    seeds: Sequence[Mapping[str, Value]] = (),
    target: str = "native",
    threads: int = 1,
    workers: int | None = None,
    limits: Limits | None = None,
    effort: Effort | None = None,
    memory: int = 4 << 30,
    plugins: Sequence[str] = (),
    processes: int = FINAL_PROCESSES,
    early_stop: int | None = None,
    executor: str = LOCAL,
    listener: Listener = silent,
) -> Study:
    """Find fast values for the knobs of a schedule.

    `trials` candidates at most (100), in `budget` seconds; all go into the ledger `storage`, and `resume` goes on with
    what it has. `sizes` are values of the payload's symbols, one mapping per workload; `params` pins knobs; `space` is
    a YAML file (docs/tuning.md); `seeds` are points to try first, as params. `workers` compile at once. A candidate
    gets `limits` of time and `memory` bytes. `executor` is `local`, or `dask://HOST:PORT`. `early_stop` ends the search
    after so many candidates that are not faster.
    At the end the winner and the defaults are compared in `processes` pairs of fresh processes. Ctrl-C ends the search
    and keeps what it found; a second one ends it at once. Raises ScheduleError, ArgumentError, LedgerError.
    """
    file = space if isinstance(space, SpaceFile) else read_space_file(space) if space is not None else SpaceFile()
    given = tuple(Workload(tuple(sorted(values.items()))) for values in sizes)
    program = tcpx.program_or_default(schedule)
    resolved = tcpx.load_target(target).name
    request = Request(
        module=module,
        schedule=program,
        target=resolved,
        threads=threads,
        fixed=dict(params or {}),
        workloads=given or file.workloads or (Workload(()),),
        trials=trials or file.trials or TRIALS,
        budget=budget if budget is not None else file.budget,
        sampler=sampler or file.sampler or default_sampler(),
        seed=seed,
        workers=workers or len(all_cpus()),
        limits=limits or Limits(),
        effort=effort or Effort(),
        plugins=tuple(plugins),
        memory=memory,
        seeds=tuple(seeds),
        processes=processes,
        early_stop=early_stop,
        executor=executor,
    )
    _require_cpus(threads)
    searched = tcpx.search_space(module, program, params=params, target=resolved, threads=threads)
    narrowed = file.narrowed(searched)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tcpx-tune-")))
        ledger = stack.enter_context(Ledger(storage if storage is not None else folder / "ledger.db"))
        key, facts = identity_of(
            request.module, program, resolved, threads, request.workloads, request.fixed, cpu_of(executor)
        )
        study = ledger.study(key, facts)
        _require_new(ledger, study, resume)
        run = _Run(request, narrowed, ledger, study, folder, listener)
        return run.study_of(stack)


@dataclass(slots=True)
class _Run:
    request: Request
    space: Space
    ledger: Ledger
    key: StudyKey
    folder: Path
    listener: Listener
    stopped: bool = False
    notes: list[str] = field(default_factory=list[str])
    open: dict[int, Candidate] = field(default_factory=dict[int, Candidate])
    started: float = field(default_factory=monotonic)
    since_best: int = 0

    def study_of(self, stack: ExitStack) -> Study:
        request = self.request
        first = self.space.defaults()
        if first is None:
            raise self._no_points()
        problem = Problem(
            request.module,
            request.schedule,
            request.target,
            request.threads,
            all_cpus()[: request.threads],
            examples_of(request.module, request.workloads, request.seed),
            request.fixed,
            request.plugins,
            request.memory,
        )
        evaluator = stack.enter_context(
            make_executor(request.executor, problem, self.folder, request.limits, request.effort, request.workers)
        )
        sampler = make_sampler(request.sampler, self.space, request.seed)
        with self._interruptible():
            try:
                self._search(evaluator, sampler, first)
            finally:
                for candidate in self.open.values():
                    self.ledger.release(self.key, candidate)
            return self._finished(evaluator)

    def _search(self, evaluator: Executor, sampler: Sampler, first: Point) -> None:
        self._go_on(evaluator, sampler)
        queue = [
            ("defaults", first),
            *(("seed", self._point_of(params)) for params in self.request.seeds),
            *(("neighbour", self._point_of(params)) for params in winners_of_neighbours(self.ledger, self.key)),
        ]
        repeats = 0
        while not self._is_over():
            batch: list[Candidate] = []
            while len(batch) < self._room(evaluator):
                source, point = queue.pop(0) if queue else (self.request.sampler, sampler.ask())
                if point is None:
                    break
                claimed = self.ledger.claim(self.key, point, self.space.params(point), source)
                repeats = 0 if claimed is not None else repeats + 1
                if claimed is not None:
                    batch.append(claimed)
                elif repeats >= MOST_REPEATS:
                    break
            if not batch:
                self.notes.append("the space has no further points")
                return
            self._evaluate(batch, evaluator, sampler)

    def _room(self, evaluator: Executor) -> int:
        """How many candidates are tried at once: no more than there are still to try; one, until there is an
        incumbent."""
        if evaluator.incumbent is None:
            return 1
        tried = len(self.ledger.candidates(self.key))
        return max(1, min(evaluator.workers, self.request.trials - tried))

    def _go_on(self, evaluator: Executor, sampler: Sampler) -> None:
        """With what the ledger has: the fastest is the incumbent, and what a dead tuner left is tried again."""
        known = [c for c in self.ledger.candidates(self.key) if c.verdict is not Verdict.RUNNING]
        evaluator.remember(known)
        for candidate in known:
            sampler.tell(candidate.point, candidate.relative)
        for candidate in sorted((c for c in known if c.was_incumbent), key=lambda c: c.relative or 0.0):
            try:
                evaluator.reinstate(candidate)
            except TrialError as error:
                self.notes.append(f"#{candidate.number} does not run any more: {error}")
                continue
            break
        left = self.ledger.take_over(self.key)
        while left:
            batch = left[: self._room(evaluator)]
            del left[: len(batch)]
            self._evaluate(batch, evaluator, sampler)

    def _evaluate(self, batch: Sequence[Candidate], evaluator: Executor, sampler: Sampler) -> None:
        self.open.update((candidate.number, candidate) for candidate in batch)
        before = evaluator.incumbent
        done = evaluator.evaluate(batch)
        for candidate in done:
            self.ledger.finish(self.key, candidate)
            del self.open[candidate.number]
            sampler.tell(candidate.point, candidate.relative if candidate.is_measured else None)
        self.since_best = 0 if evaluator.incumbent is not before else self.since_best + len(done)
        known = self.ledger.candidates(self.key)
        seconds = monotonic() - self.started
        request = self.request
        self.listener(Progress(tuple(done), known, evaluator.incumbent, seconds, request.budget, request.trials))

    def _is_over(self) -> bool:
        request = self.request
        if self.stopped:
            self.notes.append("interrupted: --resume goes on with it")
        elif len(self.ledger.candidates(self.key)) >= request.trials:
            self.notes.append(f"all {request.trials} trials are done")
        elif request.budget is not None and monotonic() - self.started >= request.budget:
            self.notes.append(f"the budget of {request.budget:g} s is spent")
        elif request.early_stop is not None and self.since_best >= request.early_stop:
            self.notes.append(f"none of {self.since_best} candidates in a row was faster")
        else:
            return False
        return True

    def _finished(self, evaluator: Executor) -> Study:
        known = tuple(self.ledger.candidates(self.key))
        best = evaluator.incumbent
        first = next((c for c in known if c.source == "defaults" and c.is_measured), None)
        against = None
        if best is not None and first is not None and best.c_hash != first.c_hash and not self.stopped:
            try:
                against = evaluator.duel(best, first, max(2, self.request.processes))
            except TrialError as error:
                self.notes.append(f"the winner was not measured again: {error}")
        request = self.request
        return Study(
            request.module,
            request.schedule,
            request.target,
            request.threads,
            self.key,
            known,
            best,
            first,
            against,
            tuple(self.notes),
            request.fixed,
        )

    def _point_of(self, params: Mapping[str, Value]) -> Point:
        """The point nearest to some params, by path, or by the sequence and name of the knob."""
        by_name = {_last_of(path): value for path, value in params.items()}
        found = {v.path: params.get(v.path, by_name.get(_last_of(v.path))) for v in self.space.variables}
        return self.space.nearest_to({path: value for path, value in found.items() if value is not None}) or {}

    def _no_points(self) -> tcpx.ArgumentError:
        killed = self.space.killed.most_common(3)
        refusal = self.space.search.refusal
        found = [f"`{message}` refused {number} partial points" for message, number in killed]
        return tcpx.ArgumentError(
            tcpx.Diagnostic(
                "no point of the space satisfies all constraints",
                schedule=next((c.location for c in self.space.search.constraints if c.message == killed[0][0]), None)
                if killed
                else None,
                required="values of the knobs that every `require` allows",
                found=", ".join(found) or (refusal.message if refusal is not None else "a knob with an empty domain"),
                fix="widen the domains or the space file, or drop the constraint that refuses most",
            )
        )

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """The first Ctrl-C ends the search when the candidates at hand are through, the second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            del number, frame
            if self.stopped:
                raise KeyboardInterrupt
            self.stopped = True

        held = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, held)


def winners_of_neighbours(ledger: Ledger, key: StudyKey, most: int = 3) -> list[Mapping[str, Value]]:
    """The params that won in other studies of the ledger about the same schedule, the latest first."""
    found: list[Mapping[str, Value]] = []
    for other in reversed(ledger.studies()):
        if other.id == key.id or other.facts.get("schedule") != key.facts.get("schedule"):
            continue
        won = [c for c in ledger.candidates(other) if c.was_incumbent]
        if won and len(found) < most:
            found.append(min(won, key=lambda c: c.relative or 0.0).point)
    return found


def _last_of(path: str) -> str:
    """`packed_gemm.mc` of `mlp/fc1/packed_gemm.mc`."""
    return path.rpartition("/")[2]


def _require_new(ledger: Ledger, study: StudyKey, resume: bool) -> None:
    known = ledger.candidates(study)
    if known and not resume:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"{ledger.path} has this study already",
                required="a new study, or leave to go on with it",
                found=f"{len(known)} candidates of study {study.key}",
                fix="add --resume (resume=True), or choose another --storage",
            )
        )


def _require_cpus(threads: int) -> None:
    cpus = len(all_cpus())
    if threads > cpus:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic("more threads than CPUs cannot be timed", required=f"at most {cpus}", found=str(threads))
        )
