"""Checking statements: binding, arity, conditions, knobs that nothing reads."""

from collections.abc import Iterator
from dataclasses import replace

from tcpx.payload.diagnostics import Direction
from tcpx.plurals import counted
from tcpx.suggestions import did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.calls import check_call_statement, result_types
from tcpx.transform.language.checker.conversions import conversion
from tcpx.transform.language.checker.equations import bind_names
from tcpx.transform.language.checker.expressions import check_condition, check_expression
from tcpx.transform.language.checker.operators import expect_number
from tcpx.transform.language.checker.patterns import candidate_class, check_pattern, check_type, matched_type, parts_of
from tcpx.transform.language.checker.reachability import check_alternatives, check_arms, check_conditions
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.kinds import HANDLES, PARAMETERS, Static, declared_accepts
from tcpx.transform.language.printer import print_statement

Results = tuple[Static, ...]


def check_block(block: ast.Block, scope: Scope, results: Results) -> bool:
    """Check statements in a scope of their own; whether every path ends in `return`."""
    returned = False
    for statement in block.statements:
        if returned:
            scope.problems.add(
                "this statement is never reached", statement.location, "a path to it", "`return` before it"
            )
            break
        returned = check_statement(statement, scope, results)
    scope.report_unused()
    return returned


def check_statement(statement: ast.Statement, scope: Scope, results: Results) -> bool:
    """Check one statement; whether every path through it ends in `return`."""
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
            return _check_try(statement, scope, results)
        case ast.Tune():
            return _check_tune(statement, scope, results)
        case ast.Specialize() | ast.Versions():
            _check_specialize(statement, scope, results)
    return False


_MAY_BE_NOTHING = frozenset((*HANDLES, Static.ANY))


def _check_let(statement: ast.Let, scope: Scope) -> None:
    before = len(scope.problems.found)
    types = result_types(statement.value, scope, statement.optional)
    is_value = types is None and len(statement.names) == 1
    if statement.optional and (types is None or not _MAY_BE_NOTHING.issuperset(types)):
        scope.problems.add(
            "what is `optional` gives no handles" if types is not None else "what is `optional` is no step",
            statement.value.location,
            required="the call of a transform, or of a sequence, that returns operations or loops",
            given=", ".join(t.value for t in types) if types is not None else None,
        )
    if types is None:
        given = check_expression(statement.value, scope)
        parts = parts_of(statement.value, scope) if len(statement.names) > 1 else None
        is_one = isinstance(statement.value, ast.Match) and statement.value.cardinality == "one"
        types = parts if parts is not None and is_one else (given,)
    is_right = len(scope.problems.found) == before
    if is_right and len(types) != len(statement.names):
        names = counted(len(statement.names), "name")
        scope.problems.add(
            f"{names} for {counted(len(types), 'result')}" if types else "this returns nothing to name",
            statement.location,
            required=counted(len(types), "name"),
            given=f"{names}: {', '.join(statement.names)}",
            fix=_with_names(statement, len(types)),
        )
    if len(types) != len(statement.names):
        types = (Static.ANY,) * len(statement.names)
    for name, static in zip(statement.names, types, strict=True):
        scope.bind(name, static, statement.location, is_value=is_value)


def _with_names(statement: ast.Let, count: int) -> str | None:
    """The statement with as many names as there are results, `_` for those that have none."""
    names = [*statement.names[:count], *("_" for _ in range(count - len(statement.names)))]
    if not names:
        return f"leave `let {', '.join(statement.names)} =` out"
    return f"write `{print_statement(replace(statement, names=tuple(names)))}`"


def _check_knob(statement: ast.Knob, scope: Scope) -> None:
    static = check_type(statement.type, scope)
    given = check_expression(statement.default, scope)
    if static not in PARAMETERS and static is not Static.ANY:
        scope.problems.add(
            f"the knob `{statement.name}` is no parameter",
            statement.type.location,
            required=", ".join(sorted(p.value for p in PARAMETERS)),
            given=str(statement.type),
            fix=Direction("bind a handle or a list with `let`"),
        )
    elif not declared_accepts(static, given):
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
    if statement.limit is not None:
        limit = check_expression(statement.limit, scope)
        if limit not in (Static.INT, Static.SIZE, Static.ANY):
            scope.problems.add(
                f"the limit of the knob `{statement.name}` is no size",
                statement.limit.location,
                required="an int or a size, such as `size(mm.k)`",
                given=limit.value,
            )
    scope.bind(statement.name, static, statement.location, is_knob=True)


def _range_to(count: ast.Expression) -> str | None:
    """`for i in 4` was meant as `for i in 0..3`."""
    number = count.value if isinstance(count, ast.Literal) else None
    return f"write `0..{number - 1}`" if isinstance(number, int) and number > 0 else None


def _check_return(statement: ast.Return, scope: Scope, results: Results) -> None:
    given = [check_expression(v, scope) for v in statement.values]
    if len(given) != len(results):
        scope.problems.add(
            "`return` and the declared results differ in number",
            statement.location,
            required=counted(len(results), "value"),
            given=counted(len(given), "value"),
            fix="leave this statement out: a schedule returns nothing" if not results else None,
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
    parts = parts_of(statement.items, scope)
    if parts is not None and len(statement.variables) > 1:
        _bind_parts(statement, parts, scope, results)
        return
    if len(statement.variables) > 1:
        scope.problems.add(
            "the items of this `for` have no parts",
            statement.items.location,
            required="one variable, or a match of a matcher that returns something",
            given=", ".join(statement.variables),
        )
    if parts is not None:
        element = Static.LIST
    elif isinstance(statement.items, ast.Match):
        element = matched_type(statement.items, scope)
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
            fix=_range_to(statement.items),
        )
    inner = scope.inner()
    for name in statement.variables:
        inner.bind(name, element, statement.location)
    check_block(statement.body, inner, results)


def _bind_parts(statement: ast.ForEach, parts: tuple[Static, ...], scope: Scope, results: Results) -> None:
    """`for r, mm in match some relu_of in root`: one variable for the op and one for each part."""
    if len(parts) != len(statement.variables):
        scope.problems.add(
            "variables and parts of an item differ in number",
            statement.location,
            required=counted(len(parts), "name"),
            given=", ".join(statement.variables),
        )
    inner = scope.inner()
    for k, name in enumerate(statement.variables):
        inner.bind(name, parts[k] if k < len(parts) else Static.ANY, statement.location)
    check_block(statement.body, inner, results)


def _check_if(statement: ast.If, scope: Scope, results: Results) -> bool:
    ends: list[bool] = []
    check_conditions(statement.branches, scope)
    for branch in statement.branches:
        check_condition(branch.condition, scope)
        ends.append(check_block(branch.body, scope.inner(), results))
    ends.append(statement.orelse is not None and check_block(statement.orelse, scope.inner(), results))
    return all(ends)


def _check_case(statement: ast.Case, scope: Scope, results: Results) -> bool:
    given = check_expression(statement.subject, scope)
    if given not in HANDLES and given is not Static.ANY:
        scope.problems.add(
            "`case` is about an op",
            statement.subject.location,
            required="op",
            given=given.value,
            fix=conversion(given, Static.OP, statement.subject),
        )
    else:
        check_arms(statement, scope)
    ends: list[bool] = []
    for arm in statement.arms:
        check_pattern(arm.pattern, scope)
        if arm.where is not None:
            asked = scope.inner(in_where=True, candidate=candidate_class(arm.pattern, scope))
            bind_names(arm.pattern, asked)
            check_condition(arm.where, asked)
        inner = scope.inner()
        bind_names(arm.pattern, inner)
        ends.append(check_block(arm.body, inner, results))
    if isinstance(statement.orelse, ast.Block):
        ends.append(check_block(statement.orelse, scope.inner(), results))
    else:
        ends.append(statement.orelse is not None)
    return all(ends)


def _check_tune(statement: ast.Tune, scope: Scope, results: Results) -> bool:
    default = statement.default
    given = check_expression(default, scope) if default is not None else Static.STRING
    if default is not None and given not in (Static.STRING, Static.ANY):
        required = "a string, one of its words"
        scope.problems.add("a choice by name has a word as default", default.location, required, given.value)
    if isinstance(default, ast.Literal) and isinstance(default.value, str) and default.value not in statement.words:
        scope.problems.add(
            f"`{statement.name}` has no alternative `{default.value}`",
            default.location,
            required=", ".join(statement.words),
            given=default.value,
            fix=did_you_mean(default.value, statement.words),
        )
    twice = next((w for k, w in enumerate(statement.words) if w in statement.words[:k]), None)
    if twice is not None:
        scope.problems.add(
            f"the alternative `{twice}` stands twice",
            statement.location,
            required="a name of its own for each",
            given=", ".join(statement.words),
        )
    for condition in statement.conditions:
        if condition is not None:
            check_condition(condition, scope)
    ends = [check_block(b, scope.inner(), results) for b in statement.alternatives]
    return all(ends)


def _check_try(statement: ast.Try, scope: Scope, results: Results) -> bool:
    check_alternatives(statement, scope)
    ends = [check_block(b, scope.inner(), results) for b in statement.alternatives]
    if not isinstance(statement.orelse, ast.Remark):
        return all(ends)
    target = statement.orelse.target
    given = check_expression(target, scope)
    if given not in (Static.OP, Static.LOOP, Static.ANY):
        required = "the operation that stays as it is"
        scope.problems.add("a remark is about an operation", target.location, required=required, given=given.value)
    return False


def _check_versions(statement: ast.Versions, scope: Scope, results: Results) -> None:
    """The items are known before there are versions; each version is the same block."""
    given = check_expression(statement.items, scope)
    if given not in (Static.LIST, Static.ANY):
        scope.problems.add(
            "versions are made for the items of a list",
            statement.items.location,
            required="a list such as `[48, 256]`",
            given=given.value,
        )
    inner = scope.inner()
    if statement.variable:
        inner.bind(statement.variable, Static.ANY, statement.location, is_value=True)
        check_condition(statement.condition, inner)
    else:
        expect_number(check_expression(statement.condition, inner), statement.condition, inner)
    _check_versions_of(statement.body, inner, results)
    inner.report_unused()


def _check_target(target: ast.Expression, scope: Scope) -> None:
    given = check_expression(target, scope)
    if given not in (Static.OP, Static.LOOP, Static.LIST, Static.ANY):
        scope.problems.add(
            "versions are made of operations",
            target.location,
            required="op, loop or a list of them",
            given=given.value,
            fix=conversion(given, Static.OP, target),
        )


def _check_versions_of(block: ast.Block, scope: Scope, results: Results) -> None:
    for found in _returns(block):
        scope.problems.add(
            "`return` cannot stand in a branch of `specialize`",
            found.location,
            required="statements for both versions",
            given="handles of a branch end with it",
        )
    check_block(block, scope.inner(), results)


def _check_specialize(statement: ast.Specialize | ast.Versions, scope: Scope, results: Results) -> None:
    _check_target(statement.target, scope)
    if isinstance(statement, ast.Versions):
        _check_versions(statement, scope, results)
        return
    check_conditions(statement.branches, scope)
    blocks = [branch.body for branch in statement.branches]
    for branch in statement.branches:
        check_condition(branch.condition, scope)
    if isinstance(statement.orelse, ast.Block):
        blocks.append(statement.orelse)
    for block in blocks:
        _check_versions_of(block, scope, results)


def _returns(block: ast.Block) -> Iterator[ast.Return]:
    """The `return`s of a branch of `specialize`; those in the branches of another in it are found there."""
    for statement in block.statements:
        if isinstance(statement, ast.Return):
            yield statement
        elif not isinstance(statement, ast.Specialize | ast.Versions):
            for inner in ast.blocks_in(statement):
                yield from _returns(inner)
