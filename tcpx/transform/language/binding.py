"""What a call means: the thing called, and which argument goes to which parameter. Serves checker and engine."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tcpx.installed import LIBRARY
from tcpx.payload.diagnostics import Diagnostic, Direction, Location, ScheduleError
from tcpx.payload.ir import operation_classes
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.suggestions import did_you_mean
from tcpx.transform.declaration import Transform, known_transform, plugin_notes, transforms
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, Function
from tcpx.transform.language.hints import FOREIGN_CALLS
from tcpx.transform.language.kinds import MAPS
from tcpx.transform.language.loader import Unit
from tcpx.transform.language.other_systems import DIALECTS, OTHER_SYSTEMS, of_method
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.language_versions import gone


@frozen
class SequenceCallee:
    """A sequence and the file it stands in."""

    unit: Unit
    sequence: ast.Sequence


@frozen
class FunctionCallee:
    """A function of a schedule and the file it stands in."""

    unit: Unit
    function: ast.Function


@frozen
class MatcherCallee:
    """A matcher and the file it stands in."""

    unit: Unit
    matcher: ast.Matcher


Callee = type[Transform] | SequenceCallee | FunctionCallee | Function


def find_callee(function: ast.Expression, unit: Unit) -> Callee:
    """The transform, sequence or function that an expression names. Raises ScheduleError."""
    if isinstance(function, ast.Attribute) and isinstance(function.base, ast.Name):
        return _imported(function, function.base.name, unit)
    if not isinstance(function, ast.Name):
        raise ScheduleError(
            Diagnostic(
                "this cannot be called",
                schedule=function.location,
                required="the name of a transform",
                found=function.location.span,
            )
        )
    name = function.name
    if name in unit.sequences:
        return SequenceCallee(unit, unit.sequences[name])
    if name in unit.functions:
        return FunctionCallee(unit, unit.functions[name])
    if name in FUNCTIONS:
        _check_not_gone(function, unit.language)
        return FUNCTIONS[name]
    known = known_transform(name)
    if known is not None:
        return known
    raise ScheduleError(
        Diagnostic(
            f"there is no transform, sequence or function `{name}`",
            schedule=function.location,
            required="a name that `tcpx ops --transforms` lists, a sequence or a function",
            found=name,
            notes=plugin_notes(),
            fix=FOREIGN_CALLS.get(name)
            or OTHER_SYSTEMS.get(name.lower())
            or did_you_mean(name, [*transforms(), *unit.sequences, *unit.functions, *FUNCTIONS]),
        )
    )


def check_functions(file: ast.File, language: int) -> None:
    """Raise ScheduleError for a function of a file that a version of the language does not have."""
    for call in ast.walk(file.items):
        if isinstance(call, ast.Call) and isinstance(call.function, ast.Name):
            _check_not_gone(call.function, language)


def _check_not_gone(function: ast.Name, language: int) -> None:
    lost = gone(function.name, language)
    if lost is not None:
        raise ScheduleError(
            Diagnostic(
                f"`{function.name}` is no function of `language {language}`",
                schedule=function.location,
                required=f"a function of `language {language}`",
                found=f"`{function.name}`, which is gone since `language {lost.since}`",
                fix=Direction(f"write {lost.instead}"),
            )
        )


def find_matcher(pattern: ast.Pattern, unit: Unit) -> MatcherCallee | None:
    """The matcher a pattern names, of this file or of an import; None if it names a class. Raises ScheduleError."""
    alias, dot, name = pattern.op_class.rpartition(".")
    if not dot:
        return MatcherCallee(unit, unit.matchers[name]) if name in unit.matchers else None
    imported = _import(alias, pattern.location, unit)
    if name in imported.matchers:
        return MatcherCallee(imported, imported.matchers[name])
    raise ScheduleError(
        Diagnostic(
            f"`{alias}` has no matcher `{name}`",
            schedule=pattern.location,
            required=f"a matcher of {imported.file.path}",
            found=", ".join(imported.matchers) or "no matchers",
            fix=did_you_mean(name, imported.matchers),
        )
    )


def _import(alias: str, where: Location, unit: Unit) -> Unit:
    imported = unit.imports.get(alias)
    if imported is None:
        raise ScheduleError(
            Diagnostic(
                f"`{alias}` is not imported",
                schedule=where,
                required="the alias of an import",
                found=", ".join(unit.imports) or "no imports",
                fix=did_you_mean(alias, unit.imports) or _of_library(alias) or _without_alias(alias, where),
            )
        )
    return imported


def _of_library(alias: str) -> str | None:
    is_there = alias.isidentifier() and (LIBRARY / f"{alias}.tcps").is_file()
    return Direction(f'write `import "{alias}.tcps" as {alias}` after the line `language`') if is_there else None


def _in_a_list(call: ast.Call, names: Sequence[str], signature: str) -> str | None:
    """The call with its arguments as the items of a list, where the only parameter takes one."""
    if len(names) != 1 or f"{names[0]}: list of" not in signature or any(a.name for a in call.arguments):
        return None
    items = ", ".join(print_expression(argument.value) for argument in call.arguments)
    return f"write `{print_expression(call.function)}([{items}])`"


def _without_alias(alias: str, where: Location) -> str | None:
    """Names of MLIR's dialects, and the objects of other systems' schedules."""
    name = re.match(rf"{re.escape(alias)}\.(\w+)", where.text[where.column - 1 :])
    if name is not None and alias in DIALECTS and f"tcp.{name[1]}" in operation_classes():
        return f"write `{name[1]}`"
    return of_method(name[1]) if name is not None else None


def _imported(function: ast.Attribute, alias: str, unit: Unit) -> SequenceCallee | FunctionCallee:
    imported = _import(alias, function.base.location, unit)
    name = function.name
    if name in imported.functions:
        return FunctionCallee(imported, imported.functions[name])
    if name in imported.sequences:
        return SequenceCallee(imported, imported.sequences[name])
    known = [*imported.sequences, *imported.functions]
    raise ScheduleError(
        Diagnostic(
            f"`{alias}` has no sequence `{name}`",
            schedule=function.location,
            required=f"a sequence or function of {imported.file.path}",
            found=", ".join(known) or "none",
            fix=did_you_mean(name, known),
        )
    )


def is_import(function: ast.Expression, unit: Unit) -> bool:
    """Whether a called expression is `alias.name` of an import, rather than a method of a handle."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.base, ast.Name)
        and function.base.name in unit.imports
    )


def bind_arguments(
    what: str, call: ast.Call, names: Sequence[str], required: Iterable[str], signature: str, sizes: str = ""
) -> dict[str, ast.Argument]:
    """Parameter name -> argument, in the order of the parameters; `sizes` is the one that takes sizes of dims, if one
    does. Raises ScheduleError."""
    bound: dict[str, ast.Argument] = {}
    named = False
    for position, argument in enumerate(call.arguments):
        if argument.name:
            named = True
            if argument.name not in names:
                raise _misfit(
                    f"`{what}` has no parameter `{argument.name}`",
                    argument.location,
                    signature,
                    did_you_mean(argument.name, names)
                    or _by_its_name(argument, [name for name in required if name not in bound], call)
                    or (
                        f"`{sizes}` are in brackets: `[{argument.location.span}]`"
                        if sizes and sizes not in bound
                        else None
                    ),
                )
        elif named:
            raise _misfit("an argument without a name stands behind one with a name", argument.location, signature)
        elif position >= len(names):
            count = counted(len(names), "argument")
            fewer = replace(call, arguments=call.arguments[:position])
            raise _misfit(
                f"`{what}` takes at most {count}",
                argument.location,
                signature,
                _in_a_list(call, names, signature) or (f"write `{print_expression(fewer)}`" if position else None),
            )
        name = argument.name or names[position]
        if name in bound:
            raise _misfit(f"`{name}` is given twice", argument.location, signature)
        bound[name] = argument
    missing = [name for name in required if name not in bound]
    if missing:
        raise _misfit(f"`{what}` needs `{missing[0]}`", call.location, signature)
    return {name: bound[name] for name in names if name in bound}


def _by_its_name(argument: ast.Argument, missing: list[str], call: ast.Call) -> str | None:
    """The one argument that is missing, where a value is given by another name: `fuse(x, at: i)`."""
    given = [each.name for each in call.arguments]
    left = [name for name in missing if name not in given]
    value = argument.value
    is_value = isinstance(value, ast.Name | ast.Attribute | ast.Call)
    return f"write `{left[0]}: {print_expression(value)}`" if len(left) == 1 and is_value else None


def _of_dim(function: Function, call: ast.Call) -> str | None:
    """`size(x.m)` for `size(x, m)`."""
    match [argument.value for argument in call.arguments]:
        case [base, ast.Name(name=dim)] if function.params == ("dim",):
            written = ast.Argument("", ast.Attribute(base, dim, location=call.location), location=call.location)
            return f"write `{print_expression(replace(call, arguments=(written,)))}`"
        case _:
            return None


def _misfit(message: str, where: Location, signature: str, fix: str | None = None) -> ScheduleError:
    return ScheduleError(
        Diagnostic(message, schedule=where, required=signature, found=where.span or "a call without it", fix=fix)
    )


def transform_arguments(transform: type[Transform], call: ast.Call) -> dict[str, ast.Argument]:
    """The arguments of a transform by parameter name."""
    names = [p.name for p in transform.parameters]
    required = [p.name for p in transform.parameters if p.is_required]
    maps = next((p.name for p in transform.parameters if p.type.kind in MAPS), "")
    return bind_arguments(transform.name, call, names, required, transform.signature(), maps)


def declared_arguments(declared: ast.Sequence | ast.Function, call: ast.Call) -> dict[str, ast.Argument]:
    """The arguments of a sequence or of a function of a schedule by parameter name."""
    names = [p.name for p in declared.params]
    required = [p.name for p in declared.params if p.default is None]
    params = ", ".join(f"{p.name}: {p.type}" + ("" if p.default is None else " = ...") for p in declared.params)
    signature = f"{declared.name}({params})"
    body = declared.body.statements if isinstance(declared, ast.Sequence) else ()
    knobs = {s.name for s in body if isinstance(s, ast.Knob)}
    for argument in call.arguments:
        if argument.name in knobs:
            raise _misfit(
                f"`{argument.name}` is a knob of `{declared.name}`, not a parameter",
                argument.location,
                signature,
                Direction(f"override it from outside: `--param {argument.name}=..`, or `params=` in Python"),
            )
    return bind_arguments(declared.name, call, names, required, signature)


def function_arguments(function: Function, call: ast.Call) -> tuple[ast.Expression, ...]:
    """The arguments of a built-in function, all positional."""
    for argument in call.arguments:
        if argument.name:
            raise _misfit(f"the arguments of `{function.name}` have no names", argument.location, function.signature)
    given, wanted = len(call.arguments), len(function.params)
    fits = given >= wanted - function.optional if function.variadic else wanted - function.optional <= given <= wanted
    if not fits:
        least = "at least " if function.variadic else ""
        some = "" if function.variadic or not function.optional else f"{wanted - function.optional} or "
        message = f"`{function.name}` takes {least}{some}{wanted} argument{'' if wanted == 1 else 's'}, not {given}"
        raise _misfit(message, call.location, function.signature, _of_dim(function, call))
    return tuple(a.value for a in call.arguments)
