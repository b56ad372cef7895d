"""Linear arithmetic over sizes: whether conditions contradict one another.

The proofs of `bounds.py` bound one size; these combine conditions. Each product of atoms is an unknown. Unknowns are
eliminated as by Fourier and Motzkin (Schrijver, Theory of Linear and Integer Programming, 12.2), after what an unknown
is has been said by conditions, too: a maximum is at least its arguments, and one of them. The latter is decided by
cases. Equations are eliminated before, over the integers (Pugh, The Omega Test, 1991, 2.2). The work is capped; beyond
the cap nothing is proved, never something wrong.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import Final

from tcpx.payload.sizes.arithmetic import floordiv
from tcpx.payload.sizes.bounds import known_divisor, lower_bound, upper_bound
from tcpx.payload.sizes.expressions import (
    CeilDiv,
    Dim,
    Extremum,
    FloorDiv,
    Max,
    Mod,
    Monomial,
    Size,
    Term,
    Var,
    make,
    scale,
)
from tcpx.payload.sizes.proof_form import content

MOST_ROWS: Final = 200
"""Conditions after an elimination."""
MOST_CASES: Final = 300
"""Choices of an argument for each maximum and minimum."""

Choices = Mapping[Monomial, Sequence[Dim]]
"""The arguments of maxima and minima."""


def are_contradictory(sizes: Sequence[Dim]) -> bool:
    """Whether it is proved that these sizes are never all at least 0."""
    rows, choices = _with_what_unknowns_are(sizes)
    return _Cases().never_hold(rows, choices)


class _Cases:
    """The search through the cases of maxima and minima."""

    def __init__(self) -> None:
        self._left = MOST_CASES

    def never_hold(self, rows: Sequence[Dim], choices: Choices) -> bool:
        """Whether the rows are nowhere all at least 0, whichever argument each maximum and minimum is."""
        self._left -= 1
        if self._left < 0:
            return False
        if _are_infeasible(rows):
            return True
        for unknown, arguments in choices.items():
            others = {other: args for other, args in choices.items() if other != unknown}
            return all(
                self.never_hold(
                    [_replaced(row, unknown, value) for row in rows],
                    {other: [_replaced(arg, unknown, value) for arg in args] for other, args in others.items()},
                )
                for value in arguments
            )
        return False


def _with_what_unknowns_are(sizes: Sequence[Dim]) -> tuple[list[Dim], dict[Monomial, Sequence[Dim]]]:
    """The sizes with others that are at least 0 by what their unknowns are, and the maxima and minima among these."""
    rows, pending, seen = [*sizes], [*sizes], dict[Monomial, None]()
    choices: dict[Monomial, Sequence[Dim]] = {}
    while pending:
        size = pending.pop(0)
        for unknown in _unknowns(size):
            if unknown not in seen:
                seen[unknown] = None
                bounds = [*_bounds(unknown)]
                rows += bounds
                pending += bounds
                if len(unknown) == 1 and isinstance(unknown[0], Extremum):
                    choices[unknown] = unknown[0].args
    return rows, choices


def _bounds(unknown: Monomial) -> Iterator[Dim]:
    """Sizes that are at least 0 because of what an unknown is."""
    size = make({unknown: 1}, 0)
    match unknown:
        case (Extremum(args=args) as extremum,):
            yield from (size - arg if isinstance(extremum, Max) else arg - size for arg in args)
        case (Var(lower=lower, upper=upper, step=step),):
            yield size - lower
            yield upper - 1 - size
            yield from _in_steps(size - lower, step)
        case (FloorDiv(lhs=lhs, rhs=int() as rhs),):
            yield lhs - rhs * size
            yield rhs * size + (rhs - 1) - lhs
        case (FloorDiv(lhs=lhs, rhs=rhs),):
            yield size - floordiv(_at_end(lhs, is_last=False), rhs)
            yield floordiv(_at_end(lhs, is_last=True), rhs) - size
        case (CeilDiv(lhs=lhs, rhs=int() as rhs),):
            yield rhs * size - lhs
            yield lhs + (rhs - 1) - rhs * size
        case (CeilDiv(lhs=lhs, rhs=rhs),):
            quotient = floordiv(lhs - 1, rhs) + 1
            yield from (size - quotient, quotient - size)
        case (Mod(lhs=lhs, rhs=rhs),):
            quotient = floordiv(lhs, rhs)
            yield from (size, rhs - 1 - size, lhs - rhs * quotient - size, size - lhs + rhs * quotient)
        case _:
            lower, upper = lower_bound(size), upper_bound(size)
            yield from () if lower is None else (size - lower,)
            yield from () if upper is None else (upper - size,)
            yield from _in_steps(size, known_divisor(size))


def _in_steps(size: Dim, step: Dim) -> Sequence[Dim]:
    """Sizes that are at least 0 where another one is a multiple of a number."""
    if not isinstance(step, int) or step == 1:
        return ()
    rest = size - step * FloorDiv(size, step).size()
    return rest, -rest


def _at_end(size: Dim, is_last: bool) -> Dim:
    """What a sum is at most, or at least, by the first and the last values of the loop variables that it is of."""
    found = size
    for unknown, coefficient in () if isinstance(size, int) else size.terms:
        match unknown:
            case (Var() as var,):
                end = var.upper - 1 if (coefficient > 0) == is_last else var.lower
                found = found + coefficient * (end - var.size())
            case _:
                pass
    return found


Rows = dict[tuple[Term, ...], int]
"""Sums that are at least 0: a constant by the terms it is added to. The coefficients have no common divisor."""


def _are_infeasible(sizes: Sequence[Dim]) -> bool:
    """Whether sizes are nowhere all at least 0, each unknown being any integer."""
    rows = _without_equations(_tightest(sizes))
    while rows and len(rows) <= MOST_ROWS:
        below: dict[Monomial, list[Size]] = {}
        above: dict[Monomial, list[Size]] = {}
        for terms, constant in rows.items():
            for unknown, coefficient in terms:
                (below if coefficient > 0 else above).setdefault(unknown, []).append(Size(terms, constant))
        unknown = min((below | above), key=lambda u: _growth(len(below.get(u, ())), len(above.get(u, ()))))
        gone = {row.terms for row in (*below.get(unknown, ()), *above.get(unknown, ()))}
        rest = [Size(terms, constant) for terms, constant in rows.items() if terms not in gone]
        sums = (_without(unknown, a, b) for a in below.get(unknown, ()) for b in above.get(unknown, ()))
        rows = _tightest([*rest, *sums])
    return rows is None


def _without_equations(rows: Rows | None) -> Rows | None:
    """Rows that are satisfied by integers where these are, without two that say together that a sum is 0; None if that
    is seen to be impossible.

    An unknown with a coefficient of 1 is what the others say. Else it stands for itself with whole multiples of the
    others added, by which the coefficients become smaller, as in Euclid's algorithm.
    """
    while rows and len(rows) <= MOST_ROWS and (equation := _equation(rows)) is not None:
        unknown, divisor = min(equation.terms, key=lambda term: abs(term[1]))
        parts = {other: -(c // divisor) for other, c in equation.terms if other != unknown}
        rest = make(parts, -(equation.constant // divisor))
        value = rest if abs(divisor) == 1 else make({unknown: 1}, 0) + rest
        rows = _tightest(_replaced(Size(terms, constant), unknown, value) for terms, constant in rows.items())
    return rows


def _equation(rows: Rows) -> Size | None:
    """A sum that is 0 since neither it nor its opposite is below 0."""
    for terms, constant in rows.items():
        if rows.get(tuple([(unknown, -c) for unknown, c in terms])) == -constant:
            return Size(terms, constant)
    return None


def _growth(below: int, above: int) -> int:
    """How many conditions more there are once an unknown is eliminated that so many bound from below and from above."""
    return below * above - below - above


def _without(unknown: Monomial, a: Size, b: Size) -> Dim:
    """A sum of two sizes, times positive numbers, in which an unknown is not."""
    x, y = dict(a.terms)[unknown], -dict(b.terms)[unknown]
    common = gcd(x, y)
    return scale(a, y // common) + scale(b, x // common)


def _tightest(sizes: Iterable[Dim]) -> Rows | None:
    """Sizes that are at least 0, each with the least constant; None if one is a constant below 0."""
    rows: Rows = {}
    for size in sizes:
        if isinstance(size, int):
            if size < 0:
                return None
            continue
        common = content(c for _, c in size.terms)
        terms, constant = tuple((unknown, c // common) for unknown, c in size.terms), size.constant // common
        rows[terms] = min(constant, rows.get(terms, constant))
    return rows


def _unknowns(size: Dim) -> Sequence[Monomial]:
    return () if isinstance(size, int) else [unknown for unknown, _ in size.terms]


def _replaced(size: Dim, unknown: Monomial, value: Dim) -> Dim:
    """The size with a value in the place of an unknown."""
    coefficient = 0 if isinstance(size, int) else dict(size.terms).get(unknown, 0)
    return size + coefficient * (value - make({unknown: 1}, 0)) if coefficient else size
