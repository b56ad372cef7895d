"""Checking expressions: every name is known, operators and functions get what they take."""

from dataclasses import replace

from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.plurals import counted
from tcpx.suggestions import did_you_mean
from tcpx.transform.declaration import known_transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import (
    FunctionCallee,
    SequenceCallee,
    declared_arguments,
    find_callee,
    function_arguments,
    is_import,
)
from tcpx.transform.language.builtins import (
    CANDIDATE,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    NAVIGATION,
    TARGET_ATTRIBUTES,
    Function,
    Method,
)
from tcpx.transform.language.checker.conversions import conversion
from tcpx.transform.language.checker.equations import bind_names
from tcpx.transform.language.checker.names import check_candidate, check_name, note_callee, note_dim
from tcpx.transform.language.checker.operators import check_binary, expect_bool, expect_number
from tcpx.transform.language.checker.patterns import candidate_class, check_pattern, check_type, matched_type, parts_of
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.kinds import HANDLES, Static, declared_accepts
from tcpx.transform.language.other_systems import of_method
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.language.views import RoleOf, ViewOf

_HAS = Method("has", "string", Static.BOOL, "whether the target has a feature")


def check_arguments(callee: SequenceCallee | FunctionCallee, call: ast.Call, scope: Scope) -> None:
    """Check number, names and types of the arguments of a sequence or of a function of a schedule."""
    declared = callee.sequence if isinstance(callee, SequenceCallee) else callee.function
    scope.calls.append((declared, call.location))
    bound = declared_arguments(declared, call)
    inner = Scope(callee.unit, Problems())
    for param in declared.params:
        if param.name not in bound:
            continue
        static = check_type(param.type, inner)
        value = bound[param.name].value
        _check_items(param, value, declared, scope)
        if static is Static.DIM and isinstance(value, ast.Name):
            note_dim(value, scope)
            continue
        given = check_expression(value, scope)
        if not declared_accepts(static, given):
            scope.problems.add(
                f"`{param.name}` of `{declared.name}` has the wrong type",
                value.location,
                required=str(param.type),
                given=given.value,
                fix=conversion(given, static, value),
            )


def _check_items(param: ast.Param, value: ast.Expression, declared: ast.Sequence | ast.Function, scope: Scope) -> None:
    """Check the items of a list that is written out against the type that the parameter declares for them."""
    if param.type.name != "list" or not param.type.arguments or not isinstance(value, ast.ListOf):
        return
    silent = replace(scope, problems=Problems())
    static = check_type(param.type.arguments[0], silent)
    for item in value.items:
        given = check_expression(item, silent)
        if static is not Static.DIM and not declared_accepts(static, given):
            scope.problems.add(
                f"an item of `{param.name}` of `{declared.name}` has the wrong type",
                item.location,
                required=str(param.type),
                given=given.value,
            )


def check_condition(condition: ast.Expression, scope: Scope) -> None:
    expect_bool(check_expression(condition, scope), condition, scope)


def check_expression(expression: ast.Expression, scope: Scope) -> Static:
    """Check an expression and give its static type; what is wrong is added to the problems, its type is ANY."""
    match expression:
        case ast.Literal():
            return _literal(expression)
        case ast.Name():
            return check_name(expression, scope)
        case ast.Unary() | ast.Binary():
            return _operator(expression, scope)
        case ast.Attribute():
            return _attribute(expression, scope)
        case ast.Call():
            return _call(expression, scope)
        case ast.Match():
            return _match(expression, scope)
        case _:
            return _composed(expression, scope)


def _composed(
    expression: ast.ListOf | ast.Range | ast.Conditional | ast.Selection | ast.MapOf | ast.Padded, scope: Scope
) -> Static:
    match expression:
        case ast.ListOf():
            for item in expression.items:
                check_expression(item, scope)
            return Static.LIST
        case ast.Range():
            for end in (expression.lower, expression.upper):
                expect_number(check_expression(end, scope), end, scope)
            return Static.LIST
        case ast.Conditional():
            check_condition(expression.condition, scope)
            then, orelse = check_expression(expression.then, scope), check_expression(expression.orelse, scope)
            return then if then is orelse else Static.ANY
        case ast.Selection():
            check_expression(expression.scope, scope)
            return check_expression(expression.base, scope)
        case ast.MapOf() | ast.Padded():
            what = "a map" if isinstance(expression, ast.MapOf) else "`pad`"
            scope.problems.add(
                f"{what} has no meaning here", expression.location, required="an argument declared to take it"
            )
            return Static.ANY


def _literal(expression: ast.Literal) -> Static:
    if isinstance(expression.value, bool):
        return Static.BOOL
    kinds = {int: Static.INT, float: Static.FLOAT, str: Static.STRING}
    return kinds[type(expression.value)]


def _operator(expression: ast.Unary | ast.Binary, scope: Scope) -> Static:
    if isinstance(expression, ast.Unary):
        given = check_expression(expression.operand, scope)
        if expression.operator == "not":
            expect_bool(given, expression.operand, scope)
            return Static.BOOL
        return expect_number(given, expression.operand, scope)
    chain = ast.left_chain(expression)
    given = check_expression(chain[0].lhs, scope)
    for link in chain:
        given = check_binary(link, given, check_expression(link.rhs, scope), scope)
    return given


def _not_a_value(expression: ast.Attribute, alias: str, scope: Scope) -> None:
    """Of an import, that has no values."""
    scope.note_import(alias)
    imported, name = scope.unit.imports[alias], f"{alias}.{expression.name}"
    what = imported.declared(expression.name)
    if what:
        is_called = what in ("a sequence", "a function")
        fix = Direction(f"call it: `{name}(...)`") if is_called else None
        scope.problems.add(f"`{name}` is {what}", expression.location, required="a value", fix=fix)
    else:
        fix = did_you_mean(expression.name, (*imported.sequences, *imported.functions))
        scope.problems.add(
            f"`{alias}` has no `{expression.name}`",
            expression.location,
            required=f"a name of {imported.file.path}",
            fix=fix,
        )


def _attribute(expression: ast.Attribute, scope: Scope) -> Static:
    if isinstance(expression.base, ast.Name) and expression.base.name in scope.unit.imports:
        _not_a_value(expression, expression.base.name, scope)
        return Static.ANY
    base = check_expression(expression.base, scope)
    role = _role(expression, scope)
    if role is not None:
        scope.calls.append((role.function, expression.location))
        return _role_type(role)
    if base is Static.TARGET:
        if expression.name not in TARGET_ATTRIBUTES:
            scope.problems.add(
                f"the target has no `{expression.name}`",
                expression.location,
                required=", ".join(TARGET_ATTRIBUTES),
                fix=did_you_mean(expression.name, TARGET_ATTRIBUTES),
            )
        return TARGET_ATTRIBUTES.get(expression.name, Static.ANY)
    if base not in HANDLES and base not in (Static.ANY, Static.VALUE):
        scope.problems.add(
            f"{base.value} has no `{expression.name}`",
            expression.location,
            required="an op, a loop or a function before the `.`",
            given=base.value,
        )
        return Static.ANY
    if scope.in_where and isinstance(expression.base, ast.Name) and expression.base.name == "it":
        check_candidate(expression.name, expression, scope)
    return NAVIGATION.get(expression.name, Static.ANY)


def _role(expression: ast.Attribute, scope: Scope) -> RoleOf | None:
    """The role of a view that is asked for, where what is before the `.` is declared as one."""
    view = _view_of(expression.base, scope)
    return view.role(expression.name) if view is not None else None


def _view_of(expression: ast.Expression, scope: Scope) -> ViewOf | None:
    """The view of a name, of its copies on a side and of those in a place."""
    match expression:
        case ast.Name(name=name):
            binding = scope.lookup(name)
            return binding.view if binding is not None else None
        case ast.Call(function=ast.Attribute(base=base, name="copy")) | ast.Selection(base=base):
            return _view_of(base, scope)
        case _:
            return None


def _role_type(role: RoleOf) -> Static:
    """The static type of a role, found once."""
    unit, function = role.view.unit, role.function
    if id(function) not in unit.role_types:
        unit.role_types[id(function)] = Static.ANY  # while it is being found
        scope = Scope(unit, Problems())
        for param in function.params:
            scope.bind(param.name, Static.OP, param.location, view=role.view)
        unit.role_types[id(function)] = check_expression(function.value, scope)
    return unit.role_types[id(function)]


def _call(expression: ast.Call, scope: Scope) -> Static:
    function = expression.function
    if isinstance(function, ast.Attribute) and not is_import(function, scope.unit):
        return _method(function, expression, scope)
    note_callee(function, scope)
    try:
        callee = find_callee(function, scope.unit)
        if isinstance(callee, FunctionCallee):
            check_arguments(callee, expression, scope)
            return check_type(callee.function.result, Scope(callee.unit, Problems()))
        if isinstance(callee, Function):
            for argument in function_arguments(callee, expression):
                check_expression(argument, scope)
            return callee.result
    except ScheduleError as error:
        scope.problems.found.append(error.diagnostic)
        note_uses(expression, scope)
        return Static.ANY
    scope.problems.add(
        "a transform or sequence is a step of its own",
        expression.location,
        required="a statement, or `let name = ...`",
        given="a call inside an expression",
    )
    return Static.ANY


def note_uses(call: ast.Call, scope: Scope) -> None:
    """Count the names in the arguments of a call that is wrong as used, and say no more about it."""
    for argument in call.arguments:
        check_expression(argument.value, replace(scope, problems=Problems()))


def _method(function: ast.Attribute, call: ast.Call, scope: Scope) -> Static:
    base = check_expression(function.base, scope)
    methods = {"has": _HAS} if base is Static.TARGET else METHODS
    method = methods.get(function.name)
    for argument in call.arguments:
        _check_method_argument(method, argument.value, scope)
    if method is None:
        scope.problems.add(
            f"there is no `{function.name}(...)` to ask {'the target' if base is Static.TARGET else 'a handle'}",
            function.location,
            required=", ".join(f"{m}(...)" for m in methods),
            fix=did_you_mean(function.name, methods) or _as_call(function, call, scope) or of_method(function.name),
        )
    elif len(call.arguments) != 1:
        scope.problems.add(
            f"`{function.name}` takes one argument",
            call.location,
            required="one argument",
            given=counted(len(call.arguments), "argument"),
        )
    if function.name == "copy":
        return base
    return method.result if method is not None else Static.ANY


def _as_call(function: ast.Attribute, call: ast.Call, scope: Scope) -> str | None:
    """`x.tile(..)` was meant as `tile(x, ..)`, and `x.size(m)` as `size(x.m)`: text to write, if it checks."""
    from tcpx.transform.language.checker.calls import result_types  # checks expressions: late to break the cycle

    name, base, given = function.name, function.base, call.arguments
    if name in FUNCTIONS and len(given) == 1 and isinstance(given[0].value, ast.Name):
        base, given = ast.Attribute(base, given[0].value.name, location=given[0].location), ()
    elif name not in FUNCTIONS and name not in scope.unit.sequences and known_transform(name) is None:
        return None
    first = ast.Argument("", base, location=base.location)
    written = replace(call, function=ast.Name(name, location=function.location), arguments=(first, *given))
    tried = replace(scope, problems=Problems())
    if result_types(written, tried) is None:
        check_expression(written, tried)
    if not tried.problems.found:
        return f"write `{print_expression(written)}`"
    return of_method(name) or Direction(f"`{name}` is a step: write `{name}({print_expression(function.base)}, ...)`")


def _check_method_argument(method: Method | None, value: ast.Expression, scope: Scope) -> None:
    if method is None:
        check_expression(value, replace(scope, problems=Problems()))
        return
    takes = method.takes
    if takes == "class":
        check_pattern(ast.Pattern(print_expression(value), "", location=value.location), scope)
        return
    if takes == "dim" and isinstance(value, ast.Name):
        note_dim(value, scope)
        return
    if (
        takes == "string"
        and isinstance(value, ast.Name)
        and value.name not in (*scope.visible(), *CONSTANTS, *CANDIDATE)
    ):
        scope.problems.add(
            f"`{method.name}` takes a string", value.location, required="string", fix=f'write `"{value.name}"`'
        )
        return
    given = check_expression(value, scope)
    wanted = Static.STRING if takes == "string" else Static.DIM
    if given not in (wanted, Static.ANY):
        scope.problems.add(
            f"`{method.name}` takes a {wanted.value}",
            value.location,
            required=wanted.value,
            given=given.value,
        )


def _match(expression: ast.Match, scope: Scope) -> Static:
    matcher = check_pattern(expression.pattern, scope)
    given = check_expression(expression.scope, scope)
    if given not in HANDLES and given not in (Static.ANY, Static.LIST):
        scope.problems.add(
            "matching goes through a function, a loop or an op",
            expression.scope.location,
            required="func, loop or op",
            given=given.value,
        )
    if expression.where is not None:
        asked = scope.inner(in_where=True, candidate=candidate_class(expression.pattern, scope))
        bind_names(expression.pattern, asked)
        check_condition(expression.where, asked)
    if expression.cardinality != "one" or (matcher is not None and matcher.results) or parts_of(expression, scope):
        return Static.LIST
    return matched_type(expression, scope)
