"""Check a program: every function, matcher, sequence and schedule of every file."""

import warnings
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, ScheduleError, ScheduleWarning
from tcpx.payload.ir import operation_classes
from tcpx.transform.declaration import foreign_transforms, is_own
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, NAVIGATION
from tcpx.transform.language.checker.expressions import check_expression
from tcpx.transform.language.checker.patterns import check_type, operation_tree_classes
from tcpx.transform.language.checker.recursion import Declaration, check_recursion
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.checker.statements import check_block, check_statement
from tcpx.transform.language.kinds import Static, declared_accepts
from tcpx.transform.language.loader import REMEMBERED, Program, Unit
from tcpx.transform.language.views import ViewOf, view_of

_WARNED: Final[dict[str | tuple[str, type[Warning], int], int]] = {}
"""What Python's filters know of the warnings that were shown."""
_FLAWLESS: Final[OrderedDict[object, tuple[object, tuple[Diagnostic, ...]]]] = OrderedDict()
"""The remarks on programs without errors, by their trees and how they import each other, the known operations and
transforms. The trees are held beside: they are known by where they lie in memory."""


def check_program(program: Program) -> tuple[Diagnostic, ...]:
    """Everything found wrong, in the order of the text, imported files last; remarks are of kind WARNING.

    What has no errors is checked once, as long as its syntax trees are kept (`loader.REMEMBERED`).
    """
    links = tuple((unit.file, *(held.file for held in unit.imports.values())) for unit in program.units)
    key = tuple(tuple(map(id, files)) for files in links), tuple(operation_classes().values()), foreign_transforms()
    if key not in _FLAWLESS:
        found = _problems_of(program)
        if any(d.kind is not Kind.WARNING for d in found):
            return found
        _FLAWLESS[key] = links, found
        while len(_FLAWLESS) > REMEMBERED:
            _FLAWLESS.popitem(last=False)
    return _FLAWLESS[key][1]


def _problems_of(program: Program) -> tuple[Diagnostic, ...]:
    problems = Problems()
    checked: list[tuple[Declaration, Scope]] = []
    for unit in program.units:
        imports_read: set[str] = set()
        for item in unit.file.items:
            scope = Scope(unit, problems, imports_read=imports_read)
            match item:
                case ast.Function():
                    _check_function(item, scope)
                case ast.Matcher():
                    _check_matcher(item, scope)
                case ast.View():
                    _check_view(item, scope)
                    checked += _checked_roles(item, scope)
                    continue
                case ast.Sequence() | ast.Schedule():
                    _check_callable(item, scope)
                case _:
                    continue
            checked.append((item, scope))
        for place in unit.file.divisions:
            problems.warn(f"`{place.span}` is a comment", place, fix=Direction("`/` divides integers, rounding down"))
        _report_unused_imports(unit, imports_read, problems)
    check_recursion(checked, problems)
    return tuple(problems.found)


def _report_unused_imports(unit: Unit, read: set[str], problems: Problems) -> None:
    for item in unit.file.items:
        if isinstance(item, ast.Import) and item.bound_name not in read:
            problems.warn(
                f"nothing reads the import `{item.bound_name}`", item.location, fix=Direction("use it, or remove it")
            )


def require_checked(program: Program) -> tuple[Diagnostic, ...]:
    """The remarks. Raises the first problem as a ScheduleError; the others are its notes."""
    checked = check_program(program)
    found = [d for d in checked if d.kind is not Kind.WARNING]
    if found:
        notes = tuple(f"also {d.schedule}: {d.message}" for d in found[1:])
        raise ScheduleError(replace(found[0], notes=found[0].notes + notes))
    return checked


def warn_of(remarks: Iterable[Diagnostic]) -> None:
    """A ScheduleWarning for each remark, at its line of the schedule: Python shows it once."""
    for remark in remarks:
        place = remark.schedule or Location("<schedule>", 1, 1)
        warnings.warn_explicit(
            remark.render(), ScheduleWarning, place.file, place.line, module=__name__, registry=_WARNED
        )


def _check_params(item: Declaration | ast.View, scope: Scope) -> None:
    _check_name(item, scope.problems)
    for param in item.params:
        static = check_type(param.type, scope)
        if param.default is not None:
            given = check_expression(param.default, scope)
            if not declared_accepts(static, given):
                scope.problems.add(
                    f"the default of `{param.name}` has the wrong type",
                    param.default.location,
                    required=str(param.type),
                    given=given.value,
                )
        scope.bind(param.name, static, param.location, view=view_of(param.type, scope.unit))


def _check_function(item: ast.Function, scope: Scope) -> None:
    _check_params(item, scope)
    for statement in item.lets:
        check_statement(statement, scope, ())
    declared, given = check_type(item.result, scope), check_expression(item.value, scope)
    if not declared_accepts(declared, given):
        scope.problems.add(
            f"`{item.name}` gives a value of the wrong type",
            item.value.location,
            required=str(item.result),
            given=given.value,
        )
    scope.report_unused_params(item.params)
    scope.report_unused()


def _check_matcher(item: ast.Matcher, scope: Scope) -> None:
    """A matcher is asked about one op and only looks: `let`, `require`, and `return` at the end."""
    _check_params(item, scope)
    if len(item.params) != 1 or item.params[0].default is not None:
        scope.problems.add(
            "a matcher is asked about one op",
            item.location,
            required="one parameter such as `r: op<max>`, without a default",
            given=", ".join(p.name for p in item.params) or "no parameter",
        )
    elif scope.names[item.params[0].name].static not in (Static.OP, Static.ANY):
        where, given = item.params[0].location, str(item.params[0].type)
        scope.problems.add("a matcher is asked about an op", where, required="`op` or `op<class>`", given=given)
    for statement in item.body.statements:
        looks = isinstance(statement, ast.Require | ast.Return) or (
            isinstance(statement, ast.Let) and len(statement.names) == 1
        )
        if not looks:
            scope.problems.add(
                "a matcher only looks", statement.location, required="`let name = ...`, `require` or `return`"
            )
            return
    _check_body(item, scope, tuple(check_type(r, scope) for r in item.results))


def _check_view(item: ast.View, scope: Scope) -> None:
    """A view is about one op; a role has a name that nothing else has."""
    _check_params(item, scope)
    if len(item.params) != 1 or item.params[0].default is not None:
        scope.problems.add(
            "a view is about one op",
            item.location,
            required="one parameter such as `mm: op<contract>`, without a default",
            given=", ".join(p.name for p in item.params) or "no parameter",
        )
    elif scope.names[item.params[0].name].static not in (Static.OP, Static.ANY):
        where, given = item.params[0].location, str(item.params[0].type)
        scope.problems.add("a view is about an op", where, required="`op`, `op<class>` or a view", given=given)
    base = ViewOf(scope.unit, item).base
    if base is None and item.params and view_of(item.params[0].type, scope.unit) is not None:
        scope.problems.add(
            "a view adds roles to one that is declared before it",
            item.params[0].location,
            required=", ".join(list(scope.unit.views)[: list(scope.unit.views).index(item.name)]) or "a view before it",
            given=str(item.params[0].type),
        )
    for let in item.lets:
        (name,) = let.names
        if name in NAVIGATION or (base is not None and base.role(name) is not None):
            taken = "what any op is asked for" if name in NAVIGATION else "a role of the view it is made of"
            scope.problems.add(f"`{name}` is {taken}", let.location, required="a name that is free", given=name)
        scope.bind(name, Static.ANY, let.location)


def _checked_roles(item: ast.View, scope: Scope) -> list[tuple[Declaration, Scope]]:
    """The roles, each checked as a function of the op."""
    checked: list[tuple[Declaration, Scope]] = []
    for role in scope.unit.roles[item.name].values():
        inner = Scope(scope.unit, scope.problems, imports_read=scope.imports_read)
        for param in role.params:
            inner.bind(param.name, Static.OP, param.location, view=view_of(param.type, scope.unit))
        check_expression(role.value, inner)
        checked.append((role, inner))
    return checked


def _check_callable(item: ast.Sequence | ast.Schedule, scope: Scope) -> None:
    _check_params(item, scope)
    if isinstance(item, ast.Schedule):
        _check_schedule(item, scope)
    _check_body(
        item, scope, tuple(check_type(r, scope) for r in item.results) if isinstance(item, ast.Sequence) else ()
    )


def _check_body(item: ast.Matcher | ast.Sequence | ast.Schedule, scope: Scope, results: tuple[Static, ...]) -> None:
    returned = check_block(item.body, scope, results)
    scope.report_unused_params(item.params)
    if results and not returned:
        scope.problems.add(
            f"`{item.name}` does not return what it declares",
            item.location,
            required=f"`return` of {', '.join(r.value for r in results)} at the end",
            given="no `return`",
        )


def _check_schedule(item: ast.Schedule, scope: Scope) -> None:
    for k, param in enumerate(item.params):
        if k == 0 and scope.names[param.name].static not in (Static.FUNC, Static.ANY):
            scope.problems.add(
                "a schedule is given the function it works on",
                param.location,
                required=f"`{param.name}: func`",
                given=str(param.type),
            )
        if k > 0 and param.default is None:
            scope.problems.add(
                f"nothing gives `{param.name}` a value",
                param.location,
                required="a default: only the function is passed to a schedule",
            )
    if not item.params:
        scope.problems.add(
            "a schedule is given the function it works on",
            item.location,
            required="a parameter such as `root: func`",
            fix=f"write `schedule {item.name}(root: func)`",
        )


def _check_name(item: Declaration | ast.View, problems: Problems) -> None:
    taken = "a transform" if is_own(item.name) else "built in" if item.name in FUNCTIONS else ""
    if isinstance(item, ast.Matcher):
        taken = "a class of the operation tree" if item.name in operation_tree_classes() else ""
    if taken and not isinstance(item, ast.Schedule):
        problems.add(f"`{item.name}` is {taken}", item.location, required="a name that is free")
