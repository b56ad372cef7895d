"""Checking statements: binding, arity, conditions, knobs that nothing reads."""

from __future__ import annotations

from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.calls import check_call_statement, result_types
from tcpx.transform.language.checker.expressions import check_condition, check_expression, check_pattern, check_type
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.kinds import HANDLES, Static, declared_accepts

Results = tuple[Static, ...]


def check_block(block: ast.Block, scope: Scope, results: Results) -> bool:
    """Check statements in a scope of their own; whether every path ends in `return`."""
    returned = False
    for statement in block.statements:
        if returned:
            scope.problems.add("this statement is never reached", statement.location, given="`return` before it")
            break
        returned = _check(statement, scope, results)
    for binding in scope.names.values():
        if binding.is_knob and not binding.used:
            scope.problems.add(
                f"nothing reads the knob `{binding.name}`",
                binding.location,
                required="a knob that changes something",
                fix="use it, or remove it",
            )
    return returned


def _check(statement: ast.Statement, scope: Scope, results: Results) -> bool:
    match statement:
        case ast.Let():
            _check_let(statement, scope)
        case ast.Knob():
            _check_knob(statement, scope)
        case ast.Require():
            check_condition(statement.condition, scope)
        case ast.Do():
            check_call_statement(statement, scope)
        case ast.Return():
            _check_return(statement, scope, results)
            return True
        case ast.ForEach():
            _check_for(statement, scope, results)
        case ast.If():
            return _check_if(statement, scope, results)
        case ast.Case():
            return _check_case(statement, scope, results)
        case ast.Try():
            ends = [check_block(b, scope.inner(), results) for b in statement.alternatives]
            return all(ends)
        case ast.Tune():
            ends = [check_block(b, scope.inner(), results) for b in statement.alternatives]
            return all(ends)
        case ast.Specialize():
            _check_specialize(statement, scope)
    return False


def _check_let(statement: ast.Let, scope: Scope) -> None:
    types = result_types(statement.value, scope)
    if types is None:
        types = (check_expression(statement.value, scope),)
    if len(types) != len(statement.names):
        scope.problems.add(
            f"{len(statement.names)} names for {len(types)} results" if types else "this returns nothing to name",
            statement.location,
            required=_count(len(types), "name"),
            given=", ".join(statement.names),
        )
        types = (Static.ANY,) * len(statement.names)
    for name, static in zip(statement.names, types, strict=True):
        scope.bind(name, static, statement.location)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_knob(statement: ast.Knob, scope: Scope) -> None:
    static = check_type(statement.type, scope)
    given = check_expression(statement.default, scope)
    if not declared_accepts(static, given):
        scope.problems.add(
            f"the default of the knob `{statement.name}` has the wrong type",
            statement.default.location,
            required=str(statement.type),
            given=given.value,
        )
    if statement.domain is not None:
        domain = check_expression(statement.domain, scope)
        if domain not in (Static.LIST, Static.ANY):
            scope.problems.add(
                f"the domain of the knob `{statement.name}` is no list",
                statement.domain.location,
                required="a range `1..6`, a list, or a function such as `pow2`",
                given=domain.value,
            )
    scope.bind(statement.name, static, statement.location, is_knob=True)


def _check_return(statement: ast.Return, scope: Scope, results: Results) -> None:
    given = [check_expression(v, scope) for v in statement.values]
    if len(given) != len(results):
        scope.problems.add(
            "`return` and the declared results differ in number",
            statement.location,
            required=_count(len(results), "value"),
            given=_count(len(given), "value"),
        )
        return
    for value, static, declared in zip(statement.values, given, results, strict=True):
        if not declared_accepts(declared, static):
            scope.problems.add(
                "the returned value has the wrong type", value.location, required=declared.value, given=static.value
            )


def _check_for(statement: ast.ForEach, scope: Scope, results: Results) -> None:
    items = check_expression(statement.items, scope)
    element = Static.ANY
    if isinstance(statement.items, ast.Match):
        element = Static.OP
    elif isinstance(statement.items, ast.Range):
        element = Static.INT
    elif items in HANDLES:
        element = items
    elif items not in (Static.LIST, Static.ANY):
        scope.problems.add(
            "`for` goes through a list, a handle or a range",
            statement.items.location,
            required="list, op, loop or `a..b`",
            given=items.value,
        )
    inner = scope.inner()
    inner.bind(statement.variable, element, statement.location)
    check_block(statement.body, inner, results)


def _check_if(statement: ast.If, scope: Scope, results: Results) -> bool:
    ends: list[bool] = []
    for branch in statement.branches:
        check_condition(branch.condition, scope)
        ends.append(check_block(branch.body, scope.inner(), results))
    ends.append(statement.orelse is not None and check_block(statement.orelse, scope.inner(), results))
    return all(ends)


def _check_case(statement: ast.Case, scope: Scope, results: Results) -> bool:
    check_expression(statement.subject, scope)
    ends: list[bool] = []
    for arm in statement.arms:
        check_pattern(arm.pattern, scope)
        if arm.where is not None:
            check_condition(arm.where, scope.inner(in_where=True))
        ends.append(check_block(arm.body, scope.inner(), results))
    if isinstance(statement.orelse, ast.Block):
        ends.append(check_block(statement.orelse, scope.inner(), results))
    else:
        ends.append(statement.orelse is not None)
    return all(ends)


def _check_specialize(statement: ast.Specialize, scope: Scope) -> None:
    check_expression(statement.target, scope)
    blocks = [branch.body for branch in statement.branches]
    for branch in statement.branches:
        check_condition(branch.condition, scope)
    if isinstance(statement.orelse, ast.Block):
        blocks.append(statement.orelse)
    for block in blocks:
        for inner in block.statements:
            if isinstance(inner, ast.Return):
                scope.problems.add(
                    "`return` cannot stand in a branch of `specialize`",
                    inner.location,
                    required="statements for both versions",
                    given="handles of a branch end with it",
                )
        check_block(block, scope.inner(), ())
