"""Executing statements."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tcpx.interp.attempts import note_errors, run_or_leave, run_try
from tcpx.interp.calls import frame_of_call
from tcpx.interp.declared_knobs import bind_knob, chosen_alternative
from tcpx.interp.expressions import evaluate, pattern_outcome, truth, where_miss
from tcpx.interp.frame import Frame
from tcpx.interp.matching import Miss, Outcome, near_misses, pattern_text
from tcpx.interp.navigation import UnknownAttributeError, narrowed
from tcpx.interp.patterns import names_of
from tcpx.interp.recovery import Savepoint
from tcpx.interp.specialization import run_specialize
from tcpx.interp.state import State
from tcpx.interp.steps import run_step
from tcpx.interp.values import OperandHandle, OpHandle, RuntimeValue, describe, kind_of
from tcpx.interp.versions import expanded
from tcpx.payload.diagnostics import ConditionError, Kind, MissingError, ScheduleError
from tcpx.plurals import counted
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, find_callee, is_import
from tcpx.transform.language.printer import print_expression

Values = tuple[RuntimeValue, ...]


def run_block(block: ast.Block, state: State, frame: Frame) -> Values | None:
    """Run statements in order, in the names of `frame`; the returned values once one returns, else None."""
    with state.work.nested(frame, block):
        for statement in block.statements:
            returned = run_statement(statement, state, frame)
            if returned is not None:
                return returned
    return None


def run_statement(statement: ast.Statement, state: State, frame: Frame) -> Values | None:
    """Run one statement. Raises ScheduleError; the payload is then as it was before the step that failed."""
    state.work.statement(frame, statement)
    state.trace.fire(statement.location)
    if _is_recovered_inside(statement, frame):
        return _run(statement, state, frame)
    return run_or_leave(state, lambda: _run(statement, state, frame))


def _is_recovered_inside(statement: ast.Statement, frame: Frame) -> bool:
    """Whether a failure leaves out a part of a statement: an iteration of a loop, a statement of a sequence."""
    match statement:
        case ast.ForEach():
            return True
        case ast.Do(optional=False):
            return isinstance(find_callee(statement.call.function, frame.unit), SequenceCallee)
        case _:
            return False


def _run(statement: ast.Statement, state: State, frame: Frame) -> Values | None:
    match statement:
        case ast.Let():
            _let(statement, state, frame)
        case ast.Do():
            _do(statement.call, statement, state, frame, statement.optional)
        case ast.Knob():
            bind_knob(statement, state, frame)
        case ast.Require():
            check_requirement(statement, state, frame)
        case ast.Return():
            return tuple(evaluate(v, state, frame) for v in statement.values)
        case ast.ForEach():
            return _for(statement, state, frame)
        case ast.If():
            return _if(statement, state, frame)
        case ast.Case():
            return _case(statement, state, frame)
        case ast.Try():
            return run_try(statement, state, frame, run_block)
        case ast.Tune():
            return run_block(chosen_alternative(statement, state, frame), state, frame.block())
        case ast.Specialize() | ast.Versions():
            _versions(statement, state, frame)
    return None


def _versions(statement: ast.Specialize | ast.Versions, state: State, frame: Frame) -> None:
    meant = expanded(statement, state, frame) if isinstance(statement, ast.Versions) else statement
    if isinstance(meant, ast.Block):
        run_block(meant, state, frame.block())
    else:
        run_specialize(meant, state, frame, run_block)


def _let(statement: ast.Let, state: State, frame: Frame) -> None:
    value = statement.value
    if isinstance(value, ast.Call) and is_step(value, frame):
        results = _do(value, statement, state, frame, statement.optional)
        if statement.optional and not results:
            results = tuple(OpHandle((), name) for name in statement.names)
    else:
        made = evaluate(value, state, frame)
        results = made if len(statement.names) > 1 and isinstance(made, tuple) else (made,)
    if len(results) != len(statement.names):
        raise frame.error(
            "names and results differ in number",
            statement,
            required=counted(len(results), "name"),
            found=", ".join(statement.names),
        )
    frame.names.update((name, value) for name, value in zip(statement.names, results, strict=True) if name != "_")


def is_step(call: ast.Call, frame: Frame) -> bool:
    """Whether a call is of a transform or a sequence, not of a function or a method."""
    if isinstance(call.function, ast.Attribute) and not is_import(call.function, frame.unit):
        return False
    callee = find_callee(call.function, frame.unit)
    return isinstance(callee, type | SequenceCallee)


def _do(call: ast.Call, statement: ast.Statement, state: State, frame: Frame, optional: bool = False) -> Values:
    callee = find_callee(call.function, frame.unit)
    if isinstance(callee, type):
        state.work.step(frame, statement)
        return run_step(callee, call, statement, state, frame, optional)
    if not isinstance(callee, SequenceCallee):
        raise frame.error("this statement has no effect", statement, required="the call of a transform or sequence")
    if not optional:
        return _run_sequence(callee, call, state, frame)
    saved = Savepoint.take(state)
    try:
        return _run_sequence(callee, call, state, frame)
    except ScheduleError as error:
        if not state.recovers_from(error):
            raise
        saved.restore(state)
        note_errors([error], state)
        return ()


def _run_sequence(callee: SequenceCallee, call: ast.Call, state: State, frame: Frame) -> Values:
    state.trace.use(callee.sequence)
    inner = frame_of_call(callee, call, state, frame)
    state.trace.use_in(inner.place, callee.sequence)
    return run_block(callee.sequence.body, state, inner) or ()


def check_requirement(statement: ast.Require, state: State, frame: Frame) -> None:
    """Raise ScheduleError if a `require` does not hold."""
    condition = statement.condition
    try:
        if truth(condition, "`require`", state, frame):
            return
    except (UnknownAttributeError, MissingError) as error:  # to ask for one is a question, too
        raise ConditionError(error.diagnostic) from None
    found = "it does not hold"
    if isinstance(condition, ast.Binary) and condition.operator not in ("and", "or"):
        sides = [describe(evaluate(e, state, frame)) for e in (condition.lhs, condition.rhs)]
        found = f"{sides[0]} {condition.operator} {sides[1]} does not hold"
    raise frame.error(
        statement.message or "a requirement of the schedule does not hold",
        statement,
        required=print_expression(condition),
        found=found,
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def _for(statement: ast.ForEach, state: State, frame: Frame) -> Values | None:
    earlier = defaultdict[int, list[OpHandle]](list)
    items = list[RuntimeValue]()
    run_or_leave(state, lambda: items.extend(loop_items(statement, state, frame)))
    for item in items:
        head = item[0] if isinstance(item, tuple) and item else item
        if isinstance(head, OpHandle):
            if not _still_wanted(item, head, statement.items, state, frame):
                continue
            if _is_merged(head, earlier, state):
                continue
            for origin in head.origins:
                earlier[origin].append(head)
        returned = run_or_leave(state, lambda item=item: _iteration(statement, item, state, frame))
        if returned is not None:
            return returned
    return None


def _is_merged(item: OpHandle, earlier: Mapping[int, Sequence[OpHandle]], state: State) -> bool:
    """Whether an item denotes what an earlier one does by now, by the origins of the earlier ones."""
    origins = dict.fromkeys(origin for op in state.handles.live(item) for origin in op.origins)
    heads = (head for origin in origins if origin in earlier for head in earlier[origin])
    return any(state.handles.same(item, head) for head in heads)


def _iteration(statement: ast.ForEach, item: RuntimeValue, state: State, frame: Frame) -> Values | None:
    inner = frame.block()
    inner.names.update(named_parts(statement, item, frame))
    return run_block(statement.body, state, inner)


def named_parts(statement: ast.ForEach, item: RuntimeValue, frame: Frame) -> dict[str, RuntimeValue]:
    """The variables of a `for`: one is the item, several are its parts."""
    names = statement.variables
    if len(names) == 1:
        return {names[0]: item}
    parts = item if isinstance(item, tuple) else (item,)
    if len(parts) != len(names):
        raise frame.error(
            "variables and parts of an item differ in number",
            statement,
            required=counted(len(parts), "name"),
            found=", ".join(names),
        )
    return dict(zip(names, parts, strict=True))


def loop_items(statement: ast.ForEach, state: State, frame: Frame) -> Iterator[RuntimeValue]:
    """What a `for` goes through."""
    value = evaluate(statement.items, state, frame)
    if isinstance(value, tuple):
        yield from value
    elif isinstance(value, OpHandle):
        yield value
    else:
        found = f"{kind_of(value)} {describe(value)}"
        raise frame.error("`for` goes through a list", statement.items, required="list or range", found=found)


def _still_wanted(item: RuntimeValue, head: OpHandle, items: ast.Expression, state: State, frame: Frame) -> bool:
    """Items that ended, or no longer satisfy the `where` they were matched by, are passed over."""
    parts = item if isinstance(item, tuple) else (item,)
    if not all(state.handles.live(part) for part in parts if isinstance(part, OpHandle)):
        return False
    if not isinstance(items, ast.Match):
        return True
    named = names_of(items.pattern, head, parts[1:], frame)
    asked = state.handles.live(head)
    return all(where_miss(items.where, op, state, frame, named, head.inside) is None for op in asked)


def _if(statement: ast.If, state: State, frame: Frame) -> Values | None:
    for branch in statement.branches:
        if truth(branch.condition, "`if`", state, frame):
            return run_block(branch.body, state, frame.block())
    if statement.orelse is not None:
        return run_block(statement.orelse, state, frame.block())
    return None


def _case(statement: ast.Case, state: State, frame: Frame) -> Values | None:
    subject = evaluate(statement.subject, state, frame)
    if not isinstance(subject, OpHandle):
        raise frame.error("`case` is about an op", statement.subject, required="op", found=describe(subject))
    ops = state.handles.resolve(subject, statement.subject.location)
    reasons: list[str] = []
    for arm in statement.arms:
        outcomes = [pattern_outcome(arm.pattern, arm.where, op, state, frame, subject.inside) for op in ops]
        miss = next((outcome for outcome in outcomes if isinstance(outcome, Miss)), None)
        if miss is None:
            return run_block(arm.body, state, frame_of_arm(arm, subject, outcomes[0], frame))
        reason = near_misses([miss])[0] if miss.op.name else miss.reason
        reasons.append(f"{pattern_text(arm.pattern)}: {reason}")
    if isinstance(statement.orelse, ast.Block):
        return run_block(statement.orelse, state, frame.block())
    message = statement.orelse.message if statement.orelse is not None else f"no case fits %{subject.label}"
    raise frame.error(
        message,
        statement,
        required="an arm that fits",
        found=f"%{subject.label}",
        notes=tuple(reasons),
        kind=Kind.SILENCEABLE,
        of=ConditionError,
    )


def frame_of_arm(arm: ast.Arm, subject: OpHandle, outcome: Outcome, frame: Frame) -> Frame:
    """Names in the block of an arm that fits: those of its pattern, too."""
    inner = frame.block()
    if not isinstance(outcome, Miss):
        parts = tuple(_narrowed(part, subject) for part in outcome)
        inner.names.update(names_of(arm.pattern, subject, parts, frame))
    return inner


def _narrowed(part: RuntimeValue, subject: OpHandle) -> RuntimeValue:
    """A part of a pattern, in the copies that are asked about."""
    match part:
        case OpHandle():
            return narrowed(part, subject)
        case OperandHandle():
            return replace(part, base=narrowed(part.base, subject))
        case _:
            return part
