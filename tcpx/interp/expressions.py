"""Evaluating expressions over the payload, the target and the names in scope."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tcpx.interp import arithmetic, methods, navigation
from tcpx.interp.conditions import AnyOf, Condition, conjunction, disjunction, opposite
from tcpx.interp.dim_owners import own_dim
from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.functions import call_function
from tcpx.interp.lifting import has_formula, lifted_call, lifted_choice, lifted_list
from tcpx.interp.matchers import matcher_outcome
from tcpx.interp.matching import WHERE_RANK, Candidates, Miss, Outcome, fits, match_handles, name_miss, pattern_miss
from tcpx.interp.parameters import call_frame, checked_parameter, given_arguments
from tcpx.interp.patterns import written_outcome
from tcpx.interp.space.formula import Formula
from tcpx.interp.state import State
from tcpx.interp.target_queries import has_feature, target_attribute
from tcpx.interp.values import (
    UNKNOWN,
    DimHandle,
    OperandHandle,
    OpHandle,
    RuntimeValue,
    as_dim_value,
    describe,
    kind_of,
)
from tcpx.payload.diagnostics import MissingError, ScheduleError, TcpxError
from tcpx.payload.interfaces import Tileable, dim_called
from tcpx.payload.ir import Operation, written_at
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import SCALARS
from tcpx.suggestions import did_you_mean
from tcpx.target import Target, target_at
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import FunctionCallee, find_callee, find_matcher, is_import
from tcpx.transform.language.builtins import METHODS, Function, Method
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.language.views import RoleOf


def evaluate(expression: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    """The value of an expression, in the domain of the names in scope: concrete, or a formula where one takes part.

    Raises ScheduleError with its place and the call stack, and UnforeseenError for top, which takes in all that it
    takes part in."""
    state.work.expression(frame, expression)
    try:
        return _evaluate(expression, state, frame)
    except TcpxError as error:
        known = error.diagnostic
        complete = known.schedule is not None and (bool(known.calls) or not frame.calls)
        if isinstance(error, ScheduleError) and complete:
            raise
        raise frame.located(error.diagnostic, expression.location) from None
    finally:
        state.work.depth -= 1


def value_or_top(expression: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    """The value of an expression, `UNKNOWN` included."""
    try:
        return evaluate(expression, state, frame)
    except UnforeseenError:
        return UNKNOWN


def argument_value(param: ast.Param, node: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    """An argument for a declared parameter: where a dim is declared, a bare name is the dim."""
    if param.type.name == "dim" and isinstance(node, ast.Name):
        held = frame.names.get(node.name)
        return held if isinstance(held, DimHandle) else DimHandle(OpHandle((), "any op"), node.name)
    return evaluate(node, state, frame)


def _apply(callee: FunctionCallee, call: ast.Call, state: State, frame: Frame) -> RuntimeValue:
    """The value of a function of a schedule."""
    function = callee.function
    given = given_arguments(callee, call, state, frame, argument_value)

    def value() -> RuntimeValue:
        inner = call_frame(callee, call, given, state, frame, evaluate)
        for bound in function.lets:
            inner.names[bound.names[0]] = evaluate(bound.value, state, inner)
        made = evaluate(function.value, state, inner)
        return checked_parameter(function.name, function.result, made, function.value, state, inner, inner.unit)

    if state.foresight is not None:
        return value()
    return state.pure_values.value(
        function, [frame.target, *(given.get(param.name) for param in function.params)], value
    )


def role_of(base: RuntimeValue | None, name: str) -> RoleOf | None:
    """The role of this name of what a handle is declared as; None if it has none."""
    return base.view.role(name) if isinstance(base, OpHandle) and base.view is not None else None


def role_value(role: RoleOf, base: OpHandle, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """The value of a role of a view for the operation that a handle denotes."""
    function, unit = role.function, role.view.unit

    def value() -> RuntimeValue:
        about = next(iter(state.handles.live(base)), None)
        target = frame.target if about is None else target_at(about, state.target)
        inner = Frame(unit, frame.use, calls=((function.name, node.location), *frame.calls), target=target)
        inner.names[function.params[0].name] = replace(base, view=role.view)
        return evaluate(function.value, state, inner)

    if state.foresight is not None:
        return value()
    return state.pure_values.value(function, [frame.target, base], value)


def truth(expression: ast.Expression, what: str, state: State, frame: Frame) -> bool:
    """The value of a condition that must be decided now; `what` needs it."""
    return _decided(evaluate(expression, state, frame), expression, what, frame)


def _decided(value: RuntimeValue, expression: ast.Expression, what: str, frame: Frame) -> bool:
    known = _as_condition(value, expression, frame)
    if not isinstance(known, bool):
        raise arithmetic.undecided(known, what, frame, expression)
    return known


def condition(expression: ast.Expression, state: State, frame: Frame) -> Condition:
    """The value of a condition: decided, or to be tested when the kernel runs."""
    return _as_condition(evaluate(expression, state, frame), expression, frame)


def _as_condition(value: RuntimeValue, expression: ast.Expression, frame: Frame) -> Condition:
    if isinstance(value, Formula):
        raise UnforeseenError("knobs decide")
    if not isinstance(value, bool | Predicate | AnyOf):
        raise frame.error("a condition is true or false", expression, required="bool", found=describe(value))
    return value


def _evaluate(expression: ast.Expression, state: State, frame: Frame) -> RuntimeValue:
    if state.foresight is not None:
        state.foresight.require_known(expression)
    match expression:
        case ast.Literal():
            return expression.value
        case ast.Name():
            return _name(expression, state, frame)
        case ast.Attribute():
            base = evaluate(expression.base, state, frame)
            if isinstance(base, Target):
                return target_attribute(base, expression, frame)
            role = role_of(base, expression.name)
            if role is not None and isinstance(base, OpHandle):
                return role_value(role, base, state, frame, expression)
            return _asked(base, state, lambda: navigation.attribute(base, expression.name, state, frame, expression))
        case ast.Call():
            return _call(expression, state, frame)
        case ast.Unary() | ast.Binary():
            return _operator(expression, state, frame)
        case ast.Match():
            return match_handles(expression, state, frame, candidates_of(expression, state, frame))
        case _:
            return _composed(expression, state, frame)


def _composed(
    expression: ast.ListOf | ast.Range | ast.Conditional | ast.Selection | ast.MapOf | ast.Padded,
    state: State,
    frame: Frame,
) -> RuntimeValue:
    match expression:
        case ast.ListOf():
            state.work.items_of(len(expression.items), frame, expression)
            items = tuple(evaluate(i, state, frame) for i in expression.items)
            return lifted_list(items) if has_formula(items) else _without_aliases(items, state)
        case ast.Range():
            ends = [evaluate(e, state, frame) for e in (expression.lower, expression.upper)]
            if has_formula(ends):
                return lifted_call("..", *ends)
            lower, upper = (as_dim_value(e) for e in ends)
            if not isinstance(lower, int) or not isinstance(upper, int):
                found = ", ".join(map(arithmetic.size_text, ends))
                raise frame.error("the ends of a range are known now", expression, required="int", found=found)
            state.work.items_of(max(0, upper - lower + 1), frame, expression)
            return tuple(range(lower, upper + 1))
        case ast.Conditional():
            asked = evaluate(expression.condition, state, frame)
            if isinstance(asked, Formula):
                return lifted_choice(asked, *(evaluate(e, state, frame) for e in (expression.then, expression.orelse)))
            chosen = _decided(asked, expression.condition, "`if`", frame)
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
        value = frame.names[name]
        if value is UNKNOWN:
            raise UnforeseenError(name)
        return value
    if name == "target":
        return frame.target or state.target
    if name == "threads":
        return state.threads
    if name in SCALARS:
        return SCALARS[name]
    if frame.candidate is not None:
        if name == "it":
            return frame.candidate
        asked = frame.candidate
        return _asked(asked, state, lambda: navigation.attribute(asked, name, state, frame, expression))
    raise frame.error(
        f"`{name}` is not bound", expression, required="a name in scope", fix=did_you_mean(name, frame.names)
    )


def _operator(expression: ast.Unary | ast.Binary, state: State, frame: Frame) -> RuntimeValue:
    if isinstance(expression, ast.Unary):
        operand = evaluate(expression.operand, state, frame)
        if isinstance(operand, Formula):
            return lifted_call("not" if expression.operator == "not" else "negate", operand)
        if expression.operator == "not":
            return opposite(_as_condition(operand, expression.operand, frame))
        return arithmetic.negate(operand, frame, expression)
    chain = ast.left_chain(expression)
    value = evaluate(chain[0].lhs, state, frame)
    for link in chain:
        value = _applied(link, value, state, frame)
    return value


def _applied(expression: ast.Binary, left: RuntimeValue, state: State, frame: Frame) -> RuntimeValue:
    """`left OPERATOR rhs`."""
    operator = expression.operator
    if operator in ("and", "or"):
        return _connected(expression, left, state, frame)
    right = evaluate(expression.rhs, state, frame)
    if isinstance(left, Formula) or isinstance(right, Formula):
        return lifted_call(operator, left, right)
    if isinstance(left, OpHandle) and state.foresight is not None and state.foresight.is_reshaped:
        state.foresight.require_unchanged()  # steps may merge operations
    if operator in ("+", "-", "*", "/", "%", "**"):
        return arithmetic.arithmetic(operator, left, right, state.handles, frame, expression)
    return arithmetic.compare(operator, left, right, state.handles, frame, expression)


def _connected(expression: ast.Binary, left: RuntimeValue, state: State, frame: Frame) -> RuntimeValue:
    """`and` and `or`: the right side is looked at where the left one does not decide alone."""
    is_or = expression.operator == "or"
    if not isinstance(left, Formula) and _as_condition(left, expression.lhs, frame) is is_or:
        return left
    right = evaluate(expression.rhs, state, frame)
    if isinstance(left, Formula) or isinstance(right, Formula):
        return lifted_choice(left, True, right) if is_or else lifted_choice(left, right, False)
    lhs, rhs = _as_condition(left, expression.lhs, frame), _as_condition(right, expression.rhs, frame)
    return disjunction(lhs, rhs) if is_or else conjunction(lhs, rhs)


def _call(expression: ast.Call, state: State, frame: Frame) -> RuntimeValue:
    function = expression.function
    if isinstance(function, ast.Name) or is_import(function, frame.unit):
        callee = find_callee(function, frame.unit)
        if isinstance(callee, FunctionCallee):
            return _apply(callee, expression, state, frame)
        if isinstance(callee, Function):
            if callee.name == "exists" and _is_missing(expression.arguments[0].value, state, frame):
                return False
            try:
                args = tuple(evaluate(a.value, state, frame) for a in expression.arguments)
            except MissingError:
                if callee.name != "exists":
                    raise
                return False
            if state.foresight is not None:
                if has_formula(args):
                    return lifted_call(callee.name, *args)
                return call_function(callee.name, args, state, frame, expression)
            return state.pure_values.value(
                callee, (frame.target, *args), lambda: call_function(callee.name, args, state, frame, expression)
            )
    if not isinstance(function, ast.Attribute):
        raise frame.error("this is a step, not a value", function, required="a function")
    base = evaluate(function.base, state, frame)
    argument = expression.arguments[0].value
    if isinstance(base, Target):
        return has_feature(base, _text(argument, state, frame), argument, frame)
    if not isinstance(base, OpHandle):
        raise frame.error(f"{kind_of(base)} has no `{function.name}(...)`", function, required="a handle")
    return _method(METHODS[function.name], base, argument, state, frame, expression)


def _is_missing(argument: ast.Expression, state: State, frame: Frame) -> bool:
    """Whether an argument of `exists` is a part of an operation that it does not have: to ask for it is no error."""
    if not isinstance(argument, ast.Attribute):
        return False
    base = evaluate(argument.base, state, frame)
    return isinstance(base, OpHandle) and not navigation.exists(base, argument.name, state)


def _method(
    method: Method, base: OpHandle, argument: ast.Expression, state: State, frame: Frame, node: ast.Expression
) -> RuntimeValue:
    if method.takes == "class":
        ops = state.handles.resolve(base, node.location)
        pattern = ast.Pattern(print_expression(argument), "", location=argument.location)
        outcomes = (pattern_outcome(pattern, None, op, state, frame, base.inside) for op in ops)
        return not any(isinstance(outcome, Miss) for outcome in outcomes)
    text = dim_name(argument, base, state, frame) if method.takes == "dim" else _text(argument, state, frame)
    return _asked(base, state, lambda: methods.METHODS[method.name](base, text, state, frame, node))


def _asked(base: RuntimeValue, state: State, answer: Callable[[], RuntimeValue]) -> RuntimeValue:
    """What is asked of a handle, and goes wrong, shows where in the payload the operation is that it denotes."""
    try:
        return answer()
    except TcpxError as error:
        of = base.base if isinstance(base, DimHandle | OperandHandle) else base
        ops = state.handles.live(of) if isinstance(of, OpHandle) else []
        raise error.with_places(payload=next((written_at(op) for op in ops), None)) from error


def _text(expression: ast.Expression, state: State, frame: Frame) -> str:
    value = evaluate(expression, state, frame)
    if not isinstance(value, str):
        raise frame.error("a string is needed", expression, required="string", found=describe(value))
    return value


def dim_name(expression: ast.Expression, of: OpHandle | None, state: State, frame: Frame) -> str:
    """A place declared `dim`: a bare name is the dim, never a variable, unless it is bound to a dim; else `x.m`. A dim
    that belongs to an operation must be one of `of`, if that is given."""
    if isinstance(expression, ast.Name):
        value = frame.names.get(expression.name)
        if value is UNKNOWN:
            raise UnforeseenError(expression.name)
        role = role_of(of, expression.name) if not isinstance(value, DimHandle) else None
        if role is not None and of is not None:
            value = role_value(role, of, state, frame, expression)
        if not isinstance(value, DimHandle):
            ops = state.handles.live(of) if of is not None else []
            return next((dim_called(op, expression.name) for op in ops if isinstance(op, Tileable)), expression.name)
    else:
        value = evaluate(expression, state, frame)
    if not isinstance(value, DimHandle):
        named = value if isinstance(value, str) and value.isidentifier() else ""
        fix = f"write `{named}`" if named else None
        raise frame.error("a dim is needed", expression, required="a dim such as `k`", found=describe(value), fix=fix)
    return own_dim(value, of, state, frame, expression) if of is not None else value.dim


def _selection(expression: ast.Selection, state: State, frame: Frame) -> RuntimeValue:
    base, scope = evaluate(expression.base, state, frame), evaluate(expression.scope, state, frame)
    if not isinstance(base, OpHandle) or not isinstance(scope, OpHandle):
        found = f"{kind_of(base)} in {kind_of(scope)}"
        raise frame.error(
            "`in` selects the copies of an op inside another", expression, required="handles on both sides", found=found
        )
    return navigation.selected(base, scope, state, frame, expression)


def candidates_of(expression: ast.Match, state: State, frame: Frame) -> Candidates:
    """Where a match looks, and what it asks."""
    scope = evaluate(expression.scope, state, frame)
    roots = scope if isinstance(scope, tuple) else (scope,)
    ops: list[Operation] = []
    for root in roots:
        if not isinstance(root, OpHandle):
            raise frame.error(
                "matching goes through a function, a loop or an op", expression.scope, required="func, loop or op"
            )
        ops += state.handles.resolve(root, expression.scope.location)
    pattern, matcher = expression.pattern, find_matcher(expression.pattern, frame.unit)
    inside = _narrowed_to(roots, ops)
    root_classes = [wanted.name for wanted in matcher.matcher.params[0].type.arguments] if matcher is not None else []
    return Candidates(
        tuple(ops),
        lambda op: pattern_outcome(pattern, expression.where, op, state, frame, inside),
        lambda op: matcher is not None or fits(pattern, op),
        pattern.glob,
        pattern.op_class if matcher is None else next(iter(root_classes), ""),
        inside,
    )


def _narrowed_to(roots: Sequence[RuntimeValue], ops: Sequence[Operation]) -> tuple[OpHandle, ...]:
    """What a match in these narrows its handles to: a call, or what the only scope is narrowed to itself. In a loop, a
    group or a function it finds all copies, and so it does in several scopes."""
    match roots:
        case (OpHandle() as scope,):
            return (scope,) if all(Calling(op).callee is not None for op in ops) else scope.inside
        case _:
            return ()


def pattern_outcome(
    pattern: ast.Pattern,
    where: ast.Expression | None,
    op: Operation,
    state: State,
    frame: Frame,
    inside: tuple[OpHandle, ...] = (),
) -> Outcome:
    """The parts a pattern gives for an operation that matches it and satisfies the `where`, else why it does not.

    What it asks about the operation, it asks about its copies `inside` these scopes."""
    if pattern.equations:
        return written_outcome(
            pattern,
            op,
            state,
            frame,
            lambda shape, made: _class_outcome(shape, made, state, frame),
            lambda root, named: where_miss(where, root, state, frame, named, inside),
            inside,
        )
    matcher = find_matcher(pattern, frame.unit)
    parts: Outcome = ()
    root = state.handles.of(op, inside=inside)
    if matcher is not None:
        parts = name_miss(op, pattern) or matcher_outcome(matcher, pattern, root, op, state, frame, evaluate)
    else:
        parts = pattern_miss(pattern, op) or ()
    if isinstance(parts, Miss):
        return parts
    return where_miss(where, op, state, frame, inside=inside) or parts


def _class_outcome(shape: ast.Shape, op: Operation, state: State, frame: Frame) -> Miss | None:
    """Why an operation is none that a part of a pattern asks for by class or matcher; None if it is one."""
    outcome = pattern_outcome(ast.Pattern(shape.op_class, "", location=shape.location), None, op, state, frame)
    return outcome if isinstance(outcome, Miss) else None


def where_miss(
    where: ast.Expression | None,
    op: Operation,
    state: State,
    frame: Frame,
    named: Mapping[str, RuntimeValue] = MappingProxyType({}),
    inside: tuple[OpHandle, ...] = (),
) -> Miss | None:
    """Why an operation does not satisfy a `where`, in which a pattern names its parts; None if it does."""
    if where is None:
        return None
    inner = frame.block()
    inner.names.update(named)
    inner.candidate = state.handles.of(op, inside=inside)
    try:
        holds = truth(where, "`where`", state, inner)
    except TcpxError as error:
        if not state.recovers_from(error):
            raise
        unknown = error if isinstance(error, navigation.UnknownNameError) else None
        return Miss(op, WHERE_RANK, error.diagnostic.message, unknown)
    text = where.location.text[where.location.column - 1 : where.location.end_column - 1]
    return None if holds else Miss(op, WHERE_RANK, f"not `{text}`")
