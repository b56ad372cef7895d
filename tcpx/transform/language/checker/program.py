"""Check a program: every sequence and schedule of every file."""

from __future__ import annotations

from dataclasses import replace

from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.transform.declaration import transforms
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS
from tcpx.transform.language.checker.expressions import check_expression, check_type
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.checker.statements import check_block
from tcpx.transform.language.kinds import Static, declared_accepts
from tcpx.transform.language.loader import Program


def check_program(program: Program) -> tuple[Diagnostic, ...]:
    """Everything found wrong, in the order of the text, imported files last."""
    problems = Problems()
    for unit in program.units:
        for item in unit.file.items:
            if isinstance(item, ast.Sequence | ast.Schedule):
                _check_callable(item, Scope(unit, problems))
    return tuple(problems.found)


def require_checked(program: Program) -> None:
    """Raise the first problem as a ScheduleError; the others are its notes."""
    found = check_program(program)
    if found:
        notes = tuple(f"also {d.schedule}: {d.message}" for d in found[1:])
        raise ScheduleError(replace(found[0], notes=found[0].notes + notes))


def _check_callable(item: ast.Sequence | ast.Schedule, scope: Scope) -> None:
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
        scope.bind(param.name, static, param.location)
    if isinstance(item, ast.Schedule):
        _check_schedule(item, scope)
    results = tuple(check_type(r, scope) for r in item.results) if isinstance(item, ast.Sequence) else ()
    returned = check_block(item.body, scope, results)
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
            "a schedule is given the function it works on", item.location, required="a parameter such as `root: func`"
        )


def _check_name(item: ast.Sequence | ast.Schedule, problems: Problems) -> None:
    taken = "a transform" if item.name in transforms() else "built in" if item.name in FUNCTIONS else ""
    if taken and isinstance(item, ast.Sequence):
        problems.add(f"`{item.name}` is {taken}", item.location, required="a name that is free")
