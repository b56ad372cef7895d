"""`tcpx.tune_by_kernel`: the functions that a payload calls, each tuned by itself, the slowest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Final

import tcpx
from tcpx.api import copy_module
from tcpx.inputs import SizeValues, size_values
from tcpx.loading import PayloadLike, module_of
from tcpx.matching_records import Compilation, values_by_function
from tcpx.measure.pinned_threads import available_cpus
from tcpx.parts import Part, Parts
from tcpx.plurals import counted
from tcpx.tune.arguments import check_arguments
from tcpx.tune.duel import Effort
from tcpx.tune.model_study import KEPT, ModelStudy, Outcome
from tcpx.tune.problem import Problem, examples_of
from tcpx.tune.progress import Listener, Progress, silent
from tcpx.tune.rivals import Rivals
from tcpx.tune.slots import Limits
from tcpx.tune.space import Value
from tcpx.tune.space_file import SpaceFile, Workload, read_space_file
from tcpx.tune.study import Study
from tcpx.tune.tuner import FINAL_PROCESSES, TRIALS, require_cpus, tune
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import TunedRecord, read_records, records_of, setting_of, write_record
from tcpx.written_paths import path_to_write

LEAST_SHARE: Final = 0.01
"""What takes less of the time keeps its defaults."""
FEWEST: Final = 4
"""Candidates of a function, at least."""
SPENT: Final = "the budget is spent"
PATIENCE: Final = 10
"""The schedule of a candidate may take so many times what that of the payload took."""


def tune_by_kernel(
    module: PayloadLike,
    schedule: tcpx.Schedule | tcpx.ScheduleFile | None = None,
    *,
    record: str | Path,
    trials: int | None = None,
    budget: float | None = None,
    storage: str | Path | None = None,
    resume: bool = False,
    sampler: str | None = None,
    seed: int = 0,
    params: Mapping[str, Value] | None = None,
    sizes: Sequence[SizeValues] = (),
    space: str | Path | SpaceFile | None = None,
    target: str = "native",
    threads: int = 1,
    workers: int | None = None,
    limits: Limits | None = None,
    effort: Effort | None = None,
    memory: int = 4 << 30,
    plugins: Sequence[str] = (),
    processes: int = FINAL_PROCESSES,
    early_stop: int | None = None,
    listener: Listener = silent,
) -> ModelStudy:
    """Tune each function that a payload calls once the schedule has run, such as the layers of a model, and last of all
    the payload's own knobs, one after the other; the file `record` gets a record of each that wins.

    Arguments are those of `tcpx.tune`. `sizes` are those of the payload; a function is tuned at the sizes that these
    give its calls. `trials`, 100 by default, and `budget` are for all together, but for comparisons in fresh processes:
    each function gets as much of them as it has of the time that the payload takes, measured; what takes less than a
    hundredth is left as it is. A winner is kept where it is known to be faster than the defaults and the payload is
    right and not slower with it, in `processes` or more pairs of fresh processes; with 0 it is kept as it is. Functions
    of which the file has a record for this schedule, target and machine are not tuned, in whatever payload they were.
    With `resume`, studies of the storage are gone on with. Raises what `tcpx.tune` raises.
    """
    started = monotonic()
    module = module_of(module)
    check_arguments(locals())
    path_to_write(record)
    tcpx.load_target(target).require_cpu()
    require_cpus(threads)
    file = space if isinstance(space, SpaceFile) else read_space_file(space) if space is not None else SpaceFile()
    if file.knobs:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                "a space file of several functions has no knobs",
                required="`sizes`, `trials`, `budget` and `sampler`",
                found=", ".join(f"`{entry.glob}`" for entry in file.knobs),
                fix="pin knobs with params, or --param",
            )
        )
    given = tuple(Workload(tuple(sorted(size_values(values).items()))) for values in sizes)
    return ByKernel(
        module=module,
        schedule=tcpx.program_or_default(schedule),
        path=Path(record),
        target=tcpx.load_target(target),
        threads=threads,
        params=dict(params or {}),
        workloads=given or file.workloads or (Workload(()),),
        trials=trials or file.trials or TRIALS,
        budget=budget if budget is not None else file.budget,
        storage=storage,
        resume=resume,
        sampler=sampler or file.sampler,
        seed=seed,
        workers=workers,
        limits=limits or Limits(),
        effort=effort or Effort(),
        memory=memory,
        plugins=tuple(plugins),
        processes=processes,
        early_stop=early_stop,
        listener=listener,
        started=started,
    ).study()


@dataclass(slots=True)
class ByKernel:
    """One run. `recorded` are the values of functions that hold by now, as records have them, `own` those that were
    found for the payload's own knobs, beside what functions had then. `confirming` are the seconds of comparisons in
    fresh processes, which do not count in the budget."""

    module: tcpx.Module
    schedule: tcpx.Schedule
    path: Path
    target: tcpx.Target
    threads: int
    params: Mapping[str, Value]
    workloads: tuple[Workload, ...]
    trials: int
    budget: float | None
    storage: str | Path | None
    resume: bool
    sampler: str | None
    seed: int
    workers: int | None
    limits: Limits
    effort: Effort
    memory: int
    plugins: tuple[str, ...]
    processes: int
    early_stop: int | None
    listener: Listener
    started: float
    recorded: dict[str, Value] = field(default_factory=dict[str, Value])
    own: dict[str, Value] = field(default_factory=dict[str, Value])
    confirming: float = 0.0
    rivals: Rivals = field(init=False)

    def study(self) -> ModelStudy:
        """Tune what counts, and compare the whole payload with what it was."""
        self._say("looking for functions that are called")
        began = monotonic()
        parts = Parts.of(self.module, self.schedule, self.target, self.threads, self.params)
        patience = max(self.limits.schedule, PATIENCE * (monotonic() - began))
        self.limits = replace(self.limits, schedule=patience)
        self.rivals = Rivals(self._problem, self.limits, self.effort, self.processes, self._say)
        records = self._records(parts)
        before = self._params(parts)
        shares = self._shares(parts, before)
        left, trials = sum(shares.values()), self.trials
        outcomes: list[Outcome] = []
        wanted = sorted(dict.fromkeys([*parts.keys.values(), ""]), key=lambda key: -shares.get(key, 0.0))
        for number, key in enumerate(wanted, 1):
            share = shares.get(key, 0.0)
            calls = sum(parts.sizes_of_calls(key, self._sizes()[:1]).values()) if key else 1
            known = Outcome(self.module.main.name, parts.named(key), share, calls)
            why = self._left_alone(parts, key, share, records)
            budget = self._budget()
            why = why or (f"defaults: {SPENT}" if budget == 0 else "")
            if why:
                outcomes.append(replace(known, verdict=why))
            else:
                part = parts.part(key, self._sizes(), self.recorded, self.own)
                most = max(FEWEST, round(trials * share / left))
                seconds = None if budget is None else budget * share / left
                candidates = counted(most, "candidate")
                self._say(f"{number} of {len(wanted)}: {known.name}, {share:.1%} of the time, up to {candidates}")
                study = self._tuned(part, most, seconds)
                trials = max(0, trials - len(study.candidates))
                self.confirming += study.measuring
                outcomes.append(self._judged(parts, part, study, known))
                if study.is_interrupted:
                    return ModelStudy(self.module, self.path, tuple(outcomes), is_interrupted=True)
            left -= share
        found = self._whole(parts, records, outcomes)
        return ModelStudy(self.module, self.path, tuple(outcomes), found, self._params(parts))

    def _sizes(self) -> list[dict[str, int]]:
        return [dict(workload.sizes) for workload in self.workloads]

    def _params(self, parts: Parts) -> dict[str, Value]:
        """What the payload is compiled with by now."""
        return {**self.own, **parts.with_records(self.recorded)}

    def _problem(self) -> Problem:
        """The payload as a whole."""
        cpus = available_cpus()[: self.threads]
        examples = examples_of(self.module, self.workloads, self.seed)
        return Problem(
            self.module, self.schedule, self.target, self.threads, cpus, examples, {}, self.plugins, self.memory
        )

    def _say(self, phase: str) -> None:
        self.listener(Progress((), (), None, monotonic() - self.started, self.budget, self.trials, phase=phase))

    def _records(self, parts: Parts) -> Mapping[str, TunedRecord]:
        """Those of the file that fit, by the keys of functions; that of the payload has the empty one. Their values
        hold from now on."""
        known = read_records(self.path) if self.path.exists() else ()
        copy = copy_module(self.module)
        compilation = Compilation.of(self.module, copy, self.schedule, self.target, self.threads)
        fitting = compilation.functions(known)
        found = {key: fitting[key] for key in parts.keys.values() if key in fitting}
        self.recorded = values_by_function(found)
        own = compilation.record(known)
        if own is not None:
            found[""] = own
            self.own = dict(own.params)
        return found

    def _shares(self, parts: Parts, params: Mapping[str, Value]) -> dict[str, float]:
        """What part of the time each function takes, without those that it calls, by its key."""
        found: dict[str, float] = {}
        keys, total = parts.keys, sum(workload.weight for workload in self.workloads)
        for workload in self.workloads:
            self._say(f"measuring where the time goes, {workload}")
            arrays = tcpx.random_inputs(self.module, self.seed, sizes=dict(workload.sizes))
            profile = tcpx.profile(
                self.module,
                self.schedule,
                *arrays,
                params=params,
                target=self.target,
                threads=self.threads,
            )
            rows = [row for row in profile.rows if not row.callee]
            seconds = sum(row.seconds for row in rows)
            for row in rows:
                key = keys.get(row.function, "")
                found[key] = found.get(key, 0.0) + row.seconds / seconds * workload.weight / total
        return found

    def _left_alone(self, parts: Parts, key: str, share: float, records: Mapping[str, TunedRecord]) -> str:
        """Why a function is not tuned; empty for one that is."""
        if key in records:
            held = records[key]
            return f"recorded before, of @{held.function}" if held.function else "recorded before"
        if not parts.knobs(key):
            return "no knobs"
        return f"defaults: less than {LEAST_SHARE:.0%} of the time" if share < LEAST_SHARE else ""

    def _tuned(self, part: Part, trials: int, budget: float | None) -> Study:
        return tune(
            part.payload,
            self.schedule,
            trials=trials,
            budget=budget,
            params={**part.fixed, **self.params},
            space=SpaceFile(
                workloads=tuple(Workload(held, float(times)) for held, times in part.sizes.items()), held=part.held
            ),
            target=self.target.spec,
            threads=self.threads,
            storage=self.storage,
            resume=self.resume,
            sampler=self.sampler,
            seed=self.seed,
            workers=self.workers,
            limits=self.limits,
            effort=self.effort,
            memory=self.memory,
            plugins=self.plugins,
            early_stop=self.early_stop,
            processes=self.processes if part.alone else 0,
            listener=self.listener,
        )

    def _judged(self, parts: Parts, part: Part, study: Study, known: Outcome) -> Outcome:
        """Keep what won where the whole payload is not slower with it."""
        best, first = study.best, study.first
        known = replace(known, alone=part.alone, candidates=len(study.candidates))
        if best is None or best.relative is None or first is None or first.comparison is None:
            why = "no candidate is right" if study.candidates else SPENT
            return replace(known, verdict=f"defaults: {why}")
        known = replace(known, seconds=first.comparison.seconds / part.calls)
        if best.c_hash == first.c_hash:
            return replace(known, verdict="defaults: nothing is faster")
        known = replace(known, ratio=best.relative)
        if study.keeps_defaults:
            return replace(known, verdict="defaults: nothing is known to be faster")
        if study.is_interrupted:
            return replace(known, verdict="interrupted, not confirmed")
        before, held = self._params(parts), (self.recorded, self.own)
        made = self._record_of(part, study)
        if part.key:
            self.recorded = {**self.recorded, **{f"{part.key}:{path}": v for path, v in made.params.items()}}
        else:
            self.own = study.params
        self._say(f"{known.name}: the whole with its winner, and without")
        found = self._compared(self._params(parts), before)
        known = replace(known, whole=found if isinstance(found, Comparison) else None)
        why = _why_not(found, part.alone)
        if why:
            self.recorded, self.own = held
            return replace(known, verdict=f"reverted: {why}")
        write_record(self.path, replace(made, provenance={**made.provenance, **known.provenance}))
        return replace(known, verdict=KEPT)

    def _compared(self, params: Mapping[str, Value], others: Mapping[str, Value]) -> Comparison | str | None:
        began = monotonic()
        found = self.rivals.compared(params, others)
        self.confirming += monotonic() - began
        return found

    def _budget(self) -> float | None:
        """The seconds that are left."""
        return None if self.budget is None else max(0.0, self.budget + self.confirming + self.started - monotonic())

    def _record_of(self, part: Part, study: Study) -> TunedRecord:
        setting = setting_of(self.module, self.schedule, self.target, self.threads)
        payload = part.payload if part.key else self.module
        copy, told = copy_module(payload), study.provenance()
        own, *functions = records_of(payload, copy, self.schedule, self.target, setting, study.params, told)
        if not part.key:
            return own
        found = next(held for held in functions if held.setting.payload == part.key)
        return replace(found, function=part.functions[0])

    def _whole(
        self, parts: Parts, records: Mapping[str, TunedRecord], outcomes: Sequence[Outcome]
    ) -> Comparison | None:
        """The payload with all that holds beside the defaults; None where that is nothing, or not measured."""
        kept = [held for held in outcomes if held.verdict == KEPT]
        if not records and len(kept) < 2:
            return kept[0].whole if kept else None
        self._say("the whole with all records, and with its defaults")
        found = self._compared(self._params(parts), self.params)
        return found if isinstance(found, Comparison) else None


def _why_not(found: Comparison | str | None, alone: bool) -> str:
    """Why a winner is not kept after the whole payload was compared with it and without; empty where it is. A winner
    that was confirmed `alone` has to slow nothing down; another one has to be faster on the whole."""
    if found is None or isinstance(found, str):
        return found or ""
    if found.ratio > 1:
        return "the whole is slower with it"
    return "" if alone or found.is_faster else "the whole is not known to be faster with it"
