"""Expressions of a schedule as formulas over its knobs: all that depends on nothing else is evaluated now."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import cast

from tcpx.interp.expressions import argument_value, evaluate
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.space.foresight import SurveyForesight
from tcpx.interp.space.formula import Formula, Value, apply, chosen, constant, listed
from tcpx.interp.state import State
from tcpx.interp.values import RuntimeValue
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.types import ScalarType
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import FunctionCallee, declared_arguments, find_callee
from tcpx.transform.language.builtins import Function


def fold(expression: ast.Expression, state: State, frame: Frame) -> Formula | None:
    """The expression over knobs; None where it depends on what is not known before the schedule runs."""
    if frame.formulas.keys().isdisjoint(names_in(expression)):
        return _known(expression, state, frame)
    match expression:
        case ast.Name():
            return frame.formulas[expression.name]
        case ast.Unary():
            return _applied("not" if expression.operator == "not" else "negate", (expression.operand,), state, frame)
        case ast.Binary():
            return _binary(expression, state, frame)
        case ast.Conditional():
            parts = _folded((expression.condition, expression.then, expression.orelse), state, frame)
            return chosen(*parts) if parts is not None else None
        case ast.Range():
            return _applied("..", (expression.lower, expression.upper), state, frame)
        case ast.ListOf():
            parts = _folded(expression.items, state, frame)
            return listed(parts) if parts is not None else None
        case ast.Call():
            return _call(expression, state, frame)
        case _:
            return None


def names_in(node: object) -> Iterator[str]:
    """All names that an expression mentions."""
    if isinstance(node, ast.Name):
        yield node.name
    elif isinstance(node, tuple):
        for item in cast("tuple[object, ...]", node):
            yield from names_in(item)
    elif is_dataclass(node):
        for held in fields(node):
            if held.name != "location":
                yield from names_in(getattr(node, held.name))


def _known(expression: ast.Expression, state: State, frame: Frame) -> Formula | None:
    foresight = state.foresight
    before = isinstance(foresight, SurveyForesight) and foresight.start_guessing()
    try:
        value = evaluate(expression, state, frame)
    except (UnforeseenError, TcpxError):
        return None
    finally:
        guessed = isinstance(foresight, SurveyForesight) and foresight.end_guessing(before)
    plain = plain_value(value)
    return constant(plain, guessed) if plain is not None else None


def plain_value(value: RuntimeValue) -> Value | None:
    """A value that a formula can hold, a dtype by its name; None for others."""
    if isinstance(value, tuple):
        items = [plain_value(item) for item in value]
        return tuple(item for item in items if item is not None) if None not in items else None
    if isinstance(value, ScalarType):
        return value.name
    return value if isinstance(value, int | float | bool | str) else None


def _folded(parts: tuple[ast.Expression, ...], state: State, frame: Frame) -> tuple[Formula, ...] | None:
    found = [fold(part, state, frame) for part in parts]
    made = tuple(part for part in found if part is not None)
    return made if len(made) == len(parts) else None


def _applied(name: str, operands: tuple[ast.Expression, ...], state: State, frame: Frame) -> Formula | None:
    parts = _folded(operands, state, frame)
    return apply(name, parts) if parts is not None else None


def _binary(expression: ast.Binary, state: State, frame: Frame) -> Formula | None:
    parts = _folded((expression.lhs, expression.rhs), state, frame)
    if parts is None:
        return None
    lhs, rhs = parts
    match expression.operator:
        case "and":
            return chosen(lhs, rhs, constant(False))
        case "or":
            return chosen(lhs, constant(True), rhs)
        case operator:
            return apply(operator, parts)


def _call(call: ast.Call, state: State, frame: Frame) -> Formula | None:
    try:
        callee = find_callee(call.function, frame.unit)
    except TcpxError:
        return None
    if isinstance(callee, Function):
        return _applied(callee.name, tuple(argument.value for argument in call.arguments), state, frame)
    if not isinstance(callee, FunctionCallee):
        return None
    inner = Frame(callee.unit, frame.use)
    bound = declared_arguments(callee.function, call)
    for param in callee.function.params:
        given = bound.get(param.name)
        value, outside = (given.value, frame) if given is not None else (param.default, inner)
        if value is not None:
            _bind(param, value, state, outside, inner)
    for bound in callee.function.lets:
        _bind_name(bound.names[0], bound.value, state, inner)
    return fold(callee.function.value, state, inner)


def _bind_name(name: str, value: ast.Expression, state: State, frame: Frame) -> None:
    """Bind a `let` of a function: to a value, or, where that depends on knobs, to a formula."""
    if frame.formulas.keys().isdisjoint(names_in(value)):
        try:
            frame.names[name] = evaluate(value, state, frame)
        except (UnforeseenError, TcpxError):
            frame.formulas[name] = None
    else:
        frame.formulas[name] = fold(value, state, frame)


def _bind(param: ast.Param, value: ast.Expression, state: State, outside: Frame, inner: Frame) -> None:
    """Bind a parameter of a function: to a value, or, where that depends on knobs, to a formula."""
    if outside.formulas.keys().isdisjoint(names_in(value)):
        try:
            inner.names[param.name] = argument_value(param, value, state, outside)
        except (UnforeseenError, TcpxError):
            inner.formulas[param.name] = None
    else:
        inner.formulas[param.name] = fold(value, state, outside)
