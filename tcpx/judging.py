"""A schedule, the lowering after it, and remarks on what is slow then."""

import warnings
from collections.abc import Callable, Mapping

from tcpx.interp import ParamValue, Run, StepHook
from tcpx.lowering import StepDone, run_and_lower
from tcpx.payload.diagnostics import ParseError, ScheduleError, ScheduleWarning, VerifyError
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.remarks.cuts import cut_out, is_tried_in_part
from tcpx.remarks.edits import edited_payload, edited_program
from tcpx.remarks.finding import Model, kernel_cycles
from tcpx.remarks.hints import Hint
from tcpx.remarks.notes import with_noted, with_reasons, with_refusals
from tcpx.remarks.request import PayloadWork
from tcpx.remarks.schedule_hints import GivenSchedule
from tcpx.remarks.trials import remarks_on
from tcpx.remarks.tried_fixes import TriedFixes
from tcpx.remarks.written import Written
from tcpx.target import Target
from tcpx.transform.language.loader import Program


@frozen
class Original:
    """A payload as it was written, of which `prepared` makes the copy that is scheduled, such as one with strides."""

    module: Module
    prepared: Callable[[Module], Module]


def run_and_judge(
    module: Module,
    program: Program,
    target: Target,
    *,
    threads: int,
    params: Mapping[str, ParamValue] | None = None,
    on_step: StepHook | None = None,
    on_lowering: Callable[[Run], StepDone] | None = None,
    keep_texts: bool = False,
    sizes: Mapping[str, int] | None = None,
    original: Original | None = None,
) -> Run:
    """Do what `run_and_lower` does. What is slow then has a remark, judged at the sizes that are given, else at usual
    ones; its hint may be about the original payload, on copies of which it is tried. Raises ScheduleError and
    VerifyError."""
    payload = PayloadWork.of(module, target, sizes)
    run = run_and_lower(
        module,
        program,
        target,
        threads=threads,
        params=params,
        on_step=on_step,
        on_lowering=on_lowering,
        keep_texts=keep_texts,
    )

    def cycles_of(changed: Module, hint: Hint) -> float:
        given = None if hint.is_default else params
        run_and_lower(changed, edited_program(program, hint), target, threads=threads, params=given)
        return kernel_cycles(changed, payload.sizes, target, threads)

    def in_part(whole: Module, hint: Hint) -> float | None:
        cut = cut_out(whole, hint)
        edited = edited_payload(cut.module, cut.hint) if cut is not None else None
        if cut is None or edited is None:
            return None
        return model.whole - cycles_of(cut.module, hint) + cycles_of(edited, hint)

    def trial(hint: Hint) -> float | None:
        if original is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ScheduleWarning)
                if program.is_default and is_tried_in_part(original.module):
                    return in_part(original.module, hint)
                edited = edited_payload(original.module, hint)
                return None if edited is None else cycles_of(original.prepared(edited), hint)
        except (ParseError, ScheduleError, VerifyError):  # it cannot be followed: another one is tried
            return None

    model, noted = Model(run.module, payload, target, threads), list(run.trace.remarks)
    written = original.module if original is not None else None
    texts = Written(written, GivenSchedule.of(program, run.trace.entries))
    fixes = TriedFixes(program, model.whole, trial)
    found = with_refusals(with_noted(model.findings(), noted, model), noted, run.trace.refusals, model, fixes)
    run.trace.remarks[:] = with_reasons(noted, remarks_on(found, payload, texts, trial), model, fixes)
    return run
