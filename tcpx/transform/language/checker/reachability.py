"""Branches, arms and alternatives that can never be chosen, because of those before them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from tcpx.payload.ir import operation_classes
from tcpx.records import frozen
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.scope import Scope

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def check_alternatives(statement: ast.Try, scope: Scope) -> None:
    """Behind an alternative of `try` that cannot fail, nothing is tried."""
    rest: list[ast.Node] = [*statement.alternatives[1:], *([statement.orelse] if statement.orelse else [])]
    for alternative, behind in zip(statement.alternatives, rest, strict=False):
        if _cannot_fail(alternative):
            scope.problems.add(
                "this alternative is never tried",
                behind.location,
                required="an alternative before it that can fail",
                given=f"the one at {alternative.location} cannot",
            )
            return


def _cannot_fail(block: ast.Block) -> bool:
    return all(_is_safe(statement) for statement in block.statements)


def _is_safe(statement: ast.Statement) -> bool:
    match statement:
        case ast.Do():
            return statement.optional
        case ast.Let():
            return statement.optional or isinstance(statement.value, ast.Literal | ast.Name)
        case ast.Return():
            return all(isinstance(v, ast.Literal | ast.Name) for v in statement.values)
        case ast.Try():
            is_lone = statement.orelse is None and len(statement.alternatives) == 1
            return is_lone or isinstance(statement.orelse, ast.Remark)
        case _:
            return False


# -- arms of `case` ----------------------------------------------------------------------------------------------


def check_arms(statement: ast.Case, scope: Scope) -> None:
    """An arm, or the `else`, behind an arm that takes all it could take."""
    for k, arm in enumerate(statement.arms):
        taken = next((a for a in statement.arms[:k] if _takes_all_of(a, arm.pattern)), None)
        if taken is not None:
            _never_reached("this arm is never reached", arm, taken, scope)
    last = statement.orelse
    everything = next((a for a in statement.arms if a.pattern.op_class == "op" and _is_unconditional(a)), None)
    if last is not None and everything is not None:
        _never_reached("this `else` is never reached", last, everything, scope)


def _never_reached(message: str, node: ast.Node, taken: ast.Arm, scope: Scope) -> None:
    scope.problems.add(
        message,
        node.location,
        required="an arm that those before it leave something",
        given=f"`{taken.pattern.op_class or taken.pattern.glob}` at {taken.location} takes all of it",
    )


def _is_unconditional(arm: ast.Arm) -> bool:
    return arm.where is None and not arm.pattern.glob and not arm.pattern.equations


def _takes_all_of(arm: ast.Arm, pattern: ast.Pattern) -> bool:
    if arm.pattern.equations or arm.where is not None or arm.pattern.glob not in ("", pattern.glob):
        return False
    wide, narrow = arm.pattern.op_class, pattern.op_class
    return wide in ("", "op", narrow) or wide in classes_above(narrow)


@lru_cache(maxsize=256)
def classes_above(name: str) -> frozenset[str]:
    """The classes of the operation tree that all operations of a class, or of an opcode, are in."""
    found = [
        frozenset(_class_names(base))
        for opcode, op in operation_classes().items()
        for base in op.__mro__
        if base.__dict__.get("class_name") == name or (base is op and opcode.rpartition(".")[2] == name)
    ]
    return frozenset(name for name in found[0] if all(name in other for other in found)) if found else frozenset()


def _class_names(op: type) -> Iterator[str]:
    for base in op.__mro__:
        held = base.__dict__.get("class_name")
        if isinstance(held, str) and held:
            yield held


# -- conditions --------------------------------------------------------------------------------------------------


def check_conditions(branches: Sequence[ast.Branch], scope: Scope) -> None:
    """A branch whose condition is false, or implies that of a branch before it."""
    for k, branch in enumerate(branches):
        given = ""
        if _is_literal(branch.condition, False):
            given = "`false`"
        for earlier in branches[:k]:
            if _is_literal(earlier.condition, True) or _implies(branch.condition, earlier.condition):
                given = f"the condition at {earlier.location} holds wherever this one does"
        if given:
            scope.problems.add(
                "this branch is never taken",
                branch.location,
                required="a condition that the branches before it leave room for",
                given=given,
            )


def _is_literal(condition: ast.Expression, value: bool) -> bool:
    return isinstance(condition, ast.Literal) and condition.value is value


@frozen
class _Bounds:
    """`subject` is from `lower` to `upper`."""

    subject: ast.Expression
    lower: float
    upper: float


def _implies(condition: ast.Expression, other: ast.Expression) -> bool:
    """Whether `other` holds wherever `condition` does, as far as can be seen from the text."""
    if isinstance(condition, ast.Binary) and condition.operator == "or":
        return all(_implies(part, other) for part in _parts(condition, "or"))
    if isinstance(other, ast.Binary) and other.operator in ("and", "or"):
        implied = (_implies(condition, part) for part in _parts(other, other.operator))
        return all(implied) if other.operator == "and" else any(implied)
    return any(_conjunct_implies(held, other) for held in _parts(condition, "and"))


def _parts(condition: ast.Expression, operator: str) -> Iterator[ast.Expression]:
    """What a chain of one operator joins."""
    if isinstance(condition, ast.Binary) and condition.operator == operator:
        yield from _parts(condition.lhs, operator)
        yield from _parts(condition.rhs, operator)
    else:
        yield condition


def _conjunct_implies(held: ast.Expression, wanted: ast.Expression) -> bool:
    if held == wanted:
        return True
    a, b = _bounds(held), _bounds(wanted)
    return a is not None and b is not None and a.subject == b.subject and b.lower <= a.lower and a.upper <= b.upper


def _bounds(condition: ast.Expression) -> _Bounds | None:
    """A comparison of something with a number as an interval of integers."""
    if not isinstance(condition, ast.Binary):
        return None
    operator, subject, limit = condition.operator, condition.lhs, condition.rhs
    if isinstance(subject, ast.Literal):
        operator, subject, limit = _FLIPPED.get(operator, operator), limit, subject
    if not isinstance(limit, ast.Literal) or not isinstance(limit.value, int):
        return None
    number, infinity = limit.value, float("inf")
    match operator:
        case "<":
            return _Bounds(subject, -infinity, number - 1)
        case "<=":
            return _Bounds(subject, -infinity, number)
        case ">":
            return _Bounds(subject, number + 1, infinity)
        case ">=":
            return _Bounds(subject, number, infinity)
        case "==":
            return _Bounds(subject, number, number)
        case _:
            return None
