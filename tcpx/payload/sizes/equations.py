"""Equations between sizes: what they say of their symbols.

`2*floordiv(h + 1, 2) == h` holds for all even h and for no other: h is a multiple of 2. An equation of quotients of one
symbol by numbers repeats: for the values `r, r + period, r + 2*period, ..` of the symbol, with one remainder r, both
sides are linear. So two values decide whether it holds for all of them, for one, or for none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import lcm
from typing import Final

from tcpx.payload.sizes.bounds import lower_bound
from tcpx.payload.sizes.expressions import Atom, CeilDiv, Dim, FloorDiv, Mod, Size, Symbol, make, product, total
from tcpx.payload.sizes.proof_form import content
from tcpx.payload.sizes.traversal import evaluate, leaves
from tcpx.records import frozen

MOST_REMAINDERS: Final = 1 << 10
"""Remainders of a symbol that are looked at one by one."""
REMEMBERED: Final = 2**10


@frozen
class Solutions:
    """The values of a symbol for which an equation holds: all that have one of these remainders by a period, and
    others."""

    symbol: Symbol
    period: int
    remainders: Sequence[int]
    others: Sequence[int]

    @property
    def multiple_of(self) -> int:
        """What the values are all the multiples of, 1 where they are not all multiples of anything."""
        if self.others or not self.remainders:
            return 1
        step = self.period // len(self.remainders)
        return step if list(self.remainders) == list(range(0, self.period, step)) else 1

    @property
    def ends(self) -> tuple[int, int] | None:
        """The first and the last value, where there are finitely many; None where there are more, or none."""
        return None if self.remainders or not self.others else (min(self.others), max(self.others))

    @property
    def are_none(self) -> bool:
        """Whether the equation holds nowhere."""
        return not self.remainders and not self.others


def solutions(gap: Dim) -> Solutions | None:
    """Where a size is 0 that is a sum of quotients and remainders, by numbers, of one symbol; None for other sizes."""
    if isinstance(gap, int) or len(gap.leaves) != 1:
        return None
    (symbol,) = gap.leaves.values()
    if not isinstance(symbol, Symbol):
        return None
    return _solutions(gap, symbol, (symbol.lower, symbol.upper, symbol.multiple_of))


@lru_cache(maxsize=REMEMBERED)
def _solutions(gap: Size, symbol: Symbol, facts: tuple[int, int | None, int]) -> Solutions | None:
    lower, upper, step = facts
    period = _period(gap)
    if period is None:
        return None
    period = lcm(period, step)
    if period // step > MOST_REMAINDERS:
        return None
    remainders, others = list[int](), list[int]()
    for first in range(0, period, step):
        value = evaluate(gap, {symbol.name: first})
        rise = evaluate(gap, {symbol.name: first + period}) - value
        if rise == 0:
            remainders += [first] if value == 0 else []
        elif value % rise == 0:
            zero = first - value // rise * period
            others += [zero] if zero >= lower and (upper is None or zero <= upper) else []
    return Solutions(symbol, period, remainders, others)


def _period(size: Dim) -> int | None:
    """How far values of the symbol are apart between which a size is linear; None for other sizes."""
    period = 1
    for monomial, _ in () if isinstance(size, int) else size.terms:
        match monomial:
            case (Symbol(),):
                pass
            case (
                FloorDiv(lhs=lhs, rhs=int() as rhs)
                | CeilDiv(lhs=lhs, rhs=int() as rhs)
                | Mod(lhs=lhs, rhs=int() as rhs),
            ):
                inner = _period(lhs)
                if inner is None or rhs < 1:
                    return None
                period = lcm(period, inner * rhs)
            case _:
                return None
        if period > MOST_REMAINDERS * MOST_REMAINDERS:
            return None
    return period


def reduced(gap: Dim) -> Dim:
    """A size without the factors that all its terms have: 0 where the size is 0 and none of these factors is."""
    if isinstance(gap, int):
        return gap
    common = Counter(gap.terms[0][0]) if gap.constant == 0 else Counter[Atom]()
    for monomial, _ in gap.terms:
        common &= Counter(monomial)
    divisor = content([gap.constant, *(c for _, c in gap.terms)])
    parts = [
        coefficient // divisor * product(atom.size() for atom in (Counter(monomial) - common).elements())
        for monomial, coefficient in gap.terms
    ]
    return total([gap.constant // divisor, *parts])


def sides(gap: Dim) -> tuple[Dim, Dim]:
    """Two sizes that are equal where a size is 0, without signs."""
    terms = () if isinstance(gap, int) else gap.terms
    constant = gap if isinstance(gap, int) else gap.constant
    positive = make({m: c for m, c in terms if c > 0}, max(constant, 0))
    return positive, make({m: -c for m, c in terms if c < 0}, max(-constant, 0))


def value_of_symbol(gap: Dim, symbol: Symbol) -> Dim | None:
    """What a symbol is where a size is 0 that is linear in it; None where it is no size of the other symbols."""
    coefficient = 0 if isinstance(gap, int) else dict(gap.terms).get((symbol,), 0)
    if abs(coefficient) != 1:
        return None
    value = symbol.size() - coefficient * gap
    return None if symbol.text in leaves(value) else value


def value_of_quotient(gap: Dim) -> tuple[str, Dim] | None:
    """The first quotient, by its text, that a size is linear in, with what it is where the size is 0."""
    for monomial, coefficient in () if isinstance(gap, int) else gap.terms:
        if len(monomial) != 1 or abs(coefficient) != 1 or not isinstance(monomial[0], FloorDiv | CeilDiv):
            continue
        value = monomial[0].size() - coefficient * gap
        bound = lower_bound(value)
        if bound is not None and bound >= 0:
            return monomial[0].text, value
    return None
