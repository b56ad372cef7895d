"""What of a size expression is too large for the 64-bit integers of C, or too long to work with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tcpx.limits import INT64_MAX, MOST_SIZE_FACTORS, MOST_SIZE_PARTS, MOST_SIZE_TERMS, fits_int64, shortened
from tcpx.payload.size_expressions import Atom, CeilDiv, Dim, FloorDiv, Max, Min, Mod, Var
from tcpx.payload.size_traversal import operands


@dataclass(frozen=True, slots=True)
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
    """What is too large in a constant, a coefficient or the length; numbers in operands are not seen."""
    if isinstance(size, int):
        return too_large(size)
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
    found = (too_large(c, "a number in the size") for c in (size.constant, *(c for _, c in size.terms)))
    return next((held for held in found if held is not None), None)


def excess_of_product(lhs: Dim, rhs: Dim) -> Excess | None:
    """What would be too long in `lhs * rhs` multiplied out, found without multiplying."""
    if isinstance(lhs, int) or isinstance(rhs, int):
        return None
    terms = (len(lhs.terms) + bool(lhs.constant)) * (len(rhs.terms) + bool(rhs.constant))
    factors = sum(max(len(monomial) for monomial, _ in side.terms) for side in (lhs, rhs))
    if factors > MOST_SIZE_FACTORS:
        return _too_many_factors(factors)
    return _too_many_terms(terms) if terms > MOST_SIZE_TERMS else None


def _too_many_terms(count: int) -> Excess:
    return Excess("the size expression is too long", f"at most {MOST_SIZE_TERMS} terms, multiplied out", f"{count}")


def _too_many_factors(count: int) -> Excess:
    return Excess("the size expression is too long", f"at most {MOST_SIZE_FACTORS} factors in a term", f"{count}")


def magnitude(size: Dim, largest: Mapping[str, int]) -> int:
    """A number that no intermediate result exceeds, in absolute value, when C computes a size in any order.

    `largest` bounds the absolute value of each symbol, by name.
    """
    return _Magnitudes(largest).of(size)


class _Magnitudes:
    """Magnitudes of what one expression mentions; every atom is looked at once."""

    __slots__ = ("_known",)

    def __init__(self, largest: Mapping[str, int]) -> None:
        self._known = dict(largest)

    def of(self, size: Dim) -> int:
        if isinstance(size, int):
            return abs(size)
        factors = ((c, prod(max(1, self._atom(atom)) for atom in monomial)) for monomial, c in size.terms)
        return abs(size.constant) + sum(abs(c) * factor for c, factor in factors)

    def _atom(self, atom: Atom) -> int:
        known = self._known.get(atom.text)
        if known is None:
            known = self._known[atom.text] = self._computed(atom)
        return known

    def _computed(self, atom: Atom) -> int:
        match atom:
            case Var(lower=lower, upper=upper, step=step):
                return max(self.of(lower), self.of(upper)) + self.of(step)
            case FloorDiv() | CeilDiv() | Mod() | Min() | Max():
                return max(map(self.of, operands(atom)))
            case _:
                raise TypeError(f"the size {atom.text} has no bound")


def excess_of_memory(shape: Sequence[Dim], width: int) -> Excess | None:
    """What to say of a memory whose static extents, elements of `width` bytes, are more than C can address."""
    total = width * prod(max(1, extent) for extent in shape if isinstance(extent, int))
    if total <= INT64_MAX:
        return None
    return Excess("the type takes too much memory", "less than 2**63 bytes", f"{shortened(total)} bytes")
