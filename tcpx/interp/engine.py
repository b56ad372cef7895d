"""Running a schedule over a payload: the entry point of this package."""

from collections.abc import Mapping
from typing import Final

from tcpx.assignment import Assignment, ParamValue
from tcpx.interp.called import CalledFunctions
from tcpx.interp.contract import check_contract
from tcpx.interp.coverage import Coverage, coverage_of, scalar_remarks
from tcpx.interp.declared_knobs import schedule_parameter
from tcpx.interp.frame import Frame
from tcpx.interp.handles import Handles
from tcpx.interp.knobs import KnobUse, KnobUses, OverriddenLaterError
from tcpx.interp.payload_check import check_on_payload
from tcpx.interp.payload_texts import PayloadTexts
from tcpx.interp.state import State, StepHook
from tcpx.interp.statements import Runner
from tcpx.interp.trace import AttemptKey, Trace
from tcpx.interp.work import Work
from tcpx.limits import MOST_THREADS, shares_of, shortened
from tcpx.payload.diagnostics import Diagnostic, ScheduleError, TcpxError, python_type_of
from tcpx.payload.ir import FuncOp, Module
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes_of_arguments import check_sizes_of_arguments
from tcpx.payload.unread_loops import unread_loops
from tcpx.payload.verifier import verify_module
from tcpx.records import brief, frozen
from tcpx.suggestions import did_you_mean
from tcpx.target import Target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker import check_program, require_checked, warn_of
from tcpx.transform.language.loader import Program
from tcpx.transform.preparation import prepare

__all__ = ["Coverage", "Run", "StepHook", "check_schedule", "run_schedule"]


START: Final = 0
"""The mark of a rewriter that has changed nothing yet."""


@frozen
class Run:
    """The outcome: the module (changed in place), what every step did, the knobs with their values, coverage."""

    module: Module
    rewriter: Rewriter
    trace: Trace
    knobs: tuple[KnobUse, ...]
    coverage: Coverage
    functions: CalledFunctions | None = None
    """What is called, as it was before it was scheduled, where that was asked for."""

    def __repr__(self) -> str:
        return brief("Run", f"of {len(self.trace.entries)} step(s) on {self.module!r}")

    @property
    def remarks(self) -> tuple[Diagnostic, ...]:
        """What the schedule left as it is where it could, and why: warnings."""
        return tuple(self.trace.remarks)


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
    keep_texts: bool = False,
    refused: Mapping[AttemptKey, Diagnostic] | None = None,
    by_function: bool = False,
    is_lowered: bool = False,
) -> Run:
    """Check a schedule and run it over one function of the module, in place.

    `params` overrides knobs and schedule parameters by name or by a glob of their path; `schedule` names one of
    several schedules in the file; `func` one of several functions. With `keep_texts` the trace has what every step
    changed in the payload text. Where an override reaches only a later use of a shared knob, the run begins anew with
    its value for all of them; `on_step` sees the last run alone. `refused` is what `else remark` is to leave as it is,
    and the remarks that say so. `by_function` lets `params` have values of functions by their structure, and the run
    knows its `functions`. What is going to be lowered is verified as a whole after that, not here: each step has
    verified what it changed. Raises ScheduleError, and then leaves the module as it was.
    """
    warnings = require_checked(program)
    if not program.is_default:  # nobody wrote that one
        warn_of(warnings)
    called = program.schedule(schedule)
    function = _function(module, func)
    check_contract(program, called, function)
    assignment = Assignment.of(params)
    hook = None if assignment.by_path else on_step
    while True:
        state = _state(module, function, program, target, threads, assignment)
        state.on_step, state.refused = hook, refused or {}
        state.trace.remarks += unread_loops(module)
        prepare(state.rewriter, module)
        state.texts = PayloadTexts(function) if keep_texts else None
        state.called = CalledFunctions(module) if by_function else None
        try:
            run = _run(called, state, is_lowered)
        except OverriddenLaterError as error:
            assignment = error.settled(assignment)
            continue
        except TcpxError:
            if hook is on_step:
                raise
        else:
            if hook is on_step:
                if not is_lowered:
                    run.rewriter.commit()
                return run
            run.rewriter.rollback(START)
        hook = on_step


def _run(called: ast.Schedule, state: State, is_lowered: bool) -> Run:
    """Run a schedule once; whatever is raised, the module is then as it was."""
    try:
        state.trace.use(called)
        Runner(state).block(called.body, _frame(called, state))
        state.knobs.assignment.require_read(state.knobs.read, state.knobs.names, state.called is not None)
        if not is_lowered:
            verify_module(state.module)
        state.trace.remarks += scalar_remarks(state) if not state.program.is_default else []
    except BaseException:
        state.rewriter.rollback(START)
        raise
    return Run(state.module, state.rewriter, state.trace, tuple(state.knobs), coverage_of(state), state.called)


def check_schedule(
    module: Module,
    program: Program,
    target: Target,
    *,
    threads: int = 1,
    params: Mapping[str, ParamValue] | None = None,
    schedule: str = "",
    func: str = "",
) -> tuple[Diagnostic, ...]:
    """Everything that is wrong with a schedule for a payload, found without taking a step; () if nothing is.

    Arguments are those of `run_schedule`. Findings of the schedule alone come first, and alone if one is an error.
    """
    found = check_program(program)
    if any(diagnostic.is_error for diagnostic in found):
        return found
    assignment = Assignment.of(params)
    while True:
        try:
            called = program.schedule(schedule)
            function = _function(module, func)
            check_contract(program, called, function)
            state = _state(module, function, program, target, threads, assignment)
            check_sizes_of_arguments(function)
            return (*found, *unread_loops(module), *check_on_payload(called, state, _frame(called, state)))
        except OverriddenLaterError as error:
            assignment = error.settled(assignment)
        except TcpxError as error:
            return (*found, error.diagnostic)


def begin_run(
    module: Module, program: Program, target: Target, threads: int, assignment: Assignment
) -> tuple[ast.Schedule, State, Frame]:
    """A checked schedule, and what a run of it starts with; for those who follow it in their own way, and roll back
    then."""
    warn_of(require_checked(program))
    called = program.schedule("")
    function = module.main
    check_contract(program, called, function)
    state = _state(module, function, program, target, threads, assignment)
    prepare(state.rewriter, module)
    return called, state, _frame(called, state)


def check_threads(threads: object) -> None:
    """Raise ScheduleError unless kernels run on so many threads."""
    if type(threads) is int and 1 <= threads <= MOST_THREADS:
        return
    found = shortened(threads) if type(threads) is int else python_type_of(threads)
    raise ScheduleError(
        Diagnostic("no kernel runs on so many threads", required=f"threads from 1 to {MOST_THREADS}", found=found)
    )


def _state(
    module: Module,
    function: FuncOp,
    program: Program,
    target: Target,
    threads: int,
    assignment: Assignment,
) -> State:
    check_threads(threads)
    rewriter = Rewriter(module)
    return State(
        module=module,
        func=function,
        rewriter=rewriter,
        program=program,
        target=target,
        threads=threads,
        handles=Handles(rewriter),
        knobs=KnobUses(assignment),
        trace=Trace(),
        work=Work(shares=shares_of(rewriter.operations)),
    )


def _frame(called: ast.Schedule, state: State) -> Frame:
    """The frame of a schedule: the function it works on, and its parameters."""
    frame = Frame(state.program.main, called.name, place=f":{called.name}")
    for position, param in enumerate(called.params):
        root = state.handles.of(state.func, label=state.func.name)
        frame.names[param.name] = schedule_parameter(param, state, frame) if position else root
    return frame


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
