"""Checking types, classes of the operation tree, and patterns."""

import re
from collections.abc import Iterable
from functools import lru_cache

from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.ir import Operation, operation_classes
from tcpx.payload.ops.other_names import advice
from tcpx.suggestions import did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import find_matcher
from tcpx.transform.language.checker.equations import check_names, check_operands, names_of_pattern, shapes_of
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.kinds import TYPE_NAMES, Static
from tcpx.transform.language.views import view_of, without_view

_CLASSES_BESIDE_THE_TREE = ("loop", "op")


def operation_tree_classes() -> tuple[str, ...]:
    """The names a pattern may use: every class of the operation tree, and the name of every operation."""
    return _names_of(tuple(operation_classes().values()))


@lru_cache(maxsize=1)
def _names_of(known: tuple[type[Operation], ...]) -> tuple[str, ...]:
    names = {str(c.__dict__["class_name"]) for op in known for c in op.__mro__ if c.__dict__.get("class_name")}
    names |= {op.opcode.rpartition(".")[2] for op in known if not op.is_terminator}
    return tuple(sorted(names.union(_CLASSES_BESIDE_THE_TREE)))


def check_type(type_: ast.TypeOf, scope: Scope) -> Static:
    """The static type that a written type names; that of a view is `op`."""
    scope.note_import(type_.name.rpartition(".")[0])
    is_view = view_of(type_, scope.unit) is not None
    static = Static.OP if is_view else TYPE_NAMES.get(type_.name)
    if static is None:
        scope.problems.add(
            f"there is no type `{type_.name}`",
            type_.location,
            required=", ".join((*TYPE_NAMES, *scope.unit.views)),
            fix=did_you_mean(type_.name, _types_known(type_, scope)),
        )
        return Static.ANY
    if len(type_.arguments) > 1:
        scope.problems.add(
            f"`{type_.name}` takes one argument", type_.location, required="one argument", given=str(type_)
        )
    elif type_.name == "op" and type_.arguments:
        check_class(type_.arguments[0].name, type_.arguments[0], scope)
    elif type_.name == "list" and type_.arguments:
        check_type(type_.arguments[0], scope)
    elif type_.arguments:
        scope.problems.add(f"`{type_.name}` takes no argument", type_.location, required=type_.name, given=str(type_))
    return static


def _types_known(type_: ast.TypeOf, scope: Scope) -> tuple[str, ...]:
    imported = tuple(f"{alias}.{name}" for alias, unit in scope.unit.imports.items() for name in unit.views)
    return imported if "." in type_.name else (*TYPE_NAMES, *scope.unit.views)


def check_class(name: str, node: ast.Node, scope: Scope) -> None:
    _check_class(name, node, scope, ())


def _check_class(name: str, node: ast.Node, scope: Scope, matchers: Iterable[str]) -> None:
    known = operation_tree_classes()
    if name not in known:
        scope.problems.add(
            f"there is no class `{name}` in the operation tree",
            node.location,
            required="a class or operation that `tcpx ops` lists",
            given=name,
            fix=did_you_mean(name, [*known, *matchers]) or _as_operation(name),
        )


def _as_operation(name: str) -> str | None:
    """The operation that other systems call so."""
    opcode = re.search(r"tcp\.(\w+)\(", advice(name) or "")
    return f"write `{opcode[1]}`" if opcode is not None else None


def check_pattern(pattern: ast.Pattern, scope: Scope) -> ast.Matcher | None:
    """Check class or matcher of a pattern, or its equations; the matcher if it is one."""
    if pattern.equations:
        check_equations(pattern, scope)
        return None
    scope.note_import(pattern.op_class.rpartition(".")[0])
    try:
        found = find_matcher(pattern, scope.unit)
    except ScheduleError as error:
        scope.problems.found.append(error.diagnostic)
        return None
    if found is not None:
        scope.calls.append((found.matcher, pattern.location))
        return found.matcher
    if "%" in pattern.glob:
        scope.problems.add(
            "no name has a `%` in it",
            pattern.location,
            required="the name of a value as text, `*` for any part of it",
            given=f'"{pattern.glob}"',
            fix=f'write `"{pattern.glob.replace("%", "")}"`',
        )
    bound = scope.lookup(pattern.op_class)
    if bound is not None and pattern.op_class not in operation_tree_classes():
        bound.used = True
        scope.problems.add(
            f"`{pattern.op_class}` is a value, and no class of operations",
            pattern.location,
            required='a class such as `contract`, or a name as text such as `"fc*"`',
            given=f"`{pattern.op_class}` bound at {bound.location}",
            fix=Direction(f"match all, and compare: `match .. op in .. where it.name == {pattern.op_class}`"),
        )
    elif pattern.op_class and "." not in pattern.op_class:
        _check_class(pattern.op_class, pattern, scope, scope.unit.matchers)
    return None


def check_equations(pattern: ast.Pattern, scope: Scope) -> None:
    """Check a pattern as written: classes, operands, names."""
    for shape in shapes_of(pattern):
        known = len(scope.problems.found)
        check_pattern(ast.Pattern(shape.op_class, "", location=shape.location), scope)
        if len(scope.problems.found) == known:
            check_operands(shape, scope)
    check_names(pattern, scope)


def candidate_class(pattern: ast.Pattern, scope: Scope) -> str:
    """The class of the operation tree that what matches is of; empty if none is said."""
    try:
        found = find_matcher(pattern, scope.unit)
    except ScheduleError:
        return ""
    if found is None:
        return pattern.op_class
    asked = without_view(found.matcher.params[0].type, found.unit) if found.matcher.params else None
    return asked.arguments[0].name if asked is not None and asked.arguments else ""


def matched_type(expression: ast.Match, scope: Scope) -> Static:
    """What each operation that matches is."""
    matcher = scope.unit.matchers.get(expression.pattern.op_class)
    if matcher is not None and matcher.params:
        return check_type(matcher.params[0].type, Scope(scope.unit, Problems()))
    return Static.LOOP if expression.pattern.op_class in ("loop", "parallel") else Static.OP


def parts_of(expression: ast.Expression, scope: Scope) -> tuple[Static, ...] | None:
    """The types of the op and the parts that a match of a matcher gives each time; None if it gives the op alone."""
    if not isinstance(expression, ast.Match):
        return None
    named = names_of_pattern(expression.pattern, scope)
    if expression.pattern.equations:
        own = expression.pattern.equations[-1].name
        parts = tuple(static for name, static in named.items() if name != own)
        return (Static.OP, *parts) if parts else None
    found = check_pattern(expression.pattern, Scope(scope.unit, Problems()))
    if found is None or not found.results:
        return None
    return (Static.OP, *(TYPE_NAMES.get(r.name, Static.ANY) for r in found.results))
