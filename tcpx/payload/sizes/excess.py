"""What of a size expression is too large for the 64-bit integers of C, or too long to work with."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod

from tcpx.limits import (
    DEEPEST_COMPUTED,
    INT64_MAX,
    INT64_MIN,
    MOST_COMPUTED_PARTS,
    MOST_COUNT_TERMS,
    MOST_SIZE_FACTORS,
    MOST_SIZE_PARTS,
    MOST_SIZE_TERMS,
    fits_int64,
    shortened,
)
from tcpx.payload.sizes.expressions import Atom, CeilDiv, Dim, Extremum, FloorDiv, Min, Mod, Size, Var, atoms
from tcpx.records import frozen


@frozen
class Excess:
    """What was required of a size and what was found; the words of a diagnostic."""

    message: str
    required: str
    found: str


def too_large(value: int, what: str = "the number") -> Excess | None:
    """What to say of a number that is not an int64; None if it is one."""
    if fits_int64(value):
        return None
    return Excess(f"{what} does not fit 64 bits", "an integer from -2**63 to 2**63 - 1", shortened(value))


def excess(size: Dim) -> Excess | None:
    """What is too large in a size that a user wrote: a constant, a coefficient or the length; numbers in operands are
    not seen."""
    return (
        None if isinstance(size, int) and INT64_MIN <= size <= INT64_MAX else _too_long(size) or excess_of_width(size)
    )


def excess_of_width(size: Dim) -> Excess | None:
    """What does not fit 64 bits in a size, however long it is: a constant or a coefficient."""
    if isinstance(size, int):
        return too_large(size)
    found = (too_large(c, "a number in the size") for c in (size.constant, *(c for _, c in size.terms)))
    return next((each for each in found if each is not None), None)


@lru_cache(maxsize=4096)
def _too_long(size: Dim) -> Excess | None:
    if isinstance(size, int):
        return None
    if len(size.terms) > MOST_SIZE_TERMS:
        return _too_many_terms(len(size.terms))
    longest = max(len(monomial) for monomial, _ in size.terms)
    if longest > MOST_SIZE_FACTORS:
        return _too_many_factors(longest)
    parts = max(len(atom.inside) for monomial, _ in size.terms for atom in monomial)
    if parts > MOST_SIZE_PARTS:
        return Excess(
            "the size expression is too long", f"at most {MOST_SIZE_PARTS} parts within one another", f"{parts}"
        )
    return None


def excess_of_product(lhs: Dim, rhs: Dim) -> Excess | None:
    """What would be too long in `lhs * rhs` multiplied out, found without multiplying."""
    if isinstance(lhs, int) or isinstance(rhs, int):
        return None
    terms = (len(lhs.terms) + bool(lhs.constant)) * (len(rhs.terms) + bool(rhs.constant))
    factors = sum(max(len(monomial) for monomial, _ in side.terms) for side in (lhs, rhs))
    if factors > MOST_SIZE_FACTORS:
        return _too_many_factors(factors)
    return _too_many_terms(terms) if terms > MOST_SIZE_TERMS else None


def excess_of_computed(size: Size) -> Excess | None:
    """What is too long in a size that a model computes of others, one step after the other: unlike a text, each step
    may repeat the one before, so that the length doubles."""
    found = excess(size)
    if found is not None:
        return found
    parts, depth = _written(size)
    if parts > MOST_COMPUTED_PARTS:
        return Excess("the size expression is too long", f"at most {MOST_COMPUTED_PARTS} parts", f"{parts}")
    if depth > DEEPEST_COMPUTED:
        most = f"at most {DEEPEST_COMPUTED} calls within one another"
        return Excess("the size expression is too long", most, f"{depth}")
    return None


def _written(size: Dim) -> tuple[int, int]:
    """How many symbols and calls the text has, and how many calls are within one another."""
    parts = depth = 0
    for atom in atoms(size):
        inner = [_written(operand) for operand in atom.operands]
        parts += 1 + sum(count for count, _ in inner)
        depth = max(depth, bool(inner) + max((deepest for _, deepest in inner), default=0))
    return parts, depth


def _too_many_terms(count: int) -> Excess:
    return Excess("the size expression is too long", f"at most {MOST_SIZE_TERMS} terms, multiplied out", f"{count}")


def _too_many_factors(count: int) -> Excess:
    return Excess("the size expression is too long", f"at most {MOST_SIZE_FACTORS} factors in a term", f"{count}")


def magnitude(size: Dim, ranges: Mapping[str, tuple[int, int]]) -> int:
    """A number that no intermediate result exceeds, in absolute value, when C computes a size in any order.

    `ranges` has the smallest and the largest value of each symbol, by name.
    """
    if isinstance(size, int):
        return abs(size)
    intervals = _Intervals(ranges)
    low, high = intervals.of(size)
    return max(intervals.peak, -low, high)


class _Intervals:
    """Ranges of what one expression mentions; every atom is looked at once. `peak` bounds what was on the way."""

    __slots__ = ("_known", "peak")

    def __init__(self, ranges: Mapping[str, tuple[int, int]]) -> None:
        self._known = dict(ranges)
        self.peak = 0

    def of(self, size: Dim) -> tuple[int, int]:
        if isinstance(size, int):
            return size, size
        low = high = size.constant
        largest = abs(size.constant)
        for monomial, coefficient in size.terms:
            first, last, factor = coefficient, coefficient, abs(coefficient)
            for atom in monomial:
                least, most = self._atom(atom)
                corners = (first * least, first * most, last * least, last * most)
                first, last = min(corners), max(corners)
                factor *= max(1, abs(least), abs(most))
            low, high, largest = low + first, high + last, largest + factor
        self.peak = max(self.peak, largest)
        return low, high

    def _atom(self, atom: Atom) -> tuple[int, int]:
        known = self._known.get(atom.text)
        if known is None:
            known = self._known[atom.text] = self._computed(atom)
        return known

    def _computed(self, atom: Atom) -> tuple[int, int]:
        match atom:
            case Var(lower=lower, upper=upper, step=step):
                first, last, most = self.of(lower)[0], self.of(upper)[1], self.of(step)[1]
                self.peak = max(self.peak, abs(first) + most, abs(last) + most)
                return first, max(first, last)
            case Extremum(args=args):
                lows, highs = zip(*map(self.of, args), strict=True)
                pick = min if isinstance(atom, Min) else max
                return pick(lows), pick(highs)
            case FloorDiv(lhs=lhs, rhs=rhs) | CeilDiv(lhs=lhs, rhs=rhs):
                up = isinstance(atom, CeilDiv)
                divisors = [max(1, bound) for bound in self.of(rhs)]
                corners = [-(-n // d) if up else n // d for n in self.of(lhs) for d in divisors]
                return min(corners), max(corners)
            case Mod(lhs=lhs, rhs=rhs):
                self.of(lhs)
                return 0, max(1, self.of(rhs)[1]) - 1
            case _:
                raise TypeError(f"the size {atom.text} has no bound")


def excess_of_memory(shape: Sequence[Dim], width: int) -> Excess | None:
    """What to say of a memory whose static extents, elements of `width` bytes, are more than C can address."""
    total = width * prod(max(1, extent) for extent in shape if isinstance(extent, int))
    if total <= INT64_MAX:
        return None
    return Excess("the type takes too much memory", "less than 2**63 bytes", f"{shortened(total)} bytes")


def excess_of_count(shape: Sequence[Dim]) -> Excess | None:
    """What would be too long in the number of elements multiplied out, found without multiplying."""
    terms = prod(len(extent.terms) + bool(extent.constant) for extent in shape if isinstance(extent, Size))
    if terms <= MOST_COUNT_TERMS:
        return None
    required = f"at most {MOST_COUNT_TERMS} terms, multiplied out"
    return Excess("the number of elements is too long an expression", required, shortened(terms))
