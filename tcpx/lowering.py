"""A schedule and the lowering after it; what cannot be lowered is scheduled again without what made it so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tcpx.interp import AttemptKey, ParamValue, Run, StepHook, left_as_it_is, remark_on, run_schedule
from tcpx.interp.engine import check_threads
from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError, VerifyError
from tcpx.payload.extents import extent_assertions
from tcpx.payload.ir import CloneMap, FuncOp, Module, written_at
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.verifier import verify_module
from tcpx.target import Target, target_at
from tcpx.transform.arguments import TransformContext
from tcpx.transform.cleanup import canonicalize
from tcpx.transform.grouping import dissolve_all
from tcpx.transform.language.checker import require_checked
from tcpx.transform.language.loader import Program, program_of_text
from tcpx.transform.language_versions import NEWEST
from tcpx.transform.ops.bufferize import bufferize_one
from tcpx.transform.ops.plan_memory import plan_one
from tcpx.transform.outlining import Known, drop_unused_arguments, serial_versions
from tcpx.transform.partition import partition
from tcpx.transform.vectors.lowering import lower_vectors
from tcpx.transform.vectors.selection import select_instructions

StepDone = Callable[[str], None]
"""Called with the name of each step of the lowering when it is done."""

NOTHING: Final = f"language {NEWEST}\nschedule default(root: func) {{}}\n"
START: Final = 0
"""The mark of a rewriter that has changed nothing yet."""

LOWERING: Final[tuple[tuple[str, Callable[[Rewriter, FuncOp, Target, int], Sequence[Diagnostic] | None]], ...]] = (
    ("canonicalize", lambda rewriter, func, target, threads: _clean_up(rewriter, func)),
    ("bufferize", lambda rewriter, func, target, threads: bufferize_one(rewriter, func).unasked),
    ("lower_vectors", lambda rewriter, func, target, threads: lower_vectors(rewriter, func, target)),
    ("select_instructions", lambda rewriter, func, target, threads: select_instructions(rewriter, func, target)),
    ("plan_memory", lambda rewriter, func, target, threads: plan_one(rewriter, func, threads)),
)
"""The lowering steps a schedule did not write: cleanup, memory, registers, instructions, the memory plan. They return
what they have to remark."""


def _clean_up(rewriter: Rewriter, func: FuncOp) -> None:
    canonicalize(rewriter, func)
    if "results" not in func.attributes:
        drop_unused_arguments(rewriter, func)


def lower(
    rewriter: Rewriter, func: FuncOp, target: Target, threads: int, on_step: StepDone | None = None
) -> list[Diagnostic]:
    """Apply the steps of `LOWERING` to a function and those it calls; `on_step` is called with the name of each when
    it is done. Groups end as they promise first, and functions that are too long are partitioned; returns what is said
    of that, and of what is done lane by lane."""
    dissolve_all(TransformContext(rewriter, target, threads), func)
    remarks = _partition(rewriter, func, threads)
    if remarks and on_step is not None:
        on_step("partition")
    for name, step in LOWERING:
        rewriter.step += 1
        for held in rewriter.module.reached(func):
            remarks += step(rewriter, held, target_at(held, target), threads) or ()
        if on_step is not None:
            on_step(name)
    return remarks


def _partition(rewriter: Rewriter, func: FuncOp, threads: int) -> list[Diagnostic]:
    rewriter.step += 1
    known: Known = {}
    found = [partition(rewriter, held, known) for held in rewriter.module.reached(func)]
    remarks = [remark for remark in found if remark is not None]
    if threads > 1:
        serial_versions(rewriter, func)
    rewriter.step -= 0 if remarks else 1
    return remarks


def run_and_lower(
    module: Module,
    program: Program,
    target: Target,
    *,
    threads: int,
    params: Mapping[str, ParamValue] | None = None,
    on_step: StepHook | None = None,
    on_lowering: Callable[[Run], StepDone] | None = None,
    keep_texts: bool = False,
) -> Run:
    """Run a schedule over a module, in place, and lower it to what emission takes.

    Where the lowering refuses what the schedule made of an operation that an `else remark` names, the schedule runs
    again and leaves it as it is; all of them, where it is not known which one that is. The schedule that nobody chose
    is left out where even that fails, unless its text is wrong. `on_lowering` is called with each run that is to be
    lowered. Raises ScheduleError and VerifyError.
    """
    check_threads(threads)
    require_checked(program)
    refused: dict[AttemptKey, Diagnostic] = {}
    is_left_out, remarks = False, list[Diagnostic]()
    extents = extent_assertions(module.main)
    while True:
        run: Run | None = None
        try:
            run = run_schedule(
                module,
                program,
                target,
                threads=threads,
                params=params,
                on_step=on_step,
                keep_texts=keep_texts,
                refused=refused,
                is_lowered=True,
            )
            for assertion in extents:
                run.rewriter.insert(assertion.clone(CloneMap(), str), InsertPoint.start(module.main.body))
            step_done = on_lowering(run) if on_lowering is not None else None
            run.trace.remarks += remarks + lower(run.rewriter, module.main, target, threads, step_done)
            verify_module(module)
        except (ScheduleError, VerifyError) as error:
            known = error.diagnostic
            found = _refused(run, known) if run is not None else {}
            mendable = program.is_default and not params and not is_left_out
            if not mendable and (not found or known.kind is Kind.INTERNAL):
                raise
            if run is not None:
                run.rewriter.rollback(START)
            refused |= found
            if not found:
                is_left_out, program = True, replace(program_of_text(NOTHING), is_default=True)
                remarks = [remark_on("the default schedule is left out", None, known)]
        else:
            run.rewriter.commit()
            return run


def _refused(run: Run, why: Diagnostic) -> dict[AttemptKey, Diagnostic]:
    """The attempts of a run in whose steps an operation that could not be lowered was made or changed, with remarks;
    all of them where none is found. An attempt whose knobs were set is no such one."""
    steps = {step for op in run.module.walk() if why.payload in (op.location, written_at(op)) for step in op.steps}
    attempts = [a for a in run.trace.attempts if not a.overridden]
    those = [a for a in attempts if why.payload is not None and steps.intersection(range(a.first, a.last + 1))]
    return {a.key: left_as_it_is(a.label, a.place, why) for a in those or attempts}
