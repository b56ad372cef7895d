"""Checking expressions: every name is known, operators and functions get what they take."""

from __future__ import annotations

from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.ir import operation_classes
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import find_callee, function_arguments, is_import
from tcpx.transform.language.builtins import (
    CANDIDATE,
    CONSTANTS,
    FUNCTIONS,
    METHODS,
    NAVIGATION,
    TARGET_ATTRIBUTES,
    Function,
)
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.kinds import HANDLES, TYPE_NAMES, Static
from tcpx.transform.suggestions import did_you_mean

_NUMBERS = frozenset((Static.INT, Static.SIZE, Static.FLOAT, Static.ANY))
_ORDERED = ("<", "<=", ">", ">=")
_CLASSES_BESIDE_THE_TREE = ("loop", "op")


def operation_tree_classes() -> tuple[str, ...]:
    """The names a pattern may use: every class of the operation tree, and the name of every operation."""
    known = operation_classes()
    names = {str(c.__dict__["class_name"]) for op in known.values() for c in op.__mro__ if c.__dict__.get("class_name")}
    names |= {opcode.rpartition(".")[2] for opcode, op in known.items() if not op.is_terminator}
    return tuple(sorted(names.union(_CLASSES_BESIDE_THE_TREE)))


def check_type(type_: ast.TypeOf, scope: Scope) -> Static:
    """The static type that a written type names."""
    static = TYPE_NAMES.get(type_.name)
    if static is None:
        scope.problems.add(
            f"there is no type `{type_.name}`",
            type_.location,
            required=", ".join(TYPE_NAMES),
            fix=did_you_mean(type_.name, TYPE_NAMES),
        )
        return Static.ANY
    if type_.name == "op" and type_.arguments:
        check_class(type_.arguments[0].name, type_.arguments[0], scope)
    elif type_.name == "list" and type_.arguments:
        check_type(type_.arguments[0], scope)
    elif type_.arguments:
        scope.problems.add(f"`{type_.name}` takes no argument", type_.location, required=type_.name, given=str(type_))
    return static


def check_class(name: str, node: ast.Node, scope: Scope) -> None:
    known = operation_tree_classes()
    if name not in known:
        scope.problems.add(
            f"there is no class `{name}` in the operation tree",
            node.location,
            required=", ".join(known),
            fix=did_you_mean(name, known),
        )


def check_pattern(pattern: ast.Pattern, scope: Scope) -> None:
    if pattern.op_class:
        check_class(pattern.op_class, pattern, scope)


def check_condition(condition: ast.Expression, scope: Scope) -> None:
    given = check_expression(condition, scope)
    if given not in (Static.BOOL, Static.ANY):
        scope.problems.add("a condition is true or false", condition.location, required="bool", given=given.value)


def check_expression(expression: ast.Expression, scope: Scope) -> Static:
    """Check an expression and give its static type; what is wrong is added to the problems, its type is ANY."""
    match expression:
        case ast.Literal():
            return _literal(expression)
        case ast.Name():
            return _name(expression, scope)
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
                _expect_number(end, scope)
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


def _name(expression: ast.Name, scope: Scope) -> Static:
    binding = scope.lookup(expression.name)
    if binding is not None:
        binding.used = True
        return binding.static
    if expression.name in CONSTANTS:
        return CONSTANTS[expression.name]
    if scope.in_where and _is_candidate_name(expression.name):
        return NAVIGATION.get(expression.name, Static.ANY)
    known = [*scope.visible(), *CONSTANTS, *(CANDIDATE if scope.in_where else ())]
    fix = did_you_mean(expression.name, known)
    if expression.name in FUNCTIONS:
        fix = f"`{expression.name}` is a function: write `{FUNCTIONS[expression.name].signature}`"
    scope.problems.add(f"`{expression.name}` is not bound", expression.location, required="a name in scope", fix=fix)
    return Static.ANY


def _is_candidate_name(name: str) -> bool:
    """Dims are named by the payload: `m`, `n2`, `oc`, `d0` are as good as any short name."""
    operands = {n for c in operation_classes().values() for n in c.operand_names}
    return name in CANDIDATE or name in operands or len(name) <= 2


def _expect_number(expression: ast.Expression, scope: Scope) -> Static:
    given = check_expression(expression, scope)
    if given not in _NUMBERS:
        scope.problems.add(
            "arithmetic is on numbers", expression.location, required="int, size or float", given=given.value
        )
        return Static.ANY
    return given


def _operator(expression: ast.Unary | ast.Binary, scope: Scope) -> Static:
    operator = expression.operator
    if isinstance(expression, ast.Unary):
        if operator == "not":
            check_condition(expression.operand, scope)
            return Static.BOOL
        return _expect_number(expression.operand, scope)
    if operator in ("and", "or"):
        check_condition(expression.lhs, scope)
        check_condition(expression.rhs, scope)
        return Static.BOOL
    if operator in ("==", "!="):
        _check_comparable(expression, scope)
        return Static.BOOL
    given = {_expect_number(expression.lhs, scope), _expect_number(expression.rhs, scope)}
    if operator in _ORDERED:
        return Static.BOOL
    order = (Static.ANY, Static.FLOAT, Static.SIZE, Static.INT)
    return next(s for s in order if s in given)


def _check_comparable(expression: ast.Binary, scope: Scope) -> None:
    lhs, rhs = check_expression(expression.lhs, scope), check_expression(expression.rhs, scope)
    alike = lhs is rhs or Static.ANY in (lhs, rhs) or {lhs, rhs} <= _NUMBERS or {lhs, rhs} <= HANDLES
    if not alike:
        scope.problems.add(
            "these are never equal",
            expression.location,
            required="two values of one type",
            given=f"{lhs.value} and {rhs.value}",
        )


def _attribute(expression: ast.Attribute, scope: Scope) -> Static:
    if isinstance(expression.base, ast.Name) and expression.base.name in scope.unit.imports:
        scope.problems.add(
            f"`{expression.base.name}.{expression.name}` is a sequence",
            expression.location,
            required="a value",
            fix=f"call it: `{expression.base.name}.{expression.name}(...)`",
        )
        return Static.ANY
    base = check_expression(expression.base, scope)
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
    return NAVIGATION.get(expression.name, Static.ANY)


def _call(expression: ast.Call, scope: Scope) -> Static:
    function = expression.function
    if isinstance(function, ast.Attribute) and not is_import(function, scope.unit):
        return _method(function, expression, scope)
    try:
        callee = find_callee(function, scope.unit)
        if isinstance(callee, Function):
            for argument in function_arguments(callee, expression):
                check_expression(argument, scope)
            return callee.result
    except ScheduleError as error:
        scope.problems.found.append(error.diagnostic)
        return Static.ANY
    scope.problems.add(
        "a transform or sequence is a step of its own",
        expression.location,
        required="a statement, or `let name = ...`",
        given="a call inside an expression",
    )
    return Static.ANY


def _method(function: ast.Attribute, call: ast.Call, scope: Scope) -> Static:
    base = check_expression(function.base, scope)
    is_dim = function.name in ("loop", "loops")
    for argument in call.arguments:
        if not (is_dim and isinstance(argument.value, ast.Name)):
            check_expression(argument.value, scope)
    methods = {"has": Static.BOOL} if base is Static.TARGET else METHODS
    if function.name not in methods:
        scope.problems.add(
            f"there is no `{function.name}(...)` to ask {'the target' if base is Static.TARGET else 'a handle'}",
            function.location,
            required=", ".join(f"{m}(...)" for m in methods),
            fix=did_you_mean(function.name, methods),
        )
    elif len(call.arguments) != 1:
        scope.problems.add(
            f"`{function.name}` takes one argument", call.location, given=f"{len(call.arguments)} arguments"
        )
    if function.name == "copy":
        return base
    return methods.get(function.name, Static.ANY)


def _match(expression: ast.Match, scope: Scope) -> Static:
    check_pattern(expression.pattern, scope)
    given = check_expression(expression.scope, scope)
    if given not in HANDLES and given not in (Static.ANY, Static.LIST):
        scope.problems.add(
            "matching goes through a function, a loop or an op",
            expression.scope.location,
            required="func, loop or op",
            given=given.value,
        )
    if expression.where is not None:
        check_condition(expression.where, scope.inner(in_where=True))
    return Static.LOOP if expression.pattern.op_class == "loop" else Static.OP
