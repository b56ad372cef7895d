"""Running a schedule over a payload: the entry point of this package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tcpx.interp.coverage import Coverage, coverage_of
from tcpx.interp.declared_knobs import schedule_parameter
from tcpx.interp.frame import Frame
from tcpx.interp.handles import Handles
from tcpx.interp.knobs import KnobUse, Overrides, ParamValue
from tcpx.interp.state import State, StepHook
from tcpx.interp.statements import run_block
from tcpx.interp.trace import Trace
from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.payload.ir import FuncOp, Module
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.verifier import verify_module
from tcpx.target import Target
from tcpx.transform.language.checker import require_checked
from tcpx.transform.language.loader import Program
from tcpx.transform.suggestions import did_you_mean

__all__ = ["Coverage", "Run", "StepHook", "run_schedule"]


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome: the module (changed in place), what every step did, the knobs with their values, coverage."""

    module: Module
    rewriter: Rewriter
    trace: Trace
    knobs: tuple[KnobUse, ...]
    coverage: Coverage


def run_schedule(
    module: Module,
    program: Program,
    target: Target,
    *,
    threads: int = 1,
    params: Mapping[str, ParamValue] | None = None,
    schedule: str = "",
    func: str = "",
    on_step: StepHook | None = None,
) -> Run:
    """Check a schedule and run it over one function of the module, in place.

    `params` overrides knobs and schedule parameters by name or by a glob of their path; `schedule` names one of
    several schedules in the file; `func` one of several functions. Raises ScheduleError, and then leaves the module
    as it was.
    """
    require_checked(program)
    called = program.schedule(schedule)
    function = _function(module, func)
    rewriter = Rewriter(module)
    state = State(
        module=module,
        func=function,
        rewriter=rewriter,
        program=program,
        target=target,
        threads=threads,
        handles=Handles(rewriter),
        overrides=Overrides(params or {}),
        trace=Trace(),
        on_step=on_step,
    )
    start = rewriter.mark()
    try:
        frame = Frame(program.main, called.name)
        for position, param in enumerate(called.params):
            is_root = position == 0
            frame.names[param.name] = (
                state.handles.of(function, label=function.name) if is_root else schedule_parameter(param, state, frame)
            )
        state.trace.use(called)
        run_block(called.body, state, frame)
        state.overrides.check_all_matched()
        verify_module(module)
    except BaseException:
        rewriter.rollback(start)
        raise
    return Run(module, rewriter, state.trace, tuple(state.overrides.uses), coverage_of(state))


def _function(module: Module, name: str) -> FuncOp:
    if not name:
        return module.main
    if name not in module.funcs:
        raise ScheduleError(
            Diagnostic(
                f"the payload has no function @{name}",
                required="a function of the payload",
                found=", ".join(f"@{n}" for n in module.funcs) or "no functions",
                fix=did_you_mean(name, module.funcs),
            )
        )
    return module.funcs[name]
