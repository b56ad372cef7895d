"""Checking operators: what both sides have to be, and what comes of it."""

from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.conversions import conversion
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.kinds import HANDLES, Static

_NUMBERS = frozenset((Static.INT, Static.SIZE, Static.FLOAT, Static.ANY))
_ORDERED = ("<", "<=", ">", ">=")


def check_binary(expression: ast.Binary, lhs: Static, rhs: Static, scope: Scope) -> Static:
    """The type of `lhs OPERATOR rhs`, whose sides are of these types."""
    operator = expression.operator
    if operator in ("and", "or"):
        expect_bool(lhs, expression.lhs, scope)
        expect_bool(rhs, expression.rhs, scope)
        return Static.BOOL
    if operator in ("==", "!="):
        _check_comparable(expression, lhs, rhs, scope)
        return Static.BOOL
    if operator == "+" and lhs is rhs is Static.STRING:
        return Static.STRING
    given = {expect_number(lhs, expression.lhs, scope), expect_number(rhs, expression.rhs, scope)}
    if operator in _ORDERED:
        return Static.BOOL
    if operator == "**" and Static.FLOAT in given:
        scope.problems.add("`**` is on integers", expression.location, required="int", given=Static.FLOAT.value)
    order = (Static.ANY, Static.FLOAT, Static.SIZE, Static.INT)
    return next(s for s in order if s in given)


def _check_comparable(expression: ast.Binary, lhs: Static, rhs: Static, scope: Scope) -> None:
    alike = lhs is rhs or Static.ANY in (lhs, rhs) or {lhs, rhs} <= _NUMBERS or {lhs, rhs} <= HANDLES
    if not alike:
        scope.problems.add(
            "these are never equal",
            expression.location,
            required="two values of one type",
            given=f"{lhs.value} and {rhs.value}",
        )


def expect_bool(given: Static, condition: ast.Expression, scope: Scope) -> None:
    """Add a problem where a condition is of another type."""
    if given not in (Static.BOOL, Static.ANY):
        scope.problems.add("a condition is true or false", condition.location, required="bool", given=given.value)


def expect_number(given: Static, expression: ast.Expression, scope: Scope) -> Static:
    """The type of a number; ANY, and a problem, where it is none."""
    if given not in _NUMBERS:
        scope.problems.add(
            "arithmetic is on numbers",
            expression.location,
            required="int, size or float",
            given=given.value,
            fix=conversion(given, Static.SIZE, expression),
        )
        return Static.ANY
    return given
