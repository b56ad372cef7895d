"""Named matchers: whether an operation is the root of a pattern, and the other operations of it."""

from dataclasses import replace

from tcpx.interp.arithmetic import undecided
from tcpx.interp.conditions import AnyOf
from tcpx.interp.frame import Frame
from tcpx.interp.matching import Miss, Outcome, class_miss
from tcpx.interp.parameters import Evaluate, checked_parameter
from tcpx.interp.state import State
from tcpx.interp.values import OpHandle, RuntimeValue, describe
from tcpx.payload.diagnostics import Kind, TcpxError
from tcpx.payload.ir import Operation
from tcpx.payload.sizes.predicates import Predicate
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import MatcherCallee
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.language.views import view_of, without_view

FIRST_RANK = 3
"""An operation of the right class is a nearer miss than any other; each statement that holds makes it nearer still."""


def matcher_outcome(
    callee: MatcherCallee,
    pattern: ast.Pattern,
    root: OpHandle,
    op: Operation,
    state: State,
    frame: Frame,
    evaluate: Evaluate,
) -> Outcome:
    """The parts a matcher returns for an operation, or why the operation is not the root of its pattern."""
    matcher = callee.matcher
    (param,) = matcher.params
    for wanted in without_view(param.type, callee.unit).arguments:
        miss = class_miss(op, wanted.name)
        if miss is not None:
            return miss
    inner = Frame(callee.unit, frame.use, calls=((matcher.name, pattern.location), *frame.calls))
    inner.names[param.name] = replace(root, view=view_of(param.type, callee.unit))
    for held, statement in enumerate(matcher.body.statements):
        try:
            returned = _run(statement, matcher, state, inner, evaluate)
        except TcpxError as error:
            if not state.recovers_from(error):
                raise
            known = error.diagnostic
            is_told = known.found is None or isinstance(statement, ast.Require)
            reason = known.message if is_told else f"{known.message} (found {known.found})"
            return Miss(op, FIRST_RANK + held, reason)
        if returned is not None:
            return returned
    return ()


def _run(
    statement: ast.Statement, matcher: ast.Matcher, state: State, frame: Frame, evaluate: Evaluate
) -> tuple[RuntimeValue, ...] | None:
    match statement:
        case ast.Let(names=(name,)):
            frame.names[name] = evaluate(statement.value, state, frame)
        case ast.Require():
            _require(statement, matcher, state, frame, evaluate)
        case ast.Return():
            values = [evaluate(v, state, frame) for v in statement.values]
            pairs = zip(statement.values, matcher.results, values, strict=True)
            return tuple(checked_parameter(print_expression(e), t, v, e, state, frame, frame.unit) for e, t, v in pairs)
        case _:
            raise frame.error("a matcher only looks", statement, required="`let`, `require` or `return`")
    return None


def _require(statement: ast.Require, matcher: ast.Matcher, state: State, frame: Frame, evaluate: Evaluate) -> None:
    value = evaluate(statement.condition, state, frame)
    if value is True:
        return
    text = print_expression(statement.condition)
    if value is False:
        raise frame.error(
            statement.message or f"not `{text}`", statement, required=text, found="it is false", kind=Kind.SILENCEABLE
        )
    if isinstance(value, Predicate | AnyOf):
        raise undecided(value, f"`require` of the matcher `{matcher.name}`", frame, statement.condition)
    raise frame.error("a condition is true or false", statement, required="bool", found=describe(value))
