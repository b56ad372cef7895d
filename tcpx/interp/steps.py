"""One step: a transform applied to every copy of its handles, in one transaction, verified and recorded."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tcpx.interp.arguments import Prepared, all_copies_of, arguments_for, copies_of, prepare
from tcpx.interp.frame import Frame
from tcpx.interp.recording import Recording
from tcpx.interp.state import Mark, State, marks_of
from tcpx.interp.trace import OutputLine
from tcpx.interp.values import OperandHandle, OpHandle, RuntimeValue, Side, base_of
from tcpx.payload.diagnostics import (
    Diagnostic,
    Direction,
    Kind,
    LimitError,
    Location,
    ScheduleError,
    StepError,
    TcpxError,
    UnprovenError,
    VerifyError,
)
from tcpx.payload.ir import FuncOp, Operation, written_at
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import to_text, variables
from tcpx.payload.verifier import verify_ops
from tcpx.target import target_at
from tcpx.transform.declaration import Arguments, Result, Results, Transform, TransformContext
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import transform_arguments
from tcpx.transform.language.printer import print_statement
from tcpx.transform.outlining import own_copy
from tcpx.transform.payload_names import in_names_of_payload
from tcpx.transform.static_tiles import left_out_if_idle

Values = tuple[RuntimeValue, ...]


def run_step(
    transform: type[Transform],
    call: ast.Call,
    statement: ast.Statement,
    state: State,
    frame: Frame,
    optional: bool = False,
) -> Values:
    """Apply a transform as one transaction and give the handles of its results. Raises ScheduleError.

    On any failure the payload is as it was. An `optional` step that cannot be done, or changes nothing, is left out.
    """
    where = statement.location
    rewriter = state.rewriter
    recording = Recording.begin(state)
    context = TransformContext(
        rewriter,
        state.target,
        state.threads,
        where,
        handle_name=frame.handle_name,
        language=frame.unit.language,
        named=state.knobs.assignment.named,
    )
    first_place: Location | None = None
    made: Prepared | None = None
    try:
        made = prepare(transform, transform_arguments(transform, call), state, frame)
        if transform.mutates:
            _copy_functions(made, state)
        first_place = _place((*copies_of(made, state), state.func))
        marks, first_origin = _marks_of(made, state), state.module.next_origin
        results = _by_entry(made, _apply_to_copies(made, context, state, where))
        touched = _verify(transform, state, where)
        if transform.mutates and rewriter.mark() == recording.mark:
            if optional:
                _undo(state, recording.mark)
                return ()
            raise _unchanged(transform, where)
    except TcpxError as error:
        targets = (all_copies_of(made, state) if made is not None else []) or [state.func]
        said = in_names_of_payload(error.diagnostic, rewriter.first_names, targets)
        _undo(state, recording.mark)
        located = frame.located(said, where, payload=first_place, kind=StepError)
        if optional and state.recovers_from(located):
            return ()
        raise located from (error if said.kind is Kind.INTERNAL else None)  # the rest says nothing more
    except Exception as error:
        _undo(state, recording.mark)
        raise crash(transform.name, error, where, frame, first_place) from error
    if state.called is not None:
        state.called.note(state.module)
    state.trace.output += [OutputLine(text, where) for text in context.remarks]
    if not state.program.is_of_library(where):
        state.trace.remarks += context.warnings
    state.trace.outdated.update(dict.fromkeys((each, where) for each in context.outdated))
    state.handles.note_ends(where)
    if transform.marks:
        state.marked.update(dict.fromkeys(marks - {mark for op in context.unchanged for mark in marks_of(op)}))
        state.pure_values.forget()
    else:
        loops = (op for op in touched if isinstance(op, Loop))
        state.written.update(dict.fromkeys(o for op in loops for o in op.origins if o >= first_origin))
    recording.commit(
        print_statement(statement),
        transform.name,
        where,
        frame,
        made.bound,
        zip(statement.names if isinstance(statement, ast.Let) else (), results, strict=False),
        touched,
        context.remarks,
        transform.mutates,
        context.snapshots,
    )
    return results


def _copy_functions(made: Prepared, state: State) -> None:
    """Give the calls that the handles of a step are of their own copies of what they share with others."""
    for _, handle, _ in made.handles.values():
        for shared in state.handles.calls(base_of(handle)):
            if isinstance(shared, Call) and len(shared.called.callers()) > 1:
                own_copy(state.rewriter, shared)


def _place(ops: Iterable[Operation]) -> Location | None:
    """Where the first of them that was written by a person stands, or what it stands in."""
    return next((place for op in ops if (place := written_at(op)) is not None), None)


def _apply_to_copies(made: Prepared, context: TransformContext, state: State, where: Location) -> Values:
    transform = made.transform()
    copies = copies_of(made, state)
    groups: list[Results] = []
    for copy in copies or [None]:
        if copy is not None and copy.parent is None and not isinstance(copy, FuncOp):
            continue
        args = arguments_for(made, copy, state)
        if copy is not None:
            context.target = target_at(copy, state.target)
            _check_sizes(context, copy, args)
            args = args.map_sizes(lambda size, copy=copy: context.declared(copy, size))
            _check_function(context, copy, args)
        path = copy.copy_path if copy is not None else ()
        results = _apply(transform, context, args)
        _check_results(made, results, where)
        for result in results:
            if isinstance(result, Operation) and path and not result.copy_path:
                context.rewriter.set_origins(result, result.origins, path)
        groups.append(results)
    return _as_handles(groups, made.sides, state)


def _by_entry(made: Prepared, results: Values) -> Values:
    """Loops by the entries of the map that makes them: a list for one whose key is a list of dims."""
    if Result.LOOPS not in made.transform.results or not any(is_listed for _, is_listed in made.entries):
        return results
    found: list[RuntimeValue] = []
    at = 0
    for count, is_listed in made.entries:
        found.append(results[at : at + count] if is_listed else results[at])
        at += count
    return tuple(found)


def _check_sizes(context: TransformContext, op: Operation, args: Arguments) -> None:
    """Raise ScheduleError for a size that depends on a loop, given for an operation outside of it."""
    known = {outer.var.name for outer in op.ancestors() if isinstance(outer, Loop)}
    for size in args.every_size():
        unknown = [v.name for v in variables(size) if v.name not in known]
        if unknown:
            raise context.fail(
                f"the size depends on the loop {unknown[0]}, and %{op.name} is not in it",
                op=op,
                required="a size that is known where the operation stands",
                found=to_text(size),
                fix=Direction("take the size before that loop is made, or a number"),
            )


def _check_function(context: TransformContext, op: Operation, args: Arguments) -> None:
    """Raise ScheduleError for a step that is about operations of two functions."""
    func = op.func
    for other in args.every_operation():
        if other.func is not func and func is not None and other.func is not None and other is not other.func:
            raise context.fail(
                f"%{other.name} is an operation of @{other.func.name}, and %{op.name} one of @{func.name}",
                op=op,
                required="operations of one function",
                found=f"@{func.name} and @{other.func.name}",
                fix=Direction("`inline` the call of the function"),
            )


def _apply(transform: Transform, context: TransformContext, args: Arguments) -> Results:
    """A rule of the IR that a transform runs into is a precondition that is not met."""
    try:
        return transform.apply(context, args)
    except VerifyError as error:
        raise ScheduleError(replace(error.diagnostic, kind=Kind.SILENCEABLE)) from None


def _check_results(made: Prepared, results: Results, where: Location) -> None:
    declared = made.transform.results
    counted = Result.LOOPS not in declared
    if counted and len(results) != len(declared):
        raise made.frame.error(
            f"the transform `{made.transform.name}` returns another number of results than it declares",
            where,
            required=str(len(declared)),
            found=str(len(results)),
            kind=Kind.INTERNAL,
        )


def _as_handles(groups: list[Results], sides: Sequence[Side], state: State) -> Values:
    """Results of all copies by position: position k of every copy is one handle, narrowed as the arguments are."""
    width = max((len(results) for results in groups), default=0)
    handles: list[RuntimeValue] = []
    for position in range(width):
        column = [results[position] for results in groups if position < len(results)]
        ops = [r if isinstance(r, Operation) else r.defining_op for r in column]
        made = [op for op in ops if op is not None]
        kept = tuple(side for side in sides if all(side.has(op.copy_path) for op in made))
        handle = replace(state.handles.of(*made), sides=kept)
        first = column[0]
        if isinstance(first, Operation) or first.defining_op is None:
            handles.append(handle)
        else:
            handles.append(OperandHandle(handle, f"result{first.defining_op.results.index(first)}"))
    return tuple(handles)


def _marks_of(made: Prepared, state: State) -> set[Mark]:
    """The copies that a step is given, a whole function aside."""
    ops = list(made.listed)
    for _, handle, _ in made.handles.values():
        live = state.handles.live(handle if isinstance(handle, OpHandle) else handle.base)
        ops += [] if any(isinstance(op, FuncOp) for op in live) else live
    return {mark for op in ops for mark in marks_of(op)}


def _verify(transform: type[Transform], state: State, where: Location) -> list[Operation]:
    """Check what the step touched, and give it. New loops learn which line made them."""
    touched = check_touched(transform.name, state, where)
    for op in touched:
        if isinstance(op, Loop) and op.schedule_location is None:
            op.schedule_location = where
    return touched


def check_touched(step: str, state: State, where: Location) -> list[Operation]:
    """Check what a step touched, and give it. Raises ScheduleError; a broken rule is a bug of the transform."""
    touched, left = state.rewriter.take_touched(), state.rewriter.take_left()
    state.nests.forget([*touched, *left])
    try:
        state.rewriter.visited += verify_ops(touched, left)
    except LimitError as error:
        raise ScheduleError(replace(error.diagnostic, schedule=where)) from None
    except UnprovenError as error:
        raise _broken(f"nothing proves that `{step}` fits", error, Kind.SILENCEABLE, where) from error
    except VerifyError as error:
        raise _broken(
            f"`{step}` left the payload in a state that breaks a rule", error, Kind.INTERNAL, where
        ) from error
    return touched


def _broken(message: str, error: TcpxError, kind: Kind, where: Location) -> ScheduleError:
    known = error.diagnostic
    return ScheduleError(replace(known, message=f"{message}: {known.message}", kind=kind, schedule=where))


def _unchanged(transform: type[Transform], where: Location) -> ScheduleError:
    return ScheduleError(
        Diagnostic(
            f"`{transform.name}` changes nothing here",
            Kind.SILENCEABLE,
            found="the payload as it was",
            schedule=where,
            required="a step with an effect",
            fix=f"remove the statement, or {left_out_if_idle(where, transform.name)}",
        )
    )


def _undo(state: State, mark: int) -> None:
    state.rewriter.rollback(mark)
    state.rewriter.take_touched()
    state.handles.forget_ends()


def crash(step: str, error: Exception, where: Location, frame: Frame, payload: Location | None) -> ScheduleError:
    """A step failed in a way it does not explain: a bug, ours or of the author of the transform."""
    return frame.error(
        f"the transform `{step}` failed in a way it does not explain",
        where,
        required="a result, or an error that says what is missing",
        found=f"{type(error).__name__}: {error}",
        kind=Kind.INTERNAL,
        payload=payload,
    )
