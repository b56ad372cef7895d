"""Formulas over knobs: their value where all knobs are known, bounds of it where only ranges are."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from math import inf, isnan, isqrt
from typing import Final, cast

from tcpx.limits import LARGEST_DIVIDED, LONGEST_LIST, fits_int64
from tcpx.records import frozen

Number = int | float
Value = int | float | bool | str | tuple["Value", ...]
Interval = tuple[Number, Number]
"""The least and the greatest value; of a condition (0, 0), (1, 1) or, undecided, (0, 1)."""
Values = Mapping[str, Value]
Operation = Callable[..., Value]
Ranges = Mapping[str, Interval]

ANYTHING: Final[Interval] = (-inf, inf)
UNDECIDED: Final[Interval] = (0, 1)


Origin = tuple[Callable[..., object], tuple[object, ...]]


class FormulaError(Exception):
    """A formula has no value for these knobs: a division by zero, a number beyond 64 bits."""


@frozen
class Formula:
    """`value` raises FormulaError and needs all `knobs`, by path; `bounds` holds whatever knobs are missing.

    `text` is the same for formulas that are. A guess read sizes of the payload behind steps that may change them.
    """

    text: str
    knobs: frozenset[str]
    value: Callable[[Values], Value]
    bounds: Callable[[Ranges], Interval]
    is_guess: bool = False
    origin: Origin = field(kw_only=True, compare=False, repr=False)
    """The function below that makes it, and its arguments: what it is pickled as."""

    def __reduce__(self) -> Origin:
        return self.origin

    @property
    def is_constant(self) -> bool:
        """Whether no knob takes part in it."""
        return not self.knobs


def constant(held: Value, is_guess: bool = False) -> Formula:
    """A value that no knob changes."""
    interval: Interval = (held, held) if isinstance(held, int | float) else ANYTHING
    origin = constant, (held, is_guess)
    return Formula(repr(held), frozenset(), lambda _: held, lambda _: interval, is_guess, origin=origin)


def guessed(formula: Formula) -> Formula:
    """The formula, where sizes of the payload that it was made of may turn out to be different."""
    return replace(formula, is_guess=True, origin=(guessed, (formula,)))


def knob(path: str) -> Formula:
    """The value of a knob."""
    text, knobs = f"<{path}>", frozenset((path,))
    return Formula(text, knobs, lambda v: v[path], lambda r: r.get(path, ANYTHING), origin=(knob, (path,)))


def apply(name: str, operands: Sequence[Formula]) -> Formula | None:
    """The result of an operator or built-in function; None for one that is not among `OPERATIONS`."""
    held = OPERATIONS.get(name)
    if held is None:
        return None
    if len(operands) == 1:
        of = operands[0].value

        def value(values: Values) -> Value:
            return _checked(held, of(values))
    else:
        of_each = tuple(operand.value for operand in operands)

        def value(values: Values) -> Value:
            return _checked(held, *[each(values) for each in of_each])

    return _made(name, operands, value, _bounds_of(name, held, operands), (apply, (name, operands)))


def chosen(condition: Formula, then: Formula, orelse: Formula) -> Formula:
    """`then if condition else orelse`."""

    def value(values: Values) -> Value:
        return then.value(values) if condition.value(values) else orelse.value(values)

    def bounds(ranges: Ranges) -> Interval:
        low, high = condition.bounds(ranges)
        if low == high:
            return (then if low else orelse).bounds(ranges)
        one, other = then.bounds(ranges), orelse.bounds(ranges)
        return min(one[0], other[0]), max(one[1], other[1])

    operands = condition, then, orelse
    return _made("if", operands, value, bounds, (chosen, operands))


def either(alternatives: Sequence[Sequence[Formula]]) -> Formula:
    """Whether all formulas of one of the alternatives hold; one about knobs that do not count does not."""

    def holds(formulas: Sequence[Formula], values: Values) -> bool:
        try:
            return all(formula.value(values) for formula in formulas)
        except KeyError:
            return False

    operands = list(dict.fromkeys(formula for formulas in alternatives for formula in formulas))
    text = "".join(f"|{'&'.join(formula.text for formula in formulas)}" for formulas in alternatives)

    def value(values: Values) -> Value:
        return any(holds(formulas, values) for formulas in alternatives)

    return _made(text, operands, value, lambda _: UNDECIDED, (either, (alternatives,)))


def listed(items: Sequence[Formula]) -> Formula:
    """`[a, b]`."""

    def value(values: Values) -> Value:
        return tuple(item.value(values) for item in items)

    return _made("[]", items, value, lambda _: ANYTHING, (listed, (items,)))


def _made(
    name: str,
    operands: Sequence[Formula],
    value: Callable[[Values], Value],
    bounds: Callable[[Ranges], Interval],
    origin: Origin,
) -> Formula:
    text = f"{name}({', '.join(operand.text for operand in operands)})"
    knobs = frozenset[str]().union(*(operand.knobs for operand in operands))
    is_guess = any(operand.is_guess for operand in operands)
    if not knobs:
        try:
            return constant(value({}), is_guess)
        except FormulaError:
            pass  # it has no value; whoever asks for it learns why
    return Formula(text, knobs, value, bounds, is_guess, origin=origin)


def _checked(held: Callable[..., Value], *operands: Value) -> Value:
    try:
        made = held(*operands)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormulaError(str(error)) from error
    if isinstance(made, int) and not fits_int64(made):
        raise FormulaError("a number beyond 64 bits")
    return made


def _bounds_of(name: str, held: Callable[..., Value], operands: Sequence[Formula]) -> Callable[[Ranges], Interval]:
    """Of operations that are monotone in each operand: the least and greatest value at the corners."""
    if name in ("==", "!="):
        return _bounds_of_equality(name, operands)
    if name in SHORT_CUTS and len(operands) == 2:
        (lhs, rhs), of_two = (operand.bounds for operand in operands), SHORT_CUTS[name]
        return lambda ranges: of_two(lhs(ranges), rhs(ranges))
    unknown = UNDECIDED if name in CONDITIONS else ANYTHING
    if name not in MONOTONE and name not in DIVISIONS:
        return lambda _: unknown

    def bounds(ranges: Ranges) -> Interval:
        intervals = [operand.bounds(ranges) for operand in operands]
        if name in DIVISIONS and (intervals[1][0] < 1 or ANYTHING in intervals):
            return unknown
        try:
            corners = [cast("Number", held(*corner)) for corner in product(*intervals)]
        except (TypeError, ValueError, ArithmeticError):
            return unknown
        if any(isnan(corner) for corner in corners):
            return unknown
        return min(corners), max(corners)

    return bounds


def _bounds_of_equality(name: str, operands: Sequence[Formula]) -> Callable[[Ranges], Interval]:
    lhs, rhs = operands

    def bounds(ranges: Ranges) -> Interval:
        (a, b), (c, d) = lhs.bounds(ranges), rhs.bounds(ranges)
        if b < c or d < a:
            return (0, 0) if name == "==" else (1, 1)
        if a == b == c == d:
            return (1, 1) if name == "==" else (0, 0)
        return UNDECIDED

    return bounds


def _product(lhs: Interval, rhs: Interval) -> Interval:
    (a, b), (c, d) = lhs, rhs
    if a >= 0 and c >= 0 and b < inf and d < inf:
        return a * c, b * d
    corners = (a * c, a * d, b * c, b * d)
    return ANYTHING if any(isnan(corner) for corner in corners) else (min(corners), max(corners))


SHORT_CUTS: Final[Mapping[str, Callable[[Interval, Interval], Interval]]] = {
    "+": lambda lhs, rhs: (lhs[0] + rhs[0], lhs[1] + rhs[1]),
    "-": lambda lhs, rhs: (lhs[0] - rhs[1], lhs[1] - rhs[0]),
    "*": _product,
    "<": lambda lhs, rhs: (lhs[1] < rhs[0], lhs[0] < rhs[1]),
    "<=": lambda lhs, rhs: (lhs[1] <= rhs[0], lhs[0] <= rhs[1]),
    ">": lambda lhs, rhs: (lhs[0] > rhs[1], lhs[1] > rhs[0]),
    ">=": lambda lhs, rhs: (lhs[0] >= rhs[1], lhs[1] >= rhs[0]),
}
"""The same as the corners say, for what constraints are mostly made of."""


def _floor_divide(a: Number, b: Number) -> Number:
    return a / b if isinstance(a, float) or isinstance(b, float) else a // b


def _power(a: int, b: int) -> int:
    if b < 0 or (abs(a) > 1 and b > 64):
        raise ValueError("an exponent below 0 or above 64")
    return a**b


def _ceildiv(a: int, b: int) -> int:
    if b < 1:
        raise ValueError("a divisor below 1")
    return -(-a // b)


def _align_up(a: int, b: int) -> int:
    return _ceildiv(a, b) * b


def _negative(a: Number) -> Number:
    return -a


def _least(*items: Value) -> Value:
    return min(cast("Sequence[Number]", items[0] if len(items) == 1 else items))


def _greatest(*items: Value) -> Value:
    return max(cast("Sequence[Number]", items[0] if len(items) == 1 else items))


def _range(a: int, b: int) -> tuple[int, ...]:
    return _short(range(a, b + 1))


def pow2(low: int, high: int) -> tuple[int, ...]:
    """The powers of 2 from `low` to `high`."""
    return tuple(1 << k for k in range(max(high, 0).bit_length()) if low <= 1 << k <= high)


def _multiples(step: int, high: int) -> tuple[int, ...]:
    if step < 1:
        raise ValueError("multiples of a number below 1")
    return _short(range(step, high + 1, step))


def _short(items: range) -> tuple[int, ...]:
    if len(items) > LONGEST_LIST:
        raise ValueError("a list that is too long")
    return tuple(items)


def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a number, in order."""
    if not 0 < number <= LARGEST_DIVIDED:
        raise ValueError("divisors of a number out of range")
    small = [k for k in range(1, isqrt(number) + 1) if number % k == 0]
    return tuple(sorted({*small, *(number // k for k in small)}))


def _contains(items: tuple[Value, ...], item: Value) -> bool:
    return item in items


def up_to(items: tuple[Value, ...], limit: int) -> tuple[Value, ...]:
    """The numbers below a limit, and the first that is not: larger ones do what that one does."""
    beyond = sorted(item for item in items if isinstance(item, int | float) and item >= limit)
    return tuple(item for item in items if item not in beyond[1:])


def _length(items: tuple[Value, ...]) -> int:
    return len(items)


OPERATIONS: Final[Mapping[str, Operation]] = {
    "+": cast("Operation", operator.add),
    "-": cast("Operation", operator.sub),
    "*": cast("Operation", operator.mul),
    "/": _floor_divide,
    "%": cast("Operation", operator.mod),
    "**": _power,
    "negate": _negative,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "not": operator.not_,
    "min": _least,
    "max": _greatest,
    "ceildiv": _ceildiv,
    "align_up": _align_up,
    "..": _range,
    "pow2": pow2,
    "multiples": _multiples,
    "divisors": divisors,
    "contains": _contains,
    "len": _length,
    "up_to": up_to,
}
"""What the language computes with numbers alone, by its name there (semantics as in `tcpx/interp/arithmetic.py`)."""
CONDITIONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">=", "not", "contains"))
MONOTONE: Final = frozenset(("negate", "not", "min", "max"))
"""In each operand, the others held; so the extremes over a box lie at its corners."""
DIVISIONS: Final = frozenset(("/", "ceildiv"))
"""Monotone where the divisor is at least 1."""
