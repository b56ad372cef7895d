"""Evaluating expressions over the payload, the target and the names in scope."""

from __future__ import annotations

from tcpx.interp import arithmetic, navigation
from tcpx.interp.frame import Frame
from tcpx.interp.functions import call_function
from tcpx.interp.matching import Candidates, match_handles
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OpHandle, RuntimeValue, as_dim_value, describe, kind_of
from tcpx.payload.diagnostics import Kind, ScheduleError, TcpxError
from tcpx.payload.ir import Operation
from tcpx.payload.predicates import Predicate
from tcpx.payload.types import SCALARS
from tcpx.target import Target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import TARGET_SIZES
from tcpx.transform.suggestions import did_you_mean


def evaluate(expression: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    """The value of an expression. Raises ScheduleError with its place and the call stack."""
    try:
        return _evaluate(expression, state, frame)
    except TcpxError as error:
        if isinstance(error, ScheduleError) and error.diagnostic.schedule is not None:
            raise
        raise frame.located(error, expression.location) from error


def truth(expression: ast.Expression, what: str, state: State, frame: Frame) -> bool:
    """The value of a condition that must be decided now; `what` needs it."""
    value = condition(expression, state, frame)
    if isinstance(value, Predicate):
        raise arithmetic.undecided(value, what, frame, expression)
    return value


def condition(expression: ast.Expression, state: State, frame: Frame) -> bool | Predicate:
    """The value of a condition: decided, or to be tested when the kernel runs."""
    value = evaluate(expression, state, frame)
    if not isinstance(value, bool | Predicate):
        raise frame.error("a condition is true or false", expression, required="bool", found=describe(value))
    return value


def _evaluate(expression: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    match expression:
        case ast.Literal():
            return expression.value
        case ast.Name():
            return _name(expression, state, frame)
        case ast.Attribute():
            base = evaluate(expression.base, state, frame)
            if isinstance(base, Target):
                return _target_attribute(base, expression, frame)
            return navigation.attribute(base, expression.name, state, frame, expression)
        case ast.Call():
            return _call(expression, state, frame)
        case ast.Unary() | ast.Binary():
            return _operator(expression, state, frame)
        case ast.Match():
            return match_handles(expression, state, frame, _candidates(expression, state, frame))
        case _:
            return _composed(expression, state, frame)


def _composed(
    expression: ast.ListOf | ast.Range | ast.Conditional | ast.Selection | ast.MapOf | ast.Padded,
    state: State,
    frame: Frame,
) -> RuntimeValue:
    match expression:
        case ast.ListOf():
            return _without_aliases(tuple(evaluate(i, state, frame) for i in expression.items), state)
        case ast.Range():
            ends = [evaluate(e, state, frame) for e in (expression.lower, expression.upper)]
            lower, upper = (as_dim_value(e) for e in ends)
            if not isinstance(lower, int) or not isinstance(upper, int):
                found = ", ".join(map(arithmetic.size_text, ends))
                raise frame.error("the ends of a range are known now", expression, required="int", found=found)
            return tuple(range(lower, upper + 1))
        case ast.Conditional():
            chosen = truth(expression.condition, "`if`", state, frame)
            return evaluate(expression.then if chosen else expression.orelse, state, frame)
        case ast.Selection():
            return _selection(expression, state, frame)
        case ast.MapOf() | ast.Padded():
            raise frame.error("this has no value of its own", expression, required="an argument declared to take it")


def _without_aliases(items: tuple[RuntimeValue, ...], state: State) -> tuple[RuntimeValue, ...]:
    """Handles that were merged into one computation stand in a list once."""
    kept: list[RuntimeValue] = []
    for item in items:
        alias = isinstance(item, OpHandle) and any(
            isinstance(k, OpHandle) and state.handles.same(k, item) for k in kept
        )
        if not alias:
            kept.append(item)
    return tuple(kept)


def _name(expression: ast.Name, state: State, frame: Frame) -> RuntimeValue:
    name = expression.name
    if name in frame.names:
        return frame.names[name]
    if name == "target":
        return state.target
    if name == "threads":
        return state.threads
    if name in SCALARS:
        return SCALARS[name]
    if frame.candidate is not None:
        if name == "it":
            return frame.candidate
        return navigation.attribute(frame.candidate, name, state, frame, expression)
    raise frame.error(f"`{name}` is not bound", expression, fix=did_you_mean(name, frame.names))


def _target_attribute(target: Target, expression: ast.Attribute, frame: Frame) -> RuntimeValue:
    if expression.name == "name":
        return target.name
    sizes: dict[str, int] = {
        "vector_registers": target.vector_registers,
        "vector_bits": target.vector_bits,
        "l1": target.l1,
        "l2": target.l2,
        "l3": target.l3,
        "parallel_threshold": target.parallel_threshold,
    }
    if expression.name not in sizes:
        raise frame.error(f"the target has no `{expression.name}`", expression, required=", ".join(TARGET_SIZES))
    return sizes[expression.name]


def _operator(expression: ast.Unary | ast.Binary, state: State, frame: Frame) -> RuntimeValue:
    operator = expression.operator
    if isinstance(expression, ast.Unary):
        if operator == "not":
            return arithmetic.opposite(condition(expression.operand, state, frame), frame, expression)
        return arithmetic.negate(evaluate(expression.operand, state, frame), frame, expression)
    if operator in ("and", "or"):
        lhs = condition(expression.lhs, state, frame)
        if lhs is (operator == "or"):
            return lhs
        rhs = condition(expression.rhs, state, frame)
        if operator == "and":
            return arithmetic.conjunction(lhs, rhs)
        return arithmetic.disjunction(lhs, rhs, frame, expression)
    left, right = evaluate(expression.lhs, state, frame), evaluate(expression.rhs, state, frame)
    if operator in ("+", "-", "*", "/", "%"):
        return arithmetic.arithmetic(operator, left, right, frame, expression)
    return arithmetic.compare(operator, left, right, state.handles, frame, expression)


def _call(expression: ast.Call, state: State, frame: Frame) -> RuntimeValue:
    function = expression.function
    if isinstance(function, ast.Name):
        args = tuple(evaluate(a.value, state, frame) for a in expression.arguments)
        return call_function(function.name, args, state, frame, expression)
    if not isinstance(function, ast.Attribute):
        raise frame.error("this cannot be called", function)
    base = evaluate(function.base, state, frame)
    argument = expression.arguments[0].value
    if isinstance(base, Target):
        return base.has(_text(argument, state, frame))
    if not isinstance(base, OpHandle):
        raise frame.error(f"{kind_of(base)} has no `{function.name}(...)`", function, required="a handle")
    if function.name == "copy":
        return navigation.copies(base, _text(argument, state, frame), state, frame, expression)
    dim = dim_name(argument, state, frame)
    if function.name == "loops":
        return navigation.loops_of(base, dim, state, expression.location)
    return navigation.loop_of(base, dim, state, frame, expression)


def _text(expression: ast.Expression, state: State, frame: Frame) -> str:
    value = evaluate(expression, state, frame)
    if not isinstance(value, str):
        raise frame.error("a string is needed", expression, required="string", found=describe(value))
    return value


def dim_name(expression: ast.Expression, state: State, frame: Frame) -> str:
    """A place declared `dim`: a bare name is the dim, never a variable; else `x.m` or a parameter in parentheses."""
    if isinstance(expression, ast.Name):
        held = frame.names.get(expression.name)
        return held.dim if isinstance(held, DimHandle) else expression.name
    value = evaluate(expression, state, frame)
    if not isinstance(value, DimHandle):
        raise frame.error("a dim is needed", expression, required="a dim such as `k`", found=describe(value))
    return value.dim


def _selection(expression: ast.Selection, state: State, frame: Frame) -> RuntimeValue:
    base, scope = evaluate(expression.base, state, frame), evaluate(expression.scope, state, frame)
    if not isinstance(base, OpHandle) or not isinstance(scope, OpHandle):
        found = f"{kind_of(base)} in {kind_of(scope)}"
        raise frame.error("`in` selects the copies of an op inside another", expression, found=found)
    made = OpHandle(base.origins, base.label, base.sides, (*base.inside, scope.origins))
    if not state.handles.live(made):
        raise frame.error(
            f"no copy of %{base.label} is inside %{scope.label}",
            expression,
            required="at least one",
            kind=Kind.SILENCEABLE,
        )
    return made


def _candidates(expression: ast.Match, state: State, frame: Frame) -> Candidates:
    scope = evaluate(expression.scope, state, frame)
    roots = scope if isinstance(scope, tuple) else (scope,)
    ops: list[Operation] = []
    for root in roots:
        if not isinstance(root, OpHandle):
            raise frame.error("matching goes through a function, a loop or an op", expression.scope)
        ops += state.handles.resolve(root, expression.scope.location)
    return Candidates(tuple(ops), lambda op: where_reason(expression.where, op, state, frame))


def where_reason(where: ast.Expression | None, op: Operation, state: State, frame: Frame) -> str | None:
    """Why an operation does not satisfy a `where`; None if it does."""
    if where is None:
        return None
    inner = frame.block()
    inner.candidate = state.handles.of(op)
    try:
        holds = truth(where, "`where`", state, inner)
    except TcpxError as error:
        if error.diagnostic.kind is not Kind.SILENCEABLE:
            raise
        return error.diagnostic.message
    text = where.location.text[where.location.column - 1 : where.location.end_column - 1]
    return None if holds else f"not `{text}`"
