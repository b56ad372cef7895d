"""`tcpx.tune`: search the space of a schedule for a payload, by measuring."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Final

import tcpx
from tcpx.inputs import SizeValues, size_values
from tcpx.loading import PayloadLike, module_of
from tcpx.measure.pinned_threads import available_cpus
from tcpx.plurals import counted
from tcpx.tune.arguments import check_arguments
from tcpx.tune.duel import Effort
from tcpx.tune.executor import LOCAL, cpus_of
from tcpx.tune.identity import identity_of
from tcpx.tune.interrupts import Interrupts
from tcpx.tune.ledger import Ledger, StudyKey
from tcpx.tune.progress import Listener, Progress, silent
from tcpx.tune.request import Request
from tcpx.tune.samplers.sampler import default_sampler
from tcpx.tune.search import Search
from tcpx.tune.slots import Limits
from tcpx.tune.space import Space, Value
from tcpx.tune.space_file import SpaceFile, Workload, read_space_file
from tcpx.tune.study import Study
from tcpx.tune.study_folder import study_folder
from tcpx.written_paths import file_to_write

TRIALS: Final = 100
FINAL_PROCESSES: Final = 5


def tune(
    module: PayloadLike,
    schedule: tcpx.Schedule | tcpx.ScheduleFile | None = None,
    *,
    trials: int | None = None,
    budget: float | None = None,
    storage: str | Path | None = None,
    resume: bool = False,
    sampler: str | None = None,
    seed: int = 0,
    params: Mapping[str, Value] | None = None,
    sizes: Sequence[SizeValues] = (),
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
    bare: bool = True,
    listener: Listener = silent,
) -> Study:
    """Find fast values for the knobs of a schedule.

    `trials` candidates at most (100), in `budget` seconds from the call on; the candidates that are tried when these
    are over are tried to their end. All go into the ledger `storage`, and `resume` goes on with what it has. `sizes`
    are values of the payload's symbols, one mapping per workload; `params` pins knobs; `space` is a YAML file
    (docs/tuning.md); `seeds` are points to try first, as params, or the nearest there are. `workers` compile at once. A
    candidate gets `limits` of time and `memory` bytes. `executor` is `local`, or `dask://HOST:PORT`; where its workers
    have several kinds of processors, each kind gets a study and an equal part of the budget, and those after the first
    are its `others`; a study whose workers are all gone comes last, and where none is left that is an error.
    `early_stop` ends the search after so many candidates that are not faster. At the end, beyond the budget, the winner
    is compared with the defaults and, with `bare`, with the payload compiled without the schedule, in `processes`
    or more sets of fresh processes, whose time the listener hears before; with 0 it is not. Where this does not show
    that the winner is faster than the defaults, these are the winner. Ctrl-C ends the search and keeps what it found; a
    second one ends it at once. Raises ScheduleError, ArgumentError, LedgerError.
    """
    started = monotonic()
    module = module_of(module)
    check_arguments(locals())
    file = space if isinstance(space, SpaceFile) else read_space_file(space) if space is not None else SpaceFile()
    given = tuple(Workload(tuple(sorted(size_values(values).items()))) for values in sizes)
    program = tcpx.program_or_default(schedule)
    resolved = tcpx.load_target(target).spec
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
        workers=workers or len(available_cpus()),
        limits=limits or Limits(),
        effort=effort or Effort(),
        plugins=tuple(plugins),
        memory=memory,
        seeds=tuple(seeds),
        processes=processes,
        early_stop=early_stop,
        executor=executor,
        beside_bare=bare and schedule is not None and not program.is_default,
    )
    if executor == LOCAL:
        tcpx.load_target(resolved).require_cpu()
    require_cpus(threads)
    listener(
        Progress((), (), None, 0.0, request.budget, request.trials, phase="finding the knobs that these sizes reach")
    )
    called = [dict(workload.sizes) for workload in request.workloads]
    searched = tcpx.search_space(module, program, params=params, target=resolved, threads=threads, sizes=called)
    narrowed = file.narrowed(searched)
    for wanted in seeds:
        narrowed.require_known(wanted)
    studies: list[Study] = []
    kinds, spent = cpus_of(executor), 0.0
    for number, cpu in enumerate(kinds):
        left = None if request.budget is None else (request.budget - spent) / (len(kinds) - number)
        shared = replace(request, budget=left)
        studies.append(_tuned(shared, cpu, narrowed, storage, resume, listener, started))
        spent += studies[-1].searching
        started = monotonic()
    if all(study.cut_off for study in studies):
        raise no_workers_left(studies, storage)
    first, *others = sorted(studies, key=lambda study: study.cut_off != "")
    return replace(first, others=tuple(others))


def _tuned(
    request: Request,
    cpu: str | None,
    space: Space,
    storage: str | Path | None,
    resume: bool,
    listener: Listener,
    started: float,
) -> Study:
    """The study for one kind of processor; its budget runs since `started`."""
    interrupts = Interrupts()
    with ExitStack() as stack:
        stack.enter_context(interrupts.caught())
        folder = stack.enter_context(study_folder())
        ledger = stack.enter_context(Ledger(file_to_write(storage) if storage is not None else folder / "ledger.db"))
        key, facts = identity_of(
            request.module, request.schedule, request.target, request.threads, request.workloads, request.fixed, cpu
        )
        study = ledger.study(key, facts)
        _require_new(ledger, study, resume)
        search = Search(request, space, ledger, study, folder, listener, cpu, interrupts, started=started)
        return search.study_of(stack)


def no_workers_left(studies: Sequence[Study], storage: str | Path | None) -> tcpx.ArgumentError:
    """The error where the workers died and no study came to its end."""
    kinds = " or ".join(f"`{study.key.facts['cpu']}`" for study in studies)
    tried = sum(candidate.is_settled for study in studies for candidate in study.candidates)
    are = "candidate is" if tried == 1 else "candidates are"
    kept = f"{tried} {are} in {storage}" if storage is not None else "no storage, so nothing is kept"
    return tcpx.ArgumentError(
        tcpx.Diagnostic(
            f"the search was cut off: {'; '.join(dict.fromkeys(study.cut_off for study in studies))}",
            required=f"one worker or more with {kinds}, and their scheduler",
            found=kept,
            fix="start what is gone again, then add --resume (resume=True)"
            if storage is not None
            else "start what is gone again, and give storage= to keep what it finds",
        )
    )


def _require_new(ledger: Ledger, study: StudyKey, resume: bool) -> None:
    known = ledger.candidates(study)
    if known and not resume:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"{ledger.path} has this study already",
                required="a new study, or leave to go on with it",
                found=f"{counted(len(known), 'candidate')} of study {study.key}",
                fix="add --resume (resume=True), or choose another --storage",
            )
        )


def require_cpus(threads: int) -> None:
    """Raises ArgumentError where kernels have more threads than this process has CPUs."""
    cpus = len(available_cpus())
    if threads > cpus:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic("more threads than CPUs cannot be timed", required=f"at most {cpus}", found=str(threads))
        )
