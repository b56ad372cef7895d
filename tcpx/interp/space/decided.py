"""What sizes that a kernel is called with decide of the conditions of its versions."""

from collections.abc import Mapping

from tcpx.interp.conditions import Condition, alternatives_of


def surely_holds(condition: Condition | None, sizes: Mapping[str, int]) -> bool:
    """Whether a condition holds for these sizes, as far as they decide it."""
    return condition is not None and _decided(condition, sizes) is True


def may_hold(condition: Condition | None, sizes: Mapping[str, int]) -> bool:
    """Whether nothing in these sizes keeps a condition from holding."""
    return condition is None or _decided(condition, sizes) is not False


def _decided(condition: Condition, sizes: Mapping[str, int]) -> bool | None:
    """None where it mentions a loop variable, or a symbol without a value."""
    alternatives = alternatives_of(condition)
    names = {symbol.name for predicate in alternatives for symbol in predicate.symbols()}
    if not names <= sizes.keys() or any(predicate.variables() for predicate in alternatives):
        return None
    return any(predicate.evaluate(sizes) for predicate in alternatives)
