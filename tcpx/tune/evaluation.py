"""Trying candidates: compiled in parallel, checked, then each timed alone beside the incumbent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Final

from tcpx.measure.calibration import Calibration
from tcpx.measure.kept_limits import kept_limits, raised_limits
from tcpx.measure.limits import Limits as MachineLimits
from tcpx.measure.limits import Machine
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.tune.duel import Effort, compare
from tcpx.tune.fresh_processes import compared_in_fresh_processes
from tcpx.tune.measurement_slot import building, measuring
from tcpx.tune.model import Estimate, Trust, estimate
from tcpx.tune.problem import Problem
from tcpx.tune.slots import NOBODY, Begun, Limits, Slot, TrialError, prepare
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Candidate, Comparison, Verdict

COMPARED: Final = 3
"""The winner, the defaults and the payload without the schedule."""


@dataclass(slots=True)
class Evaluator:
    """Holds one server per worker and one for the incumbent. A context manager.

    Servers are stopped except while they are asked, so nothing compiles while a candidate is timed.
    """

    problem: Problem
    folder: Path
    limits: Limits
    effort: Effort
    workers: int
    incumbent: Candidate | None = None
    calibration: Calibration = field(init=False)
    _machine: Machine = field(init=False)
    _slots: list[Slot] = field(init=False)
    _home: Slot | None = None
    _threads: ThreadPoolExecutor = field(init=False)
    _pinned: PinnedThreads = field(init=False)
    _seen: dict[str, Candidate] = field(default_factory=dict[str, Candidate])
    _limits: MachineLimits | None = None
    _trust: Trust = field(default_factory=Trust)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        path, cache = self.folder / "problem.pickle", self.folder / "builds"
        self.problem.write(path)
        self._pinned = PinnedThreads(self.problem.cpus)
        self._machine = Machine(self.problem.target, self._pinned)
        self.calibration = self._machine.calibration
        self._slots = [Slot(path, cache, available_cpus(), self.limits) for _ in range(max(self.workers + 1, COMPARED))]
        self._threads = ThreadPoolExecutor(self.workers)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:  # threads may wait for servers
            for slot in self._slots:
                slot.abandon()
            self._threads.shutdown(cancel_futures=True)
        self.close()

    def close(self) -> None:
        """End the servers, and remove what they built."""
        for slot in self._slots:
            slot.close()
        self._threads.shutdown()
        self._pinned.close()

    def machine_limits(self, beaten: MachineLimits | None = None) -> MachineLimits:
        """The limits of this machine; measured again where a candidate was faster than they allow."""
        with measuring():
            return kept_limits(self._machine) if beaten is None else raised_limits(self._machine, beaten)

    def remember(self, candidates: Sequence[Candidate]) -> None:
        """Candidates of before: those of the same C are not tried again."""
        for candidate in candidates:
            if candidate.c_hash and candidate.is_settled and candidate.alike is None:
                self._seen.setdefault(candidate.c_hash, candidate)

    def reinstate(self, candidate: Candidate) -> None:
        """Make a candidate of before the incumbent. Raises TrialError where it does not run any more."""
        if self._home is not None:
            self._home.clear()
        self.incumbent = self._home = None
        slot = self._slots[0]
        self._threads.submit(prepare, slot, candidate).result()  # servers end with the thread that started them
        self.incumbent, self._home = candidate, slot

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """What comes of at most `workers` candidates, those first that others are alike. The fastest so far is the
        incumbent afterwards."""
        free = self._free()[: len(candidates)]
        built = zip(self._threads.map(self._built, candidates, free), free, strict=True)
        return [
            self._judged(candidate, slot) if candidate.verdict is Verdict.RUNNING else self._ended(candidate, slot)
            for candidate, slot in sorted(built, key=lambda held: held[0].alike is not None)
        ]

    def final(
        self,
        winner: Candidate,
        rivals: Sequence[Candidate | None],
        processes: int,
        on_set: Callable[[str], None],
    ) -> list[Comparison | str]:
        """The winner beside each rival, all in fresh processes, so many times, and up to twice as many more until the
        intervals, where a further one lies with 95 % confidence, are narrow enough. A rival of None is the payload
        without the schedule; what it says of one that does not run is why. Raises TrialError for the winner."""
        found = compared_in_fresh_processes(
            [winner, *rivals], self._slots, self._threads, self._compared, processes, self.effort.width, on_set
        )
        self.incumbent = self._home = None
        return found

    def _free(self) -> list[Slot]:
        return [slot for slot in self._slots if slot is not self._home]

    def _weights(self) -> list[float]:
        return [example.workload.weight for example in self.problem.examples]

    def _built(self, candidate: Candidate, slot: Slot) -> Candidate:
        """Up to the point where it can be timed; with its verdict where that does not come."""
        try:
            begun = slot.begin(candidate.number, candidate.params)
            c_hash, expected = begun.c_hash, self._expected(begun)
            candidate = replace(candidate, c_hash=c_hash, estimate=expected.seconds)
            refusal = self._hopeless(expected)
            if refusal is not None:
                return replace(candidate, verdict=Verdict.PRUNED, reason=refusal)
            with self._lock:
                first = self._seen.setdefault(c_hash, candidate)
            if first.number != candidate.number:
                return replace(candidate, alike=first.number)
            with building():
                seconds = slot.build()
                slot.check()
        except TrialError as error:
            return replace(candidate, verdict=error.verdict, reason=str(error))
        return replace(candidate, build_seconds=seconds)

    def _expected(self, begun: Begun) -> Estimate:
        with self._lock:
            held = self._limits = self._limits or self.machine_limits()
        return estimate(begun.costs, self._weights(), self._machine.target, held)

    def _hopeless(self, expected: Estimate) -> str | None:
        held = self.incumbent
        if held is None or held.estimate is None:
            return None
        return self._trust.refusal_of(expected, held.estimate, held.number)

    def estimates(self, points: Sequence[Mapping[str, Value]]) -> list[float | None]:
        """What the model expects of some params, in seconds; None of those whose schedule does not run."""
        free = self._free()[: self.workers]

        def of_every_nth(n: int) -> list[float | None]:
            return [self._estimated(params, free[n]) for params in points[n :: len(free)]]

        found: list[float | None] = [None] * len(points)
        for n, held in enumerate(self._threads.map(of_every_nth, range(len(free)))):
            found[n :: len(free)] = held
        return found

    def _estimated(self, params: Mapping[str, Value], slot: Slot) -> float | None:
        try:
            return self._expected(slot.begin(NOBODY, params)).seconds
        except TrialError:
            return None
        finally:
            slot.clear()

    def _judged(self, candidate: Candidate, slot: Slot) -> Candidate:
        if candidate.alike is not None:
            first = self._seen[candidate.c_hash]
            return self._ended(
                replace(
                    candidate,
                    verdict=first.verdict,
                    reason=first.reason,
                    comparison=first.comparison,
                    against=first.against,
                    relative=first.relative,
                ),
                slot,
            )
        try:
            return self._timed(candidate, slot)
        except TrialError as error:
            return self._ended(replace(candidate, verdict=error.verdict, reason=str(error)), slot)

    def _timed(self, candidate: Candidate, slot: Slot) -> Candidate:
        held, home = self.incumbent, self._home
        if held is None or home is None:
            found = self._compared(slot, slot)
            first = replace(found, ratio=1.0, low=1.0, high=1.0)
            return self._throned(self._finished(candidate, first, candidate.number, 1.0), slot)
        try:
            found = self._compared(slot, home)
        except TrialError:
            if home.holds is not None:
                raise
            prepare(home, held)  # it was the incumbent that died
            found = self._compared(slot, home)
        if found.is_faster and not found.steady:
            found = self._compared(slot, home)  # what a busy machine says twice is believed
        relative = (held.relative or 1.0) * found.ratio
        if held.estimate and candidate.estimate:
            self._trust.learn(candidate.estimate / held.estimate, found.ratio)
        made = self._finished(candidate, found, held.number, relative)
        if found.is_faster:
            home.clear()
            return self._throned(made, slot)
        slot.clear()
        return made

    def _compared(self, slot: Slot, other: Slot) -> Comparison:
        """Alone on this machine."""
        with measuring():
            return compare(slot, other, self._weights(), self.calibration, self.effort)

    def _throned(self, candidate: Candidate, slot: Slot) -> Candidate:
        self.incumbent, self._home = candidate, slot
        return candidate

    def _finished(self, candidate: Candidate, found: Comparison, against: int, relative: float) -> Candidate:
        made = replace(
            candidate,
            verdict=Verdict.OK,
            comparison=found,
            against=against,
            relative=relative,
            finished=time(),
        )
        self._seen[made.c_hash] = made
        return made

    def _ended(self, candidate: Candidate, slot: Slot) -> Candidate:
        slot.clear()
        made = replace(candidate, finished=time())
        if made.c_hash and made.alike is None:
            self._seen[made.c_hash] = made
        return made
