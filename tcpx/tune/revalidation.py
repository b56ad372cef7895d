"""`tcpx tune --revalidate FILE`: the winners of a file of records alone, measured again beside the defaults by the code
of today. Those that still win are written anew; the others go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import tcpx
from tcpx.assignment import Assignment
from tcpx.inputs import SizeValues, size_values
from tcpx.loading import PayloadLike, module_of
from tcpx.measure.pinned_threads import available_cpus
from tcpx.module_copies import copy_module
from tcpx.parts import Parts
from tcpx.plurals import counted
from tcpx.records import brief, frozen
from tcpx.tune.arguments import check_arguments
from tcpx.tune.duel import Effort
from tcpx.tune.problem import Problem, examples_of
from tcpx.tune.progress import Listener, Progress, silent
from tcpx.tune.rivals import Rivals
from tcpx.tune.slots import Limits
from tcpx.tune.space import Value
from tcpx.tune.space_file import Workload
from tcpx.tune.tuner import FINAL_PROCESSES, require_cpus
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import TunedRecord, read_records, records_of, scheduled, setting_of, values_of, write_records
from tcpx.written_paths import path_to_write


@frozen
class Revalidated:
    """What came of a record: `beside` are the times of its values as parts of those of the defaults, None where they
    were not measured; `reason` is why it was dropped, or was not measured, empty of one that was kept. `renewed` is the
    record as it is now in the file, None where it is not there any more."""

    record: TunedRecord
    beside: Comparison | None
    reason: str
    renewed: TunedRecord | None

    def __repr__(self) -> str:
        return brief("Revalidated", self.line())

    @property
    def name(self) -> str:
        """What the record is of, for a person."""
        return f"@{self.record.function}" if self.record.function else "the payload"

    def line(self) -> str:
        """A row of what is printed."""
        held = self.beside
        time = f", {held.shown} of the defaults' time" if held is not None else ""
        verdict = "dropped" if self.renewed is None else "left as it is" if self.reason else "kept"
        return f"{verdict}: {self.name}{time}{f'; {self.reason}' if self.reason else ''}"


@frozen
class Revalidation:
    """What came of the records of a file, in their order."""

    path: Path
    records: tuple[Revalidated, ...]

    def __repr__(self) -> str:
        return brief("Revalidation", f"of {self.path}: {self._counts()}")

    def text(self) -> str:
        """A summary for a terminal."""
        return "\n".join([*(held.line() for held in self.records), f"{self.path}: {self._counts()}"])

    def _counts(self) -> str:
        kept = sum(held.renewed is not None for held in self.records)
        return f"{kept} of {counted(len(self.records), 'record')} kept"


def revalidate(
    module: PayloadLike,
    schedule: tcpx.Schedule | tcpx.ScheduleFile | None = None,
    *,
    record: str | Path,
    sizes: Sequence[SizeValues] = (),
    seed: int = 0,
    params: Mapping[str, Value] | None = None,
    target: str = "native",
    threads: int = 1,
    limits: Limits | None = None,
    effort: Effort | None = None,
    memory: int = 4 << 30,
    plugins: Sequence[str] = (),
    processes: int = FINAL_PROCESSES,
    listener: Listener = silent,
) -> Revalidation:
    """Measure the records of the file `record` that are of this payload, or of a function that it calls, for this
    target, number of threads and processor, whatever schedule and compiler they were found with: each beside the
    defaults, in `processes` sets of fresh processes or more. One that is known to be faster is written anew, as found
    with today's schedule and compiler; one that is not, is wrong, or cannot be set any more is removed. Records for
    something else stay as they are. The file is written at the end, as a whole.

    Other arguments are those of `tcpx.tune`. Raises what `tcpx.tune` raises.
    """
    module = module_of(module)
    check_arguments(locals())
    chosen = tcpx.load_target(target)
    chosen.require_cpu()
    require_cpus(threads)
    known = read_records(path_to_write(record))
    found = _Again(
        module,
        tcpx.program_or_default(schedule),
        chosen,
        threads,
        dict(params or {}),
        tuple(Workload(tuple(sorted(size_values(held).items()))) for held in sizes) or (Workload(()),),
        seed,
        limits or Limits(),
        effort or Effort(),
        memory,
        tuple(plugins),
        max(2, processes),
        listener,
    ).outcomes(known)
    renewed = [held.renewed for held in found if held.renewed is not None]
    newest = {(held.setting, held.function): held for held in renewed}
    write_records(record, list(newest.values()))
    return Revalidation(Path(record), tuple(found))


@dataclass(slots=True)
class _Again:
    module: tcpx.Module
    program: tcpx.Schedule
    target: tcpx.Target
    threads: int
    params: Mapping[str, Value]
    workloads: tuple[Workload, ...]
    seed: int
    limits: Limits
    effort: Effort
    memory: int
    plugins: tuple[str, ...]
    processes: int
    listener: Listener
    started: float = field(default_factory=monotonic)

    def outcomes(self, known: Sequence[TunedRecord]) -> list[Revalidated]:
        wanted = setting_of(self.module, self.program, self.target, self.threads)
        parts = Parts.of(self.module, self.program, self.target, self.threads, self.params)
        called = set(parts.keys.values())
        found: list[Revalidated] = []
        for number, held in enumerate(known, 1):
            here = {"payload": held.setting.payload, "schedule": held.setting.schedule}
            same = replace(wanted, compiler=held.setting.compiler, flags=held.setting.flags, **here)
            of_this = held.setting.payload in called if held.function else held.setting.payload == wanted.payload
            if same != held.setting:
                found.append(Revalidated(held, None, "it is for another target, processor or number of threads", held))
            elif not of_this:
                found.append(Revalidated(held, None, "it is of another payload", held))
            else:
                self._say(f"record {number} of {len(known)}, of @{held.function or self.module.main.name}")
                found.append(self._measured(held, parts))
        return found

    def _measured(self, record: TunedRecord, parts: Parts) -> Revalidated:
        module, workloads, base = self.module, self.workloads, dict(self.params)
        key = record.setting.payload if record.function else ""
        if key:
            part = parts.part(key, [dict(held.sizes) for held in workloads], Assignment())
            workloads = tuple(Workload(held, float(times)) for held, times in part.sizes.items())
            module, base = part.payload, {**part.fixed, **base}
        try:
            values = {**base, **self._values(module, record, key)}
            told = {**record.provenance, "made": datetime.now(UTC).isoformat(timespec="seconds")}
            made = records_of(module, self.program, self.target, self.threads, values, told)
            renewed = next(held for held in made if not key or (held.function and held.setting.payload == key))
        except tcpx.TcpxError as error:
            return Revalidated(record, None, f"its values cannot be set any more: {error.diagnostic.message}", None)
        cpus = available_cpus()[: self.threads]
        examples = examples_of(module, workloads, self.seed)
        problem = Problem(
            module, self.program, self.target, self.threads, cpus, examples, {}, self.plugins, self.memory
        )
        rivals = Rivals(lambda: problem, self.limits, self.effort, self.processes, self._say)
        return _judged(record, replace(renewed, function=record.function), rivals.compared(values, base))

    def _values(self, module: tcpx.Module, record: TunedRecord, key: str) -> dict[str, Value]:
        """The values of a record as params for the payload that it is measured in."""
        if not key:
            return dict(record.params)
        with scheduled(copy_module(module), self.program, self.target, self.threads, values_of([record])) as run:
            return dict(use.param(use.path) for use in run.knobs if use.is_recorded)

    def _say(self, phase: str) -> None:
        self.listener(Progress((), (), None, monotonic() - self.started, None, 0, phase=phase))


def _judged(record: TunedRecord, renewed: TunedRecord, found: Comparison | str | None) -> Revalidated:
    if not isinstance(found, Comparison):
        return Revalidated(record, None, found or "the defaults do not run here", renewed if found is None else None)
    if not found.is_faster:
        return Revalidated(record, found, "it is not known to be faster", None)
    time = f"{found.shown} of that of the defaults"
    return Revalidated(record, found, "", replace(renewed, provenance={**renewed.provenance, "time": time}))
