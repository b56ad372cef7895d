"""What a call means: the thing called, and which argument goes to which parameter. Serves checker and engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tcpx.payload.diagnostics import Diagnostic, Location, ScheduleError
from tcpx.transform.declaration import Transform, transforms
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import FUNCTIONS, Function
from tcpx.transform.language.loader import Unit
from tcpx.transform.suggestions import did_you_mean


@dataclass(frozen=True, slots=True)
class SequenceCallee:
    """A sequence and the file it stands in."""

    unit: Unit
    sequence: ast.Sequence


Callee = type[Transform] | SequenceCallee | Function


def find_callee(function: ast.Expression, unit: Unit) -> Callee:
    """The transform, sequence or built-in function that an expression names. Raises ScheduleError."""
    if isinstance(function, ast.Attribute) and isinstance(function.base, ast.Name):
        return _imported(function, function.base.name, unit)
    if not isinstance(function, ast.Name):
        raise ScheduleError(
            Diagnostic("this cannot be called", schedule=function.location, required="the name of a transform")
        )
    name = function.name
    if name in unit.sequences:
        return SequenceCallee(unit, unit.sequences[name])
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    known = transforms()
    if name in known:
        return known[name]
    raise ScheduleError(
        Diagnostic(
            f"there is no transform, sequence or function `{name}`",
            schedule=function.location,
            fix=did_you_mean(name, [*known, *unit.sequences, *FUNCTIONS]),
        )
    )


def _imported(function: ast.Attribute, alias: str, unit: Unit) -> SequenceCallee:
    imported = unit.imports.get(alias)
    if imported is None:
        raise ScheduleError(
            Diagnostic(
                f"`{alias}` is not imported",
                schedule=function.base.location,
                required="the alias of an import",
                found=", ".join(unit.imports) or "no imports",
                fix=did_you_mean(alias, unit.imports),
            )
        )
    sequence = imported.sequences.get(function.name)
    if sequence is None:
        raise ScheduleError(
            Diagnostic(
                f"`{alias}` has no sequence `{function.name}`",
                schedule=function.location,
                required=f"a sequence of {imported.file.path}",
                found=", ".join(imported.sequences) or "no sequences",
                fix=did_you_mean(function.name, imported.sequences),
            )
        )
    return SequenceCallee(imported, sequence)


def is_import(function: ast.Expression, unit: Unit) -> bool:
    """Whether a called expression is `alias.name` of an import, rather than a method of a handle."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.base, ast.Name)
        and function.base.name in unit.imports
    )


def bind_arguments(
    what: str, call: ast.Call, names: Sequence[str], required: Iterable[str], signature: str
) -> dict[str, ast.Argument]:
    """Parameter name -> argument, in the order of the parameters. Raises ScheduleError."""
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
                    did_you_mean(argument.name, names),
                )
        elif named:
            raise _misfit("an argument without a name stands behind one with a name", argument.location, signature)
        elif position >= len(names):
            count = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
            raise _misfit(f"`{what}` takes at most {count}", argument.location, signature)
        name = argument.name or names[position]
        if name in bound:
            raise _misfit(f"`{name}` is given twice", argument.location, signature)
        bound[name] = argument
    missing = [name for name in required if name not in bound]
    if missing:
        raise _misfit(f"`{what}` needs `{missing[0]}`", call.location, signature)
    return {name: bound[name] for name in names if name in bound}


def _misfit(message: str, where: Location, signature: str, fix: str | None = None) -> ScheduleError:
    return ScheduleError(Diagnostic(message, schedule=where, required=signature, fix=fix))


def transform_arguments(transform: type[Transform], call: ast.Call) -> dict[str, ast.Argument]:
    """The arguments of a transform by parameter name."""
    names = [p.name for p in transform.parameters]
    required = [p.name for p in transform.parameters if p.is_required]
    return bind_arguments(transform.name, call, names, required, transform.signature())


def sequence_arguments(sequence: ast.Sequence, call: ast.Call) -> dict[str, ast.Argument]:
    """The arguments of a sequence by parameter name."""
    names = [p.name for p in sequence.params]
    required = [p.name for p in sequence.params if p.default is None]
    params = ", ".join(f"{p.name}: {p.type}" + ("" if p.default is None else " = ...") for p in sequence.params)
    return bind_arguments(sequence.name, call, names, required, f"{sequence.name}({params})")


def function_arguments(function: Function, call: ast.Call) -> tuple[ast.Expression, ...]:
    """The arguments of a built-in function, all positional."""
    for argument in call.arguments:
        if argument.name:
            raise _misfit(f"the arguments of `{function.name}` have no names", argument.location, function.signature)
    given, wanted = len(call.arguments), len(function.params)
    fits = given >= wanted - function.optional if function.variadic else wanted - function.optional <= given <= wanted
    if not fits:
        least = "at least " if function.variadic else ""
        message = f"`{function.name}` takes {least}{wanted} argument{'' if wanted == 1 else 's'}, not {given}"
        raise _misfit(message, call.location, function.signature)
    return tuple(a.value for a in call.arguments)
