"""`tcpx.tune_by_kernel`: the functions that a payload calls, and its own loop nests, each tuned by itself, the slowest
first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Final

import tcpx
from tcpx.assignment import Assignment
from tcpx.inputs import SizeValues, size_values
from tcpx.loading import PayloadLike, module_of
from tcpx.matching_records import Compilation
from tcpx.measure.pinned_threads import available_cpus
from tcpx.nests import Nests
from tcpx.parts import Part, Parts
from tcpx.plurals import counted
from tcpx.quantities import percent
from tcpx.tune.arguments import check_arguments
from tcpx.tune.duel import Effort
from tcpx.tune.model_study import KEPT, ModelStudy, Outcome
from tcpx.tune.pieces import Piece, pieces_of, shares_of
from tcpx.tune.problem import Array, Problem, examples_of
from tcpx.tune.progress import Listener, Progress, silent
from tcpx.tune.rivals import Rivals
from tcpx.tune.search import SPENT
from tcpx.tune.slots import Limits
from tcpx.tune.space import Value
from tcpx.tune.space_file import SpaceFile, Workload, read_space_file
from tcpx.tune.study import Study, made_today
from tcpx.tune.tuner import FINAL_PROCESSES, TRIALS, require_cpus, tune
from tcpx.tune.verdicts import Comparison
from tcpx.tuned import TunedRecord, read_records, records_of, values_of, write_record
from tcpx.written_paths import path_to_write

LEAST_SHARE: Final = 0.01
"""What takes less of the time keeps its defaults."""
FEWEST: Final = 4
"""Candidates of a function, at least."""
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
    """Tune each function that a payload calls once the schedule has run, such as the layers of a model, each loop nest
    that is in none, and the knobs that are in neither, one after the other; the file `record` gets a record of each
    function that wins, and one of the payload with what won of its own.

    Arguments are those of `tcpx.tune`. `sizes` are those of the payload; a function is tuned at the sizes that these
    give its calls. `trials`, 100 by default, and `budget` are for all together, but for comparisons in fresh processes:
    each function gets as much of them as it has of the time of all that is tuned, measured; what takes less than a
    hundredth of the time of the payload is left as it is. A winner is kept where it is known to be faster than the
    defaults and the payload is right and not slower with it, in `processes` or more pairs of fresh processes; with 0 it
    is kept as it is. If the payload is slower with all that won, nothing is kept. Functions of which the file has a
    record for this schedule, target and machine are not tuned, in whatever payload they were. With `resume`, studies of
    the storage are gone on with. Raises what `tcpx.tune` raises.
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
    """One run. `values` are those that hold by now: of functions by their structure, as records have them, and of the
    payload's own knobs, found beside what functions had then. `confirming` are the seconds of comparisons in
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
    values: Assignment = field(default_factory=Assignment)
    confirming: float = 0.0
    rivals: Rivals = field(init=False)

    def study(self) -> ModelStudy:
        """Tune what counts, and compare the whole payload with what it was."""
        self._say("looking for functions that are called, and for loop nests")
        drawn = [tcpx.random_inputs(self.module, self.seed, sizes=dict(one.sizes)) for one in self.workloads]
        began = monotonic()
        parts = Parts.of(self.module, self.schedule, self.target, self.threads, self.params)
        patience = max(self.limits.schedule, PATIENCE * (monotonic() - began))
        self.limits = replace(self.limits, schedule=patience)
        self.rivals = Rivals(self._problem, self.limits, self.effort, self.processes, self._say)
        file = self.path.read_bytes() if self.path.exists() else None
        records = self._records(parts)
        nests = Nests.of(parts, self._sizes(), self.values)
        pieces = self._measured_pieces(parts, nests, drawn)
        alone = {id(piece): self._left_alone(piece, records) for piece in pieces}
        left, trials = sum(piece.tunable for piece in pieces if not alone[id(piece)]), self.trials
        outcomes: list[Outcome] = []
        won: dict[int, Mapping[str, Value]] = {}
        for number, piece in enumerate(pieces, 1):
            known = Outcome(self.module.main.name, piece.names, piece.share, piece.calls)
            budget = self._budget()
            why = alone[id(piece)] or (f"defaults: {SPENT}" if budget == 0 else "")
            if why:
                outcomes.append(replace(known, verdict=why))
            else:
                part = self._part(parts, piece)
                most = max(FEWEST, round(trials * piece.tunable / left))
                seconds = None if budget is None else budget * piece.tunable / left
                candidates = counted(most, "candidate")
                self._say(
                    f"{number} of {len(pieces)}: {known.name}, {percent(piece.tunable)} of the time, up to {candidates}"
                )
                study = self._tuned(part, most, seconds)
                trials = max(0, trials - len(study.candidates))
                self.confirming += study.measuring
                known, winner = self._judged(parts, piece, part, study, known)
                outcomes.append(known)
                if study.is_interrupted:
                    return self._came_to(outcomes, is_interrupted=True)
                if winner is not None and part.alone and piece.nest is not None:
                    won[len(outcomes) - 1] = winner
                elif winner is not None:
                    outcomes[-1] = self._confirmed(parts, piece, part, study, known, winner)
            left -= 0 if alone[id(piece)] else piece.tunable
        self._confirm_together(parts, outcomes, won)
        found = self._whole(parts, records, outcomes)
        if found is not None and found.ratio > 1:
            self._take_back(file, outcomes)
            return self._came_to(outcomes, None, self.params)
        return self._came_to(outcomes, found, parts.with_records(self.values))

    def _came_to(
        self,
        outcomes: Sequence[Outcome],
        whole: Comparison | None = None,
        params: Mapping[str, Value] | None = None,
        is_interrupted: bool = False,
    ) -> ModelStudy:
        seconds = monotonic() - self.started
        return ModelStudy(
            self.module, self.path, tuple(outcomes), whole, dict(params or {}), is_interrupted, seconds, self.confirming
        )

    def _sizes(self) -> list[dict[str, int]]:
        return [dict(workload.sizes) for workload in self.workloads]

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
        compilation = Compilation.of(self.module, self.schedule, self.target, self.threads)
        fitting = compilation.functions(known)
        found = {key: fitting[key] for key in parts.keys.values() if key in fitting}
        own = compilation.record(known)
        if own is not None:
            found[""] = own
        self.values = values_of(found.values())
        return found

    def _measured_pieces(self, parts: Parts, nests: Nests, drawn: Sequence[Sequence[Array]]) -> list[Piece]:
        """What is tuned by itself, what takes most of the time first; `drawn` are arguments for each workload."""
        shares: dict[str, float] = {}
        total = sum(workload.weight for workload in self.workloads)
        for workload, arrays in zip(self.workloads, drawn, strict=True):
            self._say(f"measuring where the time goes, {workload}")
            profile = tcpx.profile(
                self.module,
                self.schedule,
                *arrays,
                params=parts.with_records(self.values),
                target=self.target,
                threads=self.threads,
            )
            for key, share in shares_of(profile, parts, nests).items():
                shares[key] = shares.get(key, 0.0) + share * workload.weight / total
        return pieces_of(parts, nests, shares, self._sizes()[:1])

    def _left_alone(self, piece: Piece, records: Mapping[str, TunedRecord]) -> str:
        """Why something is not tuned; empty for what is."""
        if piece.key in records and (piece.key or piece.paths & self.values.keys()):
            held = records[piece.key]
            return f"recorded before, of @{held.function}" if held.function else "recorded before"
        if not piece.key and not piece.paths:
            return "no knobs"
        return f"defaults: less than {LEAST_SHARE:.0%} of the time" if piece.tunable < LEAST_SHARE else ""

    def _part(self, parts: Parts, piece: Piece) -> Part:
        """What something is tuned in, beside all that was found by now."""
        if piece.key:
            return parts.part(piece.key, self._sizes(), self.values)
        if piece.nest is not None and piece.nest.part.alone:
            return piece.nest.part
        return parts.within(piece.names, piece.paths, self._sizes(), self.values)

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
            bare=False,
        )

    def _judged(
        self, parts: Parts, piece: Piece, part: Part, study: Study, known: Outcome
    ) -> tuple[Outcome, Mapping[str, Value] | None]:
        """What a study came to, and if something won, its values: of a function, as records have them, else params of
        the payload."""
        best, first = study.best, study.first
        known = replace(known, alone=part.alone, candidates=len(study.candidates))
        if best is None or best.relative is None or first is None or first.comparison is None:
            why = "no candidate is right" if study.candidates else SPENT
            return replace(known, verdict=f"defaults: {why}"), None
        known = replace(known, seconds=first.comparison.seconds / part.calls)
        if best.c_hash == first.c_hash:
            is_tried = len(study.candidates) > 1 or not any(note.startswith(SPENT) for note in study.notes)
            return replace(known, verdict=f"defaults: {'nothing is faster' if is_tried else SPENT}"), None
        known = replace(known, ratio=best.relative)
        if study.keeps_defaults:
            return replace(known, verdict="defaults: nothing is known to be faster"), None
        if study.is_interrupted:
            return replace(known, verdict="interrupted, not confirmed"), None
        if piece.key:
            return known, values_of([self._record_of(part, study)])
        if piece.nest is None or not part.alone:
            return known, {path: value for path, value in study.params.items() if path not in part.fixed}
        run = parts.run_over(part.payload, study.params)
        values = dict(use.param(use.path) for use in run.knobs if use.overridden)
        return known, piece.nest.of_payload(values)

    def _confirmed(
        self, parts: Parts, piece: Piece, part: Part, study: Study, known: Outcome, values: Mapping[str, Value]
    ) -> Outcome:
        """Keep what won where the whole payload is not slower with it."""
        held = self.values
        self.values |= values
        self._say(f"{known.name}: the whole with its winner, and without")
        found = self._compared(parts.with_records(self.values), parts.with_records(held))
        known = replace(known, whole=found if isinstance(found, Comparison) else None)
        why = _why_not(found, part.alone)
        if why:
            self.values = held
            return replace(known, verdict=f"reverted: {why}")
        if piece.key:
            made = self._record_of(part, study)
            write_record(self.path, replace(made, provenance={**made.provenance, **self._told(known)}))
        self._write_own(parts, {**study.provenance(), **self._told(known)})
        return replace(known, verdict=KEPT)

    def _confirm_together(self, parts: Parts, outcomes: list[Outcome], won: Mapping[int, Mapping[str, Value]]) -> None:
        """Keep the nests that won alone, by the numbers of their outcomes, where the whole payload is not slower with
        all of their values; else what of each half is so."""
        if not won:
            return
        held = self.values
        self.values |= Assignment.merged(won.values())
        names = ", ".join(outcomes[number].name for number in won)
        self._say(f"{names}: the whole with {'their winners' if len(won) > 1 else 'its winner'}, and without")
        found = self._compared(parts.with_records(self.values), parts.with_records(held))
        why = _why_not(found, alone=True)
        if why:
            self.values = held
        if why and len(won) > 1:
            halves = list(won)[: len(won) // 2], list(won)[len(won) // 2 :]
            for numbers in halves:
                self._confirm_together(parts, outcomes, {number: won[number] for number in numbers})
            return
        whole = found if isinstance(found, Comparison) else None
        for number in won:
            verdict = f"reverted: {why}" if why else KEPT
            outcomes[number] = replace(outcomes[number], whole=whole, verdict=verdict)
        if not why:
            kept = [outcomes[number] for number in won]
            of_nests = {"nests": ", ".join(f"{held.name} {held.ratio:.3f}" for held in kept if held.ratio is not None)}
            self._write_own(parts, {**made_today(), **of_nests, **self._told(kept[0])})

    def _told(self, known: Outcome) -> dict[str, str]:
        """What a record says of the whole, and of how long it took to get there."""
        return {
            **known.provenance,
            "seconds": f"{monotonic() - self.started:.0f}, {self.confirming:.0f} of them comparing",
        }

    def _write_own(self, parts: Parts, provenance: Mapping[str, str]) -> None:
        """Write the record of the payload, if it has values of its own: with those of functions, since where it fits it
        is used alone."""
        if self.values.of_payload:
            params = parts.with_records(self.values)
            made, *_ = records_of(self.module, self.schedule, self.target, self.threads, params, provenance)
            write_record(self.path, made)

    def _take_back(self, file: bytes | None, outcomes: list[Outcome]) -> None:
        """Leave the file of records as it was, since the whole is slower with all of them."""
        if file is None:
            self.path.unlink(missing_ok=True)
        else:
            self.path.write_bytes(file)
        for number, held in enumerate(outcomes):
            if held.verdict == KEPT:
                outcomes[number] = replace(held, verdict="reverted: the whole is slower with all that won")

    def _compared(self, params: Mapping[str, Value], others: Mapping[str, Value]) -> Comparison | str | None:
        began = monotonic()
        found = self.rivals.compared(params, others)
        self.confirming += monotonic() - began
        return found

    def _budget(self) -> float | None:
        """The seconds that are left."""
        return None if self.budget is None else max(0.0, self.budget + self.confirming + self.started - monotonic())

    def _record_of(self, part: Part, study: Study) -> TunedRecord:
        """The record of a function."""
        told = study.provenance()
        _, *functions = records_of(part.payload, self.schedule, self.target, self.threads, study.params, told)
        found = next(held for held in functions if held.setting.payload == part.key)
        return replace(found, function=part.functions[0])

    def _whole(
        self, parts: Parts, records: Mapping[str, TunedRecord], outcomes: Sequence[Outcome]
    ) -> Comparison | None:
        """The payload with all that holds beside the defaults; None where that is nothing, or not measured."""
        kept = [held for held in outcomes if held.verdict == KEPT]
        if not records and len({id(held.whole) for held in kept}) < 2:  # all of it was compared together
            return kept[0].whole if kept else None
        self._say("the whole with all records, and with its defaults")
        found = self._compared(parts.with_records(self.values), self.params)
        return found if isinstance(found, Comparison) else None


def _why_not(found: Comparison | str | None, alone: bool) -> str:
    """Why a winner is not kept after the whole payload was compared with it and without; empty where it is. A winner
    that was confirmed `alone` has to slow nothing down; another one has to be faster on the whole."""
    if found is None or isinstance(found, str):
        return found or ""
    if found.ratio > 1:
        return "the whole is slower with it"
    return "" if alone or found.is_faster else "the whole is not known to be faster with it"
