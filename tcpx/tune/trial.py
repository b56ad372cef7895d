"""One candidate in a server and its fork: from values of the knobs to a kernel that is right, and how long it takes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, TypedDict

import tcpx
from tcpx.drafts import Draft, draft
from tcpx.measure.timer import calls_per_sample
from tcpx.measure.worker import timed
from tcpx.tune.bound_example import BoundExample
from tcpx.tune.model import pressure_refusal
from tcpx.tune.problem import Problem
from tcpx.tune.verdicts import Verdict

Params = Mapping[str, int | float | bool | str]


class _Settings(TypedDict):
    schedule: tcpx.Schedule | None
    params: Params | None
    target: tcpx.Target
    threads: int


@dataclass(slots=True)
class Trial:
    """Answers the requests about one candidate."""

    problem: Problem
    draft: Draft | None = None
    kernel: tcpx.Kernel | None = None
    bound: list[BoundExample] = field(default_factory=list[BoundExample])
    """The kernel on the examples that it was right on."""
    calls: dict[int, int] = field(default_factory=dict[int, int])

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one request: what it asks for, or the verdict that ends the candidate."""
        match request["do"]:
            case "begin":
                return self._begin(request["params"])
            case "load":
                return self._load(request["params"])
            case "build":
                return self._build()
            case "check":
                return self._check()
            case "run":
                return self._run(request["example"], request["shortest"])
            case other:
                raise ValueError(f"required begin, load, build, check, run or end, found {other!r}")

    def _begin(self, params: Params | None) -> dict[str, Any]:
        problem = self.problem
        try:
            self.draft = draft(problem.module, **self._settings(params))
        except tcpx.TcpxError as error:
            return _refused(error)
        costs = [self.draft.cost(example.arrays) for example in problem.examples]
        refusal = pressure_refusal(costs, self.draft.target.vector_registers)
        if refusal is not None:
            return {"verdict": Verdict.PRUNED.value, "reason": refusal}
        c_hash = hashlib.sha256(self.draft.c_source.encode()).hexdigest()[:16]
        return {"c": c_hash, "costs": [asdict(cost) for cost in costs]}

    def _settings(self, params: Params | None) -> _Settings:
        """What the candidate is compiled with; with None without the schedule."""
        problem = self.problem
        return {
            "schedule": problem.schedule if params is not None else None,
            "params": {**problem.fixed, **params} if params is not None else None,
            "target": problem.target,
            "threads": problem.threads,
        }

    def _load(self, params: Params | None) -> dict[str, Any]:
        """Take a candidate that was tried before from the build cache, where the first of several processes puts it."""
        try:
            self.kernel = tcpx.compile(self.problem.module, **self._settings(params))
        except tcpx.CompileError as error:
            return _verdict(Verdict.COMPILE_FAILED, error.diagnostic)
        except tcpx.TcpxError as error:
            return _refused(error)
        return {}

    def _build(self) -> dict[str, Any]:
        if self.draft is None:
            raise ValueError("required a candidate that began, found none")
        started = perf_counter()
        try:
            self.kernel = self.draft.build()
        except tcpx.CompileError as error:
            return _verdict(Verdict.COMPILE_FAILED, error.diagnostic)
        return {"seconds": perf_counter() - started, "library": str(self.kernel.library_path)}

    def _check(self) -> dict[str, Any]:
        os.sched_setaffinity(0, self.problem.cpus)
        for example in self.problem.examples:
            bound = BoundExample(self._kernel(), example)
            wrong = bound.what_is_wrong()
            if wrong is not None:
                return {"verdict": Verdict.WRONG_RESULT.value, "reason": wrong}
            self.bound.append(bound)
        return {}

    def _run(self, number: int, shortest: float) -> dict[str, Any]:
        """Seconds of a call without the checks of its arguments, and the part of the time that threads of the process
        waited for a CPU. State has its start before each sample; the calls of one hand it on."""
        bound = self.bound[number]
        bound.restart()
        bound.call()
        if number not in self.calls:
            self.calls[number] = calls_per_sample(bound.call, shortest)
            bound.restart()
            bound.call()
        seconds, waited = timed(bound.call, self.calls[number])
        return {"seconds": seconds, "waited": waited}

    def _kernel(self) -> tcpx.Kernel:
        if self.kernel is None:
            raise ValueError("required a candidate that is built, found none")
        return self.kernel


def _refused(error: tcpx.TcpxError) -> dict[str, Any]:
    """A schedule that does not run with these values: by its own `require`s and domains, or in a step."""
    place = error.diagnostic.schedule
    stated = place is not None and place.text.strip().startswith(("require", "knob"))
    return _verdict(Verdict.CONSTRAINT if stated else Verdict.TRANSFORM_FAILED, error.diagnostic)


def _verdict(verdict: Verdict, diagnostic: tcpx.Diagnostic) -> dict[str, Any]:
    place = f"{diagnostic.schedule}: " if diagnostic.schedule is not None else ""
    found = f" (found {diagnostic.found})" if diagnostic.found else ""
    notes = "; ".join(diagnostic.notes[:2])
    return {
        "verdict": verdict.value,
        "reason": f"{place}{diagnostic.message}{found}{': ' if notes else ''}{notes}",
    }
