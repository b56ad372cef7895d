"""`try { } else { }`: the first block that does not fail; `else remark x` where none may be had."""

from collections.abc import Callable
from dataclasses import replace

from tcpx.interp.expressions import evaluate
from tcpx.interp.frame import Frame
from tcpx.interp.recovery import Savepoint
from tcpx.interp.state import State
from tcpx.interp.trace import Attempt, Refusal
from tcpx.interp.values import OpHandle, RuntimeValue, describe
from tcpx.payload.diagnostics import ConditionError, Diagnostic, Kind, Location, ScheduleError, StepError
from tcpx.payload.ir import Operation, written_at
from tcpx.transform.language import syntax as ast

Values = tuple[RuntimeValue, ...]
RunBlock = Callable[[ast.Block, Frame], Values | None]


def run_try(statement: ast.Try, state: State, frame: Frame, run_block: RunBlock) -> Values | None:
    """Take the first alternative that does not fail. Raises ScheduleError where none does and the statement does not
    say what then."""
    if isinstance(statement.orelse, ast.Remark):
        return _try_or_remark(statement, statement.orelse, state, frame, run_block)
    failures: list[ScheduleError] = []
    errors: list[ScheduleError] = []
    for alternative in statement.alternatives:
        saved, first = Savepoint.take(state), len(state.trace.entries) + 1
        try:
            returned = run_block(alternative, frame.block())
        except ScheduleError as error:
            if not state.recovers_from(error):
                raise
            errors.append(error)
            failures.append(_judged(error, state, saved))
            saved.restore(state)
        else:
            note_errors(errors, state)
            _note_refused(_refused_steps(failures), statement, state, first)
            return returned
    if statement.orelse is None and len(failures) == 1:
        note_errors(errors, state)
        return None
    if statement.orelse is None:
        raise _of_all(failures)
    error = frame.error(
        statement.orelse.message,
        statement,
        required="an alternative that applies",
        notes=_reasons(failures),
        kind=Kind.SILENCEABLE,
    )
    raise (StepError if _refused_steps(failures) else ConditionError)(error.diagnostic)


def _note_refused(refused: list[ScheduleError], statement: ast.Try, state: State, first: int) -> None:
    """Note the steps of earlier alternatives that failed, in the schedule of a reader, who can change them."""
    if refused and not state.program.is_default and statement.location.file == state.program.main.file.path:
        why = refused[0].diagnostic
        why = replace(why, notes=(*why.notes, *_reasons(refused[1:])))
        state.trace.refusals.append(Refusal(why, first, len(state.trace.entries)))


def _of_all(failures: list[ScheduleError]) -> ScheduleError:
    """The failure of a `try`: that of the alternative whose step failed first, with the others as notes."""
    first, others = _first_refused(failures)
    notes = (*first.diagnostic.notes, "every alternative of the `try` around it failed", *_reasons(others))
    return (StepError if isinstance(first, StepError) else ConditionError)(replace(first.diagnostic, notes=notes))


def _try_or_remark(
    statement: ast.Try, remark: ast.Remark, state: State, frame: Frame, run_block: RunBlock
) -> Values | None:
    """The same where the statement says what to remark on: that stays as it was then."""
    ops = _remarked(remark, state, frame)
    label, place = ops[0].name or ops[0].opcode, written_at(ops[0])
    where = statement.location
    key = (where.file, where.line, where.column, tuple(op.name for op in ops))
    known = state.refused.get(key)
    if known is not None:
        state.trace.remarks.append(known)
        return None
    failures: list[ScheduleError] = []
    for alternative in statement.alternatives:
        saved, hits, first = Savepoint.take(state), state.knobs.hits, len(state.trace.entries) + 1
        try:
            returned = run_block(alternative, frame.block())
        except ScheduleError as error:
            if not state.recovers_from(error) or state.knobs.hits > hits:
                raise
            failures.append(_judged(error, state, saved))
            saved.restore(state)
        else:
            overridden = state.knobs.hits > hits
            state.trace.attempts.append(Attempt(key, label, place, first, len(state.trace.entries), overridden))
            refused = _refused_steps(failures)
            if refused:
                state.trace.remarks.append(
                    computed_otherwise(label, place, refused[0].diagnostic, _reasons(refused[1:]))
                )
            return returned
    first, others = _first_refused(failures)
    state.trace.remarks.append(left_as_it_is(label, place, first.diagnostic, _reasons(others)))
    return None


def _judged(error: ScheduleError, state: State, saved: Savepoint) -> ScheduleError:
    """The failure of a block, as that of a step, except for a condition that does not hold before its first step: it
    says that the block is for something else."""
    is_condition = isinstance(error, ConditionError) and len(state.trace.entries) == saved.entries
    return error if is_condition else StepError(error.diagnostic)


def note_errors(failures: list[ScheduleError], state: State) -> None:
    """Remark on those failures, of what is left out, that are neither a condition nor a refused step: an expression
    has no value."""
    known = {remark.message for remark in state.trace.remarks}
    for failure in failures:
        if not isinstance(failure, ConditionError | StepError):
            remark = remark_on("a part of the schedule is left out", None, failure.diagnostic)
            state.trace.remarks += [remark] if remark.message not in known else []


def _refused_steps(failures: list[ScheduleError]) -> list[ScheduleError]:
    return [failure for failure in failures if isinstance(failure, StepError)]


def _first_refused(failures: list[ScheduleError]) -> tuple[ScheduleError, list[ScheduleError]]:
    """The first failure of a step, and the others; without any, the first. What fails before a step is for something
    else."""
    first = next(iter(_refused_steps(failures)), failures[0])
    return first, [failure for failure in failures if failure is not first]


def _remarked(remark: ast.Remark, state: State, frame: Frame) -> list[Operation]:
    """The operations that a remark is about. Raises ScheduleError where there are none."""
    value = evaluate(remark.target, state, frame)
    if not isinstance(value, OpHandle):
        raise frame.error("a remark is about an operation", remark.target, required="op or loop", found=describe(value))
    return state.handles.resolve(value, remark.target.location)


def computed_otherwise(label: str, place: Location | None, why: Diagnostic, others: tuple[str, ...]) -> Diagnostic:
    """The remark on an operation to which a later block of a schedule was applied: the step of an earlier one that
    failed, and why."""
    return remark_on(f"%{label} is computed in another way", place, why, others)


def left_as_it_is(label: str, place: Location | None, why: Diagnostic, others: tuple[str, ...] = ()) -> Diagnostic:
    """The remark on an operation that a schedule could not be applied to: its place, the step that failed, and why."""
    return remark_on(f"%{label} is left as it is", place, why, others)


def run_or_leave(state: State, run: Callable[[], Values | None]) -> Values | None:
    """Run a statement; in the schedule that nobody chose, undo one that fails outside of a `try`, with a remark."""
    if not state.program.is_default or state.recovering:
        return run()
    saved, hits = Savepoint.take(state), state.knobs.hits
    state.recovering += 1
    try:
        return run()
    except ScheduleError as error:
        if state.knobs.hits > hits:
            raise
        saved.restore(state)
        remark = remark_on("a statement of the default schedule is left out", None, error.diagnostic)
        known = {each.message for each in state.trace.remarks}
        state.trace.remarks += [remark] if remark.message not in known else []
        return None
    finally:
        state.recovering -= 1


def remark_on(what: str, place: Location | None, why: Diagnostic, others: tuple[str, ...] = ()) -> Diagnostic:
    """The remark that something is not done, and why: `what: why`."""
    kind = f"{why.kind.value}: " if why.kind is Kind.INTERNAL else ""
    return replace(
        why,
        message=f"{what}: {kind}{why.message}",
        kind=Kind.WARNING,
        payload=place or why.payload,
        notes=(*why.notes, *others),
        cause="fallback",
    )


def _reasons(failures: list[ScheduleError]) -> tuple[str, ...]:
    return tuple(f"{f.diagnostic.schedule}: {f.diagnostic.message}" for f in failures)
