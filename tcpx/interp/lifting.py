"""From the concrete domain to that of formulas: what has a formula as an operand is a formula."""

from collections.abc import Iterable

from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.space.formula import Formula, Value, apply, chosen, constant, listed
from tcpx.interp.values import RuntimeValue
from tcpx.payload.types import ScalarType


def plain_value(value: RuntimeValue) -> Value | None:
    """A value that a formula can give, a dtype by its name; None for others."""
    if isinstance(value, tuple):
        items = [plain_value(item) for item in value]
        return tuple(item for item in items if item is not None) if None not in items else None
    if isinstance(value, ScalarType):
        return value.name
    return value if isinstance(value, int | float | bool | str) else None


def has_formula(values: Iterable[RuntimeValue]) -> bool:
    """Whether one of these is a formula."""
    return any(isinstance(value, Formula) for value in values)


def lifted(value: RuntimeValue) -> Formula:
    """The formula that gives this value. Raises UnforeseenError for one that no formula gives, such as a handle."""
    if isinstance(value, Formula):
        return value
    plain = plain_value(value)
    if plain is None:
        raise UnforeseenError("a formula gives numbers, words and lists of them")
    return constant(plain)


def lifted_call(name: str, *operands: RuntimeValue) -> Formula:
    """An operator or function of formulas. Raises UnforeseenError where no formula says what it gives."""
    made = apply(name, [lifted(operand) for operand in operands])
    if made is None:
        raise UnforeseenError(name)
    return made


def lifted_list(items: Iterable[RuntimeValue]) -> Formula:
    """A list with a formula among its items."""
    return listed([lifted(item) for item in items])


def lifted_choice(condition: RuntimeValue, then: RuntimeValue, orelse: RuntimeValue) -> Formula:
    """The value of one of two branches, where a formula decides or takes part."""
    return chosen(lifted(condition), lifted(then), lifted(orelse))
