"""A study while it runs: candidates claimed, tried, written down, until something ends it."""

import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import tcpx
from tcpx.measure.pinned_threads import available_cpus
from tcpx.plurals import counted
from tcpx.tune.executor import Executor, make_executor
from tcpx.tune.final_comparison import FinalComparison, measured_again
from tcpx.tune.interrupts import Interrupts
from tcpx.tune.ledger import Ledger, StudyKey
from tcpx.tune.problem import Problem, examples_of
from tcpx.tune.progress import Listener, Progress
from tcpx.tune.request import Request
from tcpx.tune.roof import Roof, roof_of
from tcpx.tune.samplers.sampler import Sampler, make_sampler
from tcpx.tune.slots import TrialError
from tcpx.tune.space import Point, Space, Value, point_key
from tcpx.tune.study import Study
from tcpx.tune.verdicts import Candidate, Verdict

MOST_REPEATS: Final = 50
"""A sampler that proposes so many known points in a row is not asked for the next one."""
FEW: Final = 5
"""It is asked so many times again once another point was tried in its place."""
UNTRIED: Final = "untried"
INTERRUPTED: Final = "interrupted: --resume goes on with it"
SPENT: Final = "the budget is spent"
MOST_LISTED: Final = 10_000
"""Among so many points in order one is looked for that was not tried."""
POLL_SECONDS: Final = 0.1
MOST_FIRST: Final = 6
PER_FIRST: Final = 50
"""The model is asked for a first point for so many trials, ..."""
DRAWN: Final = 3
"""... the best of so many."""


@dataclass(slots=True)
class Search:
    """One run of `tcpx.tune`. `open` are the candidates that are claimed and not through.
    `cut_off` says why nobody is left to try more, where that is so; `has_joined` whether it took over what other tuners
    of the ledger found while it began. `trying` are the seconds in which candidates were compiled, checked and timed
    or the first one of another tuner was waited for. The search began with all that comes before it at `started`, and
    with the first candidate at `searching`."""

    request: Request
    space: Space
    ledger: Ledger
    key: StudyKey
    folder: Path
    listener: Listener
    cpu: str | None = None
    interrupts: Interrupts = field(default_factory=Interrupts)
    cut_off: str = ""
    is_exhausted: bool = False
    has_joined: bool = False
    notes: list[str] = field(default_factory=list[str])
    open: dict[int, Candidate] = field(default_factory=dict[int, Candidate])
    started: float = field(default_factory=monotonic)
    searching: float = 0.0
    since_best: int = 0
    trying: float = 0.0
    roof: Roof | None = None
    problem: Problem = field(init=False)

    def study_of(self, stack: ExitStack) -> Study:
        """Search, measure the winner again, and say what was found."""
        request = self.request
        first = self.space.defaults()
        if first is None:
            raise no_points(self.space)
        self.problem = problem = Problem(
            request.module,
            request.schedule,
            tcpx.load_target(request.target),
            request.threads,
            available_cpus()[: request.threads],
            examples_of(request.module, request.workloads, request.seed),
            request.fixed,
            request.plugins,
            request.memory,
        )
        evaluator = stack.enter_context(
            make_executor(
                request.executor, self.cpu, problem, self.folder, request.limits, request.effort, request.workers
            )
        )
        untaken = self.space.search.untaken
        if untaken:
            self.notes.append(
                f"not searched, these sizes never get there: {', '.join(map(self.space.search.names, untaken))}"
            )
        sampler = make_sampler(request.sampler, self.space, request.seed)
        try:
            self._say("measuring the limits of the machine")
            self.roof = roof_of(problem, evaluator.machine_limits())
            self._say("compiling the defaults")
            self.searching = monotonic()
            with self.interrupts.patient():
                self._search(evaluator, sampler, first)
        except TrialError as error:  # of no candidate: nobody is left to go on with
            self.cut_off = str(error)
            self.notes.append(f"cut off: {self.cut_off}; --resume goes on with it")
        finally:
            for candidate in self.open.values():
                self.ledger.release(self.key, candidate)
        with self.interrupts.patient():
            return self._finished(evaluator)

    def _search(self, evaluator: Executor, sampler: Sampler, first: Point) -> None:
        self._go_on(evaluator, sampler)
        queue = [
            ("defaults", first),
            *(("seed", self.space.point_of(params)) for params in self.request.seeds),
            *(("neighbour", self.space.point_of(params)) for params in winners_of_neighbours(self.ledger, self.key)),
        ]
        repeats = 0
        is_new = self.ledger.count(self.key) == 0
        while not self._is_over():
            batch: list[Candidate] = []
            while len(batch) < self._room(evaluator):
                source, point = queue.pop(0) if queue else (self.request.sampler, sampler.ask())
                if point is None or repeats >= MOST_REPEATS:
                    source, point = UNTRIED, self._untried()
                if point is None:
                    break
                claimed = self.ledger.claim(self.key, point, self.space.params(point), source)
                if claimed is None:
                    repeats += 1
                    continue
                batch.append(claimed)
                repeats = MOST_REPEATS - FEW if source == UNTRIED else 0
            if batch and evaluator.incumbent is None and self._leaves_the_first_to_others(batch[0], evaluator, sampler):
                queue.insert(0, (batch[0].source, batch[0].point))
                continue
            if not batch:
                self.is_exhausted = True
                self.notes.append("the space has no further points")
                return
            self._evaluate(batch, evaluator, sampler)
            if is_new:
                queue += [("model", point) for point in self._promising(evaluator)]
                is_new = False

    def _untried(self) -> Point | None:
        """A point that nobody claimed: one at random, or the first among the points in order."""
        known = {point_key(candidate.point) for candidate in self.ledger.candidates(self.key)}
        generator = random.Random(f"{self.request.seed}, {len(known)}")
        drawn = (self.space.sample(generator) for _ in range(MOST_REPEATS))
        points = (point for point in chain(drawn, islice(self.space.points(), MOST_LISTED)) if point is not None)
        return next((point for point in points if point_key(point) not in known), None)

    def _leaves_the_first_to_others(self, candidate: Candidate, evaluator: Executor, sampler: Sampler) -> bool:
        """Whether tuners that share the ledger began before this one: all times are parts of one candidate's, so theirs
        is waited for, and taken over. The candidate is released then."""
        is_behind = self.ledger.is_behind(self.key, candidate)
        has_incumbent = any(c.was_incumbent for c in self.ledger.candidates(self.key))
        joins = has_incumbent and not self.has_joined
        if joins or (is_behind and not has_incumbent):
            self.ledger.release(self.key, candidate)
            if joins:
                self.has_joined = True
                self._go_on(evaluator, sampler)
            else:
                sleep(POLL_SECONDS)
                self.trying += POLL_SECONDS
            return True
        return False

    def _promising(self, evaluator: Executor) -> list[Point]:
        """Of some points at random, those that the model expects most of: few, of a search that is long enough."""
        wanted = 0 if self.request.sampler == "grid" else min(MOST_FIRST, self.request.trials // PER_FIRST)
        generator = random.Random(self.request.seed)
        drawn = [self.space.sample(generator) for _ in range(wanted * DRAWN)]
        tried = {point_key(candidate.point) for candidate in self.ledger.candidates(self.key)}
        fresh = {point_key(point): point for point in drawn if point is not None}
        points = [point for key, point in fresh.items() if key not in tried]
        with self._trying():
            expected = evaluator.estimates([self.space.params(point) for point in points])
        known = [(seconds, k) for k, seconds in enumerate(expected) if seconds is not None]
        return [points[k] for _, k in sorted(known)[:wanted]]

    def _room(self, evaluator: Executor) -> int:
        """How many candidates are tried at once: no more than there are still to try; one, until there is an
        incumbent."""
        if evaluator.incumbent is None:
            return 1
        return max(1, min(evaluator.workers, self.request.trials - self.ledger.count(self.key)))

    def _go_on(self, evaluator: Executor, sampler: Sampler) -> None:
        """With what the ledger has: the fastest is the incumbent, and what a dead tuner left is tried again."""
        known = [c for c in self.ledger.candidates(self.key) if c.is_settled]
        evaluator.remember(known)
        for candidate in known:
            sampler.tell(candidate.point, candidate.relative)
        for candidate in sorted((c for c in known if c.was_incumbent), key=lambda c: c.relative or 0.0):
            try:
                with self._trying():
                    evaluator.reinstate(candidate)
            except TrialError as error:
                self.notes.append(f"#{candidate.number} does not run any more: {error}")
                continue
            break
        while not (self.interrupts.stopped or self._is_spent()) and (
            batch := self.ledger.take_over(self.key, self._room(evaluator))
        ):
            self._evaluate(batch, evaluator, sampler)

    def _evaluate(self, batch: Sequence[Candidate], evaluator: Executor, sampler: Sampler) -> None:
        """Try some candidates. Raises TrialError where nobody is left to try more."""
        self.open.update((candidate.number, candidate) for candidate in batch)
        before = evaluator.incumbent
        with self._trying():
            done = evaluator.evaluate(batch)
        for candidate in done:
            self.ledger.finish(self.key, candidate)
            del self.open[candidate.number]
            if candidate.is_settled:
                sampler.tell(candidate.point, candidate.relative if candidate.is_measured else None)
        self.since_best = 0 if evaluator.incumbent is not before else self.since_best + len(done)
        self._say("", done, evaluator.incumbent)
        for candidate in done:
            if candidate.verdict is Verdict.WORKERS_GONE:
                raise TrialError(candidate.verdict, candidate.reason)

    def _say_of_final(self, phase: str) -> None:
        """Tell which set of the final comparison begins; after Ctrl-C none does. Raises TrialError then."""
        if self.interrupts.stopped:
            raise TrialError(Verdict.RUNNING, "interrupted")
        self._say(phase)

    def _say(self, phase: str, done: Sequence[Candidate] = (), best: Candidate | None = None) -> None:
        """Tell the listener what came out, or what begins."""
        found = best.comparison if best is not None else None
        share = self.roof.fraction(found.seconds) if self.roof is not None and found is not None else None
        known, seconds = self.ledger.candidates(self.key), monotonic() - self.started
        request, names = self.request, self.space.search.names
        self.listener(Progress(tuple(done), known, best, seconds, request.budget, request.trials, share, phase, names))

    def _is_spent(self) -> bool:
        """Whether all that came before took as long as the budget allows."""
        return self.request.budget is not None and monotonic() - self.started >= self.request.budget

    def _is_over(self) -> bool:
        request = self.request
        if self.interrupts.stopped:
            self.notes.append(INTERRUPTED)
        elif self.ledger.count(self.key) >= request.trials:
            self.notes.append(f"all {request.trials} trials are done")
        elif self._is_spent():
            self.notes.append(f"{SPENT}, after {monotonic() - self.started:.0f} s")
        elif request.early_stop is not None and self.since_best >= request.early_stop:
            self.notes.append(f"none of {counted(self.since_best, 'candidate')} in a row was faster")
        else:
            return False
        return True

    def _finished(self, evaluator: Executor) -> Study:
        ended = monotonic()
        searching = self.searching or ended
        known = tuple(self.ledger.candidates(self.key))
        best, request = evaluator.incumbent, self.request
        first = next((c for c in known if c.source == "defaults" and c.is_measured), None)
        found = best.comparison if best is not None else None
        if best is not None and self.space.nearest_to(best.point) != best.point:
            self.notes.append(f"#{best.number} was found before, and is not in the space that was searched now")
        final = FinalComparison()
        if best is not None and not self.interrupts.stopped and not self.cut_off:
            final = measured_again(
                evaluator,
                best,
                first,
                request.beside_bare,
                request.processes,
                self._say_of_final,
            )
            self.notes += (*final.notes, *([INTERRUPTED] if self.interrupts.stopped else []))
        roof = self._roof_over(final.seconds or (found.seconds if found is not None else None), evaluator)
        return Study(
            request.module,
            request.schedule,
            request.target,
            request.threads,
            self.key,
            known,
            best,
            first,
            final,
            tuple(self.notes),
            request.fixed,
            roof,
            request.workloads,
            trials=request.trials,
            cut_off=self.cut_off,
            preparing=searching - self.started,
            seconds=ended - searching,
            measuring=monotonic() - ended,
            trying=self.trying,
            is_interrupted=self.interrupts.stopped,
            is_exhausted=self.is_exhausted,
            names=self.space.search.names,
        )

    def _roof_over(self, seconds: float | None, evaluator: Executor) -> Roof | None:
        """The roof; that of limits measured again, where the winner goes through it."""
        held = self.roof
        if held is None or seconds is None or self.cut_off or held.fraction(seconds) <= 1:
            return held
        try:
            self._say("measuring the limits of the machine again: the winner went beyond", best=evaluator.incumbent)
            return roof_of(self.problem, evaluator.machine_limits(held.limits))
        except TrialError as error:
            self.notes.append(f"the machine's limit was not measured again: {error}")
            return None

    @contextmanager
    def _trying(self) -> Generator[None]:
        """What candidates themselves take, not the search for them."""
        started = monotonic()
        try:
            yield
        finally:
            self.trying += monotonic() - started


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


def no_points(space: Space) -> tcpx.ArgumentError:
    """The error for a space without points: which constraints refused most."""
    killed = space.killed.most_common(3)
    refusal = space.search.refusal
    found = [
        f"{message if '`' in message else f'`{message}`'} refused {number} partial points" for message, number in killed
    ]
    return tcpx.ArgumentError(
        tcpx.Diagnostic(
            "no point of the space satisfies all constraints",
            schedule=next((c.location for c in space.search.constraints if c.message == killed[0][0]), None)
            if killed
            else None,
            required="values of the knobs that every `require` allows",
            found=", ".join(found) or (refusal.message if refusal is not None else "a knob with an empty domain"),
            fix="widen the domains or the space file, or drop the constraint that refuses most",
        )
    )
