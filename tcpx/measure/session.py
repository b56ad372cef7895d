"""A run: peers started for one number of threads, each task checked and timed on all of them, rows at the end."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

import tcpx
from tcpx.measure.limits import MOST_SECONDS, PROBE, Limits, Machine
from tcpx.measure.peer_process import Launch, PeerError, PeerProcess
from tcpx.measure.pinned_threads import PinnedThreads
from tcpx.measure.protocol import Array, Task
from tcpx.measure.roofline import Work, amounts, bound
from tcpx.measure.rounds import Plan, Sample, Timed, interleave
from tcpx.measure.rows import Row
from tcpx.tuned import cpu_name

MACHINE: Final = "machine"
"""The peer, and the workload, of the row that holds the limits."""
START_SECONDS: Final = 120.0
PREPARE_SECONDS: Final = 300.0
SAMPLE_SECONDS: Final = 60.0
MOST_WAITING: Final = 0.02

Check = Callable[[Array, str], float]
"""The largest error of a result, in units of what its dtype and the length of its sums allow; NaN is an error."""


class Session:
    """Measures tasks on peers with one thread per CPU of `cpus`. A context manager.

    The limits of the machine are measured before and after; with `only`, those of this work, and before alone.
    """

    def __init__(
        self,
        launches: Sequence[Launch],
        cpus: Sequence[int],
        target: str = "native",
        plan: Plan | None = None,
        only: Work | None = None,
    ) -> None:
        self.plan = plan or Plan()
        self.cpus = tuple(cpus)
        self._pinned = PinnedThreads(self.cpus)
        self.machine = Machine(tcpx.load_target(target), self._pinned, min(MOST_SECONDS, self.plan.patience))
        self._is_brief = only is not None
        rates = amounts(only, Limits(len(self.cpus), {}, self.machine.caches())) if only is not None else None
        self.limits: Limits = self.machine.limits(rates)
        self.calibration = self.machine.calibration
        self._launches = {launch.name: launch for launch in launches}
        self._running: dict[str, PeerProcess] = {}
        self._described: dict[str, dict[str, Any]] = {}
        self._work: dict[str, Work] = {}
        self.rows: list[Row] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.close()
        self._pinned.close()

    def measure(self, task: Task, work: Work | None = None, check: Check | None = None) -> list[Row]:
        """One row per peer; they are also kept in `rows`. A result that `check` finds wrong is not timed."""
        if work is not None:
            self._work[task.name] = work
        made = self._measured(task, tuple(self._launches), check)
        self.rows += made
        return made

    def again(self, task: Task, peers: Sequence[str], check: Check | None = None) -> list[Row]:
        """The rows of some peers once more, each in a fresh process; they are not kept."""
        for name in peers:
            running = self._running.pop(name, None)
            if running is not None:
                running.close()
        return self._measured(task, peers, check)

    def _measured(self, task: Task, peers: Sequence[str], check: Check | None) -> list[Row]:
        ready: dict[str, PeerProcess] = {}
        rows: dict[str, Row] = {}
        for name in peers:
            row = Row(task.name, len(self.cpus), name)
            try:
                process = self._process(name)
                facts = self._described[name]
                row = replace(row, version=str(facts.get("version", "")), facts=facts)
                row = replace(row, facts={**facts, **process.ask("prepare", PREPARE_SECONDS, task=task.to_json())})
                error = _checked(process, check)
            except PeerError as failure:
                rows[name] = replace(row, status=failure.outcome, reason=str(failure))
                continue
            rows[name] = replace(row, error=error if error is not None and isfinite(error) else None)
            if error is not None and not error <= 1:
                reason = f"off by {error:.3g} times what rounding may do"
                rows[name] = replace(rows[name], status="wrong", reason=reason)
            else:
                ready[name] = process
        runs = {name: self._sample(process) for name, process in ready.items()}
        for name, timed in interleave(runs, self.calibration, self.plan, PeerError).items():
            rows[name] = _timed_row(rows[name], timed)
        limits = self._best_limits()
        return [self._bounded(row, limits) for row in rows.values()]

    def finished(self) -> list[Row]:
        """All rows, judged by the best limits seen; the first one holds these limits."""
        if not self._is_brief:
            self.limits = self.limits.with_best(self.machine.limits())
        self.limits = self._best_limits()
        facts = {
            "limits": dict(self.limits.rates),
            "caches": dict(self.limits.caches),
            **_facts(self.machine.target, self.cpus),
        }
        first = Row(MACHINE, len(self.cpus), MACHINE, platform.release(), facts=facts)
        return [first, *(self._bounded(row, self.limits) for row in self.rows)]

    def _best_limits(self) -> Limits:
        """Those measured, and the best rate that the calibration loop had since."""
        return self.limits.with_best(replace(self.limits, rates={PROBE: self.calibration.best}))

    def _process(self, name: str) -> PeerProcess:
        """The process of a peer, started if it is not there (any more)."""
        found = self._running.get(name)
        if found is None or not found.is_alive:
            if found is not None:
                found.close()
            found = self._running[name] = PeerProcess(self._launches[name], self.cpus)
            try:
                self._described[name] = found.ask("describe", START_SECONDS)
            except PeerError:
                self._running.pop(name).close()
                raise
        return found

    def _sample(self, process: PeerProcess) -> Sample:
        """One sample; None where others had its CPUs for more than `MOST_WAITING` of it."""

        def sample() -> float | None:
            reply = process.ask("run", SAMPLE_SECONDS, samples=1, shortest=self.plan.shortest)
            return reply["seconds"][0] if reply["waited"][0] <= MOST_WAITING else None

        return sample

    def _bounded(self, row: Row, limits: Limits) -> Row:
        work = self._work.get(row.workload)
        found = bound(work, limits) if work is not None else None
        if work is None or found is None:
            return row
        fraction = found.seconds / row.median_s if row.median_s else None
        return replace(
            row,
            operations=work.operations,
            bytes=work.bytes,
            limit_s=found.seconds,
            limited_by=found.by,
            fraction=fraction,
        )


def _checked(process: PeerProcess, check: Check | None) -> float | None:
    """What the check says about the result of one call."""
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as folder:
        path = Path(folder, "result.npy")
        dtype = process.ask("check", PREPARE_SECONDS, path=str(path))["dtype"]
        return None if check is None else float(check(np.load(path), dtype))


def _timed_row(row: Row, timed: Timed) -> Row:
    if isinstance(timed.error, PeerError):
        return replace(row, status=timed.error.outcome, reason=str(timed.error))
    best = timed.best_round
    if best is None:
        reason = f"the machine was slowed or busy during all {timed.rejected} samples"
        return replace(row, status="unsteady", reason=reason, rejected=timed.rejected)
    return replace(
        row,
        median_s=best.median,
        best_s=timed.best,
        spread=timed.spread,
        low_s=best.low,
        high_s=best.high,
        samples=timed.count,
        rejected=timed.rejected,
        rounds=timed.medians,
    )


def _facts(target: tcpx.Target, cpus: Sequence[int]) -> dict[str, Any]:
    return {
        "target": target.title,
        "cpus": list(cpus),
        "cpu": cpu_name(),
        "huge_pages": tcpx.huge_page_policy(),
        "malloc": os.environ.get("GLIBC_TUNABLES", ""),
    }
