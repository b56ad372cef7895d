"""Checking names: bound ones, those of the candidate of a `where`, dims and imports that are read by naming them."""

from collections.abc import Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import operation_classes
from tcpx.suggestions import closest, did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.builtins import ALWAYS_ASKED, CANDIDATE, CONSTANTS, FUNCTIONS, NAVIGATION
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.hints import FOREIGN_VALUES
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.vocabulary import known_names, may_have

_LONGEST_DIM: Final = 2
"""Letters of names that are those of dims, sizes or operands of a payload, as a rule."""


def check_name(expression: ast.Name, scope: Scope) -> Static:
    """The static type of a name; that it is read is noted, what is wrong with it is added to the problems."""
    binding = scope.lookup(expression.name)
    if binding is not None:
        binding.used = True
        if scope.in_where and expression.name == "it":
            scope.problems.add(
                "`it` is the candidate of this `where`, and a name outside of it",
                expression.location,
                required="another name outside",
                given=f"`it` bound at {binding.location}",
            )
        if binding.ended is not None:
            scope.problems.add(
                f"`{expression.name}` is gone",
                expression.location,
                required="a handle that has not ended",
                given=f"ended by the statement at {binding.ended}: {binding.ended.text.strip()}",
            )
            return Static.ANY
        return binding.static
    if expression.name in CONSTANTS:
        return CONSTANTS[expression.name]
    if scope.in_where and _is_candidate_name(expression.name):
        if expression.name != "it":
            check_candidate(expression.name, expression, scope)
        return NAVIGATION.get(expression.name, Static.ANY)
    known = [*scope.visible(), *CONSTANTS, "true", "false", *(CANDIDATE if scope.in_where else ())]
    fix = FOREIGN_VALUES.get(expression.name) or _meant(expression.name, known, scope)
    if expression.name in FUNCTIONS:
        fix = Direction(f"`{expression.name}` is a function: write `{FUNCTIONS[expression.name].signature}`")
    elif expression.name in scope.left:
        fix = Direction(f"`{expression.name}` of {scope.left[expression.name]} ends with the block it is bound in")
    elif expression.name == "it":
        fix = Direction("`it` is the candidate of a `where`; elsewhere, name the operation with `let`")
    elif fix is None and len(expression.name) <= _LONGEST_DIM:
        fix = _of_handle(scope)
    scope.problems.add(f"`{expression.name}` is not bound", expression.location, required="a name in scope", fix=fix)
    return Static.ANY


def _meant(name: str, known: Sequence[str], scope: Scope) -> str | None:
    """The nearest name; a single letter may as well be a dim of the operation of that name."""
    near = closest(name, known)
    bound = scope.lookup(near) if near is not None and len(name) == 1 else None
    if bound is not None and bound.static is Static.OP:
        return Direction(f"did you mean `{near}`, or its dim `{near}.{name}`?")
    return did_you_mean(name, known)


def _of_handle(scope: Scope) -> str | None:
    """How dims, sizes and operands are written of an operation that is bound."""
    bound = ((name, found) for name in scope.visible() if (found := scope.lookup(name)) is not None)
    handle = next((name for name, found in bound if found.static is Static.OP), None)
    if handle is None:
        return None
    return Direction(f"a dim is `{handle}.m`, its size `size({handle}.m)`, an operand `{handle}.rhs`")


def _is_candidate_name(name: str) -> bool:
    """Dims are named by the payload: `m`, `n2`, `oc`, `d0` are as good as any short name."""
    operands = {
        n for c in operation_classes().values() for n in (*c.signature.operand_names, *c.signature.named_operands)
    }
    return name in CANDIDATE or name in operands or len(name) <= 2


def check_candidate(name: str, where: ast.Node, scope: Scope) -> None:
    """A dim or operand that no candidate can have would make the condition fail silently."""
    if may_have(scope.candidate, name):
        return
    known = known_names(scope.candidate)
    scope.problems.add(
        f"no `{scope.candidate}` has `{name}`",
        where.location,
        required=f"a dim or operand of it ({', '.join(known) or 'it has none'}), or one of {', '.join(ALWAYS_ASKED)}",
        given=name,
        fix=did_you_mean(name, (*known, *ALWAYS_ASKED)),
    )


def note_dim(name: ast.Name, scope: Scope) -> None:
    """A bare name in a place declared `dim` is read if it may be bound to a dim, or to a list of them."""
    binding = scope.lookup(name.name)
    if binding is not None and binding.static in (Static.DIM, Static.LIST, Static.ANY):
        binding.used = True


def note_callee(function: ast.Expression, scope: Scope) -> None:
    """Count the import before the name of what is called as read."""
    if isinstance(function, ast.Attribute) and isinstance(function.base, ast.Name):
        scope.note_import(function.base.name)
