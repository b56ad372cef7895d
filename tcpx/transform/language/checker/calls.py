"""Checking calls of transforms and sequences: names, arity, types, bare words."""

from collections.abc import Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.suggestions import did_you_mean
from tcpx.transform.declaration import Parameter, ParameterKind, Result, Transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import SequenceCallee, find_callee, transform_arguments
from tcpx.transform.language.builtins import FUNCTIONS, METHODS
from tcpx.transform.language.checker.conversions import conversion
from tcpx.transform.language.checker.expressions import check_arguments, check_expression, note_uses
from tcpx.transform.language.checker.names import note_callee, note_dim
from tcpx.transform.language.checker.patterns import check_type
from tcpx.transform.language.checker.scope import Problems, Scope
from tcpx.transform.language.kinds import MAPS, TYPE_NAMES, Static, parameter_accepts, static_of_result
from tcpx.transform.language.printed_expressions import print_expression

_CHOICES: Final = {
    "pad": ("guard", "guard_with_if", "mask", "masked", "predicate", "round_up", "padded"),
    "peel": ("cut", "cut_and_guard", "split", "remainder"),
    "shift": ("shift_inwards", "overlap"),
    "none": ("perfect", "auto"),
}
"""What other systems call the choices of a parameter."""


def check_call_statement(statement: ast.Do, scope: Scope) -> None:
    """A call as a statement: a transform or a sequence."""
    if result_types(statement.call, scope, statement.optional) is not None:
        return
    before = len(scope.problems.found)
    check_expression(statement.call, scope)
    if len(scope.problems.found) > before:
        return
    scope.problems.add(
        "this statement has no effect",
        statement.location,
        required="the call of a transform or a sequence",
        fix=Direction("write `let name = ...` to use the value"),
    )


def result_types(value: ast.Expression, scope: Scope, optional: bool = False) -> tuple[Static, ...] | None:
    """Check a call of a transform or sequence and give the types it returns; None if `value` is no such call.

    An `optional` one may be left out, and then ends no handle.
    """
    if not isinstance(value, ast.Call) or _is_method(value.function, scope):
        return None
    if isinstance(value.function, ast.Name) and value.function.name in FUNCTIONS:
        return None
    note_callee(value.function, scope)
    try:
        callee = find_callee(value.function, scope.unit)
        if isinstance(callee, SequenceCallee):
            return _check_sequence(callee, value, scope)
        if isinstance(callee, type):
            return _check_transform(callee, value, scope, optional)
    except ScheduleError as error:
        scope.problems.found.append(error.diagnostic)
        note_uses(value, scope)
        return (Static.ANY,)
    return None


def _is_method(function: ast.Expression, scope: Scope) -> bool:
    """Whether `x.name(...)` asks a handle or the target, rather than names a sequence of an import."""
    if not isinstance(function, ast.Attribute):
        return False
    if not isinstance(function.base, ast.Name):
        return True
    name = function.base.name
    return name not in scope.unit.imports and (
        function.name in METHODS or name == "target" or scope.lookup(name) is not None
    )


def _check_sequence(callee: SequenceCallee, call: ast.Call, scope: Scope) -> tuple[Static, ...]:
    check_arguments(callee, call, scope)
    inner = Scope(callee.unit, Problems())
    return tuple(check_type(r, inner) for r in callee.sequence.results)


def _check_transform(transform: type[Transform], call: ast.Call, scope: Scope, optional: bool) -> tuple[Static, ...]:
    bound = transform_arguments(transform, call)
    for parameter in transform.parameters:
        if parameter.name in bound:
            _check_argument(transform, parameter, bound[parameter.name].value, scope)
    for name in () if optional else transform.ends:
        value = bound[name].value if name in bound else None
        if isinstance(value, ast.Name):
            scope.end(value.name, call.location)
    results: list[Static] = []
    for result in transform.results:
        results += _loops(transform, bound, scope) if result is Result.LOOPS else [static_of_result(result)]
    return tuple(results)


def _loops(transform: type[Transform], bound: dict[str, ast.Argument], scope: Scope) -> list[Static]:
    """What a LOOPS result is: a loop, or a list of them, for each entry of the first map or list of dims."""
    for parameter in transform.parameters:
        if parameter.type.kind in (*MAPS, ParameterKind.DIMS) and parameter.name in bound:
            value = bound[parameter.name].value
            if isinstance(value, ast.MapOf):
                return [_of_key(key, scope) for key, _ in value.entries]
            return [Static.LOOP] * (len(value.items) if isinstance(value, ast.ListOf) else 1)
    return [Static.LOOP]


def _of_key(key: ast.Expression, scope: Scope) -> Static:
    """What the loops of one key of a map are, which may be a list of dims."""
    binding = scope.lookup(key.name) if isinstance(key, ast.Name) else None
    is_dim = isinstance(key, ast.Name) and (binding is None or binding.static is Static.DIM)
    return Static.LOOP if is_dim else Static.ANY


def _check_argument(transform: type[Transform], parameter: Parameter, value: ast.Expression, scope: Scope) -> None:
    kind = parameter.type.kind
    if kind is ParameterKind.ENUM:
        _check_choice(transform, parameter, value, scope)
    elif kind in MAPS:
        _check_map(transform, parameter, value, scope)
    elif kind in (ParameterKind.DIMS, ParameterKind.LAYOUT, ParameterKind.OPS, ParameterKind.LOOPS, ParameterKind.INTS):
        _check_list(transform, parameter, value, scope)
    elif kind in (ParameterKind.DIM, ParameterKind.NAME):
        if isinstance(value, ast.Name):
            note_dim(value, scope)
        elif isinstance(value, ast.MapOf):
            _wrong_type(transform, parameter, value, scope, "a map", _without_map(transform, value))
        elif not (kind is ParameterKind.NAME and isinstance(value, ast.Literal)):
            check_expression(value, scope)
    else:
        given = check_expression(value, scope)
        if not parameter_accepts(kind, given):
            fix = conversion(given, TYPE_NAMES.get(kind.value, Static.ANY), value)
            _wrong_type(transform, parameter, value, scope, given.value, fix)


def _wrong_type(
    transform: type[Transform],
    parameter: Parameter,
    value: ast.Expression,
    scope: Scope,
    given: str,
    fix: str | None = None,
) -> None:
    if fix is None and given == Static.INT.value and str(parameter.type).startswith("list of"):
        fix = f"write `[{print_expression(value)}]`"
    scope.problems.add(
        f"`{parameter.name}` of `{transform.name}` has the wrong type",
        value.location,
        required=str(parameter.type),
        given=given,
        fix=fix,
    )


def _without_map(transform: type[Transform], value: ast.MapOf) -> str | None:
    """What a map of one entry says, where a parameter takes a dim and others take the number."""
    if len(value.entries) != 1:
        return None
    dim, number = (print_expression(part) for part in value.entries[0])
    ints = (p.name for p in transform.parameters if p.type.kind is ParameterKind.INT)
    return f"write {' or '.join(f'`{dim}, {name}: {number}`' for name in ints) or f'`{dim}`'}"


def _check_choice(transform: type[Transform], parameter: Parameter, value: ast.Expression, scope: Scope) -> None:
    word = value.name if isinstance(value, ast.Name) else ""
    if isinstance(value, ast.Literal) and isinstance(value.value, str):
        word = value.value
    choices = parameter.type.choices
    if word in choices:
        return
    binding = scope.lookup(word) if word else None
    if binding is not None and binding.static in (Static.STRING, Static.ANY):
        binding.used = True
        return
    if not word:
        given = check_expression(value, scope)
        if given not in (Static.STRING, Static.ANY):
            _wrong_type(transform, parameter, value, scope, given.value)
        return
    scope.problems.add(
        f"`{parameter.name}` of `{transform.name}` cannot be `{word}`",
        value.location,
        required=" | ".join(choices),
        given=word,
        fix=did_you_mean(word, choices) or _other_choice(word, choices),
    )


def _other_choice(word: str, choices: Sequence[str]) -> str | None:
    """What other systems call a choice."""
    meant = next((own for own, others in _CHOICES.items() if word in others and own in choices), None)
    return f"write `{meant}`" if meant is not None else None


def _unquoted(size: ast.Expression) -> str | None:
    text = size.value if isinstance(size, ast.Literal) and isinstance(size.value, str) else ""
    return f"write `{text}`" if text.isdigit() else None


def _check_map(transform: type[Transform], parameter: Parameter, value: ast.Expression, scope: Scope) -> None:
    if not isinstance(value, ast.MapOf):
        given = "a list" if isinstance(value, ast.ListOf) else "no map"
        fix = Direction("say which dim each is for: `[m: 6, n: 64]`")
        _wrong_type(transform, parameter, value, scope, given, fix)
        return
    seen: set[str] = set()
    for key, size in value.entries:
        if isinstance(key, ast.Name):
            if key.name in seen and parameter.type.kind is ParameterKind.DIM_SIZES:
                scope.problems.add(
                    f"the dim `{key.name}` stands twice in `{parameter.name}`", key.location, required="each dim once"
                )
            seen.add(key.name)
            note_dim(key, scope)
        else:
            check_expression(key, scope)
        given = check_expression(size, scope)
        if given not in (Static.INT, Static.SIZE, Static.ANY):
            scope.problems.add(
                "a tile size is a number",
                size.location,
                required="int or size",
                given=given.value,
                fix=conversion(given, Static.SIZE, size) or _unquoted(size),
            )


def _check_list(transform: type[Transform], parameter: Parameter, value: ast.Expression, scope: Scope) -> None:
    kind = parameter.type.kind
    if kind in (ParameterKind.DIMS, ParameterKind.LAYOUT):
        if isinstance(value, ast.ListOf):
            for item in value.items:
                _check_digit(transform, parameter, item, scope)
        elif kind is ParameterKind.LAYOUT or check_expression(value, scope) not in (Static.LIST, Static.ANY):
            _wrong_type(transform, parameter, value, scope, "no list")
        return
    given = check_expression(value, scope)
    if not parameter_accepts(kind, given):
        _wrong_type(transform, parameter, value, scope, given.value)


def _check_digit(transform: type[Transform], parameter: Parameter, item: ast.Expression, scope: Scope) -> None:
    """A dim; in a layout also `k/4`, `k%4` and `k pad 16`: the first name is the dim."""
    if isinstance(item, ast.Name):
        note_dim(item, scope)
        return
    if parameter.type.kind is ParameterKind.LAYOUT:
        if isinstance(item, ast.Padded):
            check_expression(item.to, scope)
            _check_digit(transform, parameter, item.digit, scope)
            return
        if isinstance(item, ast.Binary) and item.operator in ("/", "%"):
            check_expression(item.rhs, scope)
            _check_digit(transform, parameter, item.lhs, scope)
            return
    given = check_expression(item, scope) if isinstance(item, ast.Attribute) else Static.INT
    if given not in (Static.DIM, Static.ANY):
        required = "a dim, `k/4`, `k%4` or `k pad 16`" if parameter.type.kind is ParameterKind.LAYOUT else "a dim"
        scope.problems.add(
            f"`{parameter.name}` of `{transform.name}` lists dims",
            item.location,
            required=required,
            given=print_expression(item),
            fix=Direction("write the names of its dims, in their new order: `[n, m, k]`")
            if isinstance(item, ast.Literal)
            else None,
        )
