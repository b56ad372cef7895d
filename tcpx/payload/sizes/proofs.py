"""The search for bounds behind `bounds.py`.

One query rewrites its expression to the proof form (`proof_form.py`), then looks for the greatest provable lower
bound: loop variables go first, innermost first, by monotone substitution of their first or last value; then symbols;
`min` is split into its alternatives; `floordiv(a, b)` is replaced by (a - b + 1)/b <= . <= a/b or by its own range, the
difference of two quotients by one divisor by the quotient of the difference.
The work of a query is capped; beyond the cap the answer is "unknown", never wrong.
"""

from math import gcd
from typing import Final

from tcpx.payload.sizes.expressions import (
    Atom,
    Dim,
    FloorDiv,
    Min,
    Size,
    Symbol,
    Var,
    atoms,
    make,
    scale,
    total,
)
from tcpx.payload.sizes.monotone import direction
from tcpx.payload.sizes.proof_form import LONGEST_FORM, ProofForm, content, divide, expanded, floor_form, min_form
from tcpx.payload.sizes.traversal import leaves

WORK_LIMIT: Final = LONGEST_FORM
"""Terms one query may look at; about 20 ms when used up."""
NESTING_LIMIT: Final = 60
"""Sub-bounds within sub-bounds, which keeps within Python's own limit."""


class Query:
    """One question about sizes: proof form, memo and step budget."""

    __slots__ = ("_memo", "_nested", "_work", "form")

    def __init__(self, work: int = WORK_LIMIT) -> None:
        self.form = ProofForm()
        self._memo: dict[Dim, int | None] = {}
        self._work = work
        self._nested = 0

    def upper(self, d: Dim) -> int | None:
        """The smallest provable upper bound of a proof form."""
        low = self.lower(-d)
        return None if low is None else -low

    def lower(self, d: Dim) -> int | None:
        """The greatest provable lower bound of a proof form."""
        if isinstance(d, int):
            return d
        common = content(c for _, c in d.terms)
        primitive = Size(tuple((m, c // common) for m, c in d.terms), 0)
        if primitive not in self._memo:
            if not self._may_look_at(d) or self._nested >= NESTING_LIMIT:
                return None
            self._nested += 1
            self._memo[primitive] = None
            self._memo[primitive] = self._lower(primitive)
            self._nested -= 1
        low = self._memo[primitive]
        return None if low is None else low * common + d.constant

    def _may_look_at(self, d: Size) -> bool:
        self._work -= len(d.terms)
        return self._work >= 0

    def _direction(self, d: Size, atom: Atom) -> int | None:
        return direction(d, atom, self._sign) if self._may_look_at(d) else None

    def _lower(self, d: Size) -> int | None:
        if len(d.terms) == 1 and len(d.terms[0][0]) == 1:
            (atom,), coefficient = d.terms[0]
            return self._atom_lower(atom) if coefficient > 0 else _negated(self._atom_upper(atom))
        found = leaves(d)
        variables = sorted((v for v in found if v in self.form.depth), key=lambda v: (-self.form.depth[v], v))
        if variables:
            eliminated = self._without_variable(d, found[variables[0]])
            if eliminated is not None:
                return self.lower(eliminated)
        else:
            for leaf in found.values():
                eliminated = self._without_symbol(d, leaf)
                if eliminated is not None:
                    return self.lower(eliminated)
        paired = self._without_pairs_of_quotients(d)
        smallest = _first_min(d)
        if smallest is not None:
            return _greatest(paired, self._split_min(d, smallest))
        best = _greatest(paired, self._interval(d))
        quotient = max((a for a in atoms(d) if isinstance(a, FloorDiv)), key=_weight, default=None)
        if quotient is not None:
            best = _greatest(best, self._relate_floor(d, quotient))
        for leaf in found.values():
            best = _greatest(best, self._ends(d, leaf))
        return best

    def _replaced(self, d: Size, atom: Atom, value: Dim) -> Dim | None:
        """The form with an atom replaced, None where that makes a divisor that may not be positive."""
        if not self._may_look_at(d):
            return None
        divisors: list[Dim] = []
        form = replace(d, atom, value, divisors)
        return form if all((self.lower(divisor) or 0) > 0 for divisor in divisors) else None

    def _lower_replaced(self, d: Size, atom: Atom, value: Dim) -> int | None:
        form = self._replaced(d, atom, value)
        return None if form is None else self.lower(form)

    def _without_variable(self, d: Size, trip: Symbol | Var) -> Dim | None:
        way = self._direction(d, trip)
        if way is None:
            return None
        return self._replaced(d, trip, 0 if way >= 0 else self.form.last[trip.text])

    def _without_symbol(self, d: Size, symbol: Symbol | Var) -> Dim | None:
        way = self._direction(d, symbol)
        if way is None:
            return None
        lower, upper = self.form.ranges[symbol.text]
        value = lower if way >= 0 else upper
        return None if value is None else self._replaced(d, symbol, value)

    def _split_min(self, d: Size, smallest: Min) -> int | None:
        """A lower bound by the alternatives of a min: any of them where d falls with it, else the worst of them."""
        bounds = [self._lower_replaced(d, smallest, arg) for arg in smallest.args]
        known = [b for b in bounds if b is not None]
        if self._direction(d, smallest) == -1:
            return max(known, default=None)
        return min(known) if len(known) == len(bounds) else None

    def _without_pairs_of_quotients(self, d: Size) -> int | None:
        """A lower bound by floordiv(a, m) - floordiv(b, m) >= floordiv(a - b, m); None where no two such are in d."""
        quotients = [(m[0], c) for m, c in d.terms if len(m) == 1 and isinstance(m[0], FloorDiv)]
        for added, c in quotients:
            for taken, other in quotients:
                if c > 0 > other and added.rhs == taken.rhs:
                    common = min(c, -other)
                    apart = floor_form(added.lhs - taken.lhs, added.rhs) - added.size() + taken.size()
                    return self.lower(d + common * apart)
        return None

    def _relate_floor(self, d: Size, quotient: FloorDiv) -> int | None:
        """A lower bound by b * q in a - b + 1 .. a, and by the range of q alone, for q = floordiv(a, b)."""
        way = self._direction(d, quotient)
        best = None
        if way is not None:
            value = self._atom_lower(quotient) if way >= 0 else self._atom_upper(quotient)
            if value is not None:
                best = self._lower_replaced(d, quotient, value)
            if way == -1 and isinstance(quotient.rhs, Size) and self._sign(quotient.lhs) == 1:
                smallest = max(1, self.lower(quotient.rhs) or 1)
                best = _greatest(best, self._lower_replaced(d, quotient, floor_form(quotient.lhs, smallest)))
        if any(quotient.text in a.inside and a != quotient for a in atoms(d)):
            return best
        if any(monomial.count(quotient) > 1 for monomial, _ in d.terms):
            return best
        rest = make({monomial: c for monomial, c in d.terms if quotient not in monomial}, 0)
        factor = total(
            make({tuple(a for a in monomial if a != quotient): c}, 0) if len(monomial) > 1 else c
            for monomial, c in d.terms
            if quotient in monomial
        )
        return _greatest(best, self._scaled_floor(quotient, factor, rest))

    def _scaled_floor(self, quotient: FloorDiv, factor: Dim, rest: Dim) -> int | None:
        """A lower bound of factor * quotient + rest."""
        whole, remainder = divide(factor, quotient.rhs)
        scaling = 1
        if remainder != 0:
            if not isinstance(quotient.rhs, int) or not isinstance(factor, int):
                return None
            scaling = quotient.rhs // gcd(factor, quotient.rhs)
            whole = factor * scaling // quotient.rhs
        sign = self._sign(whole)
        if sign is None:
            return None
        value = quotient.lhs - quotient.rhs + 1 if sign > 0 else quotient.lhs
        low = self.lower(whole * value + scale(rest, scaling))
        return None if low is None else -(-low // scaling)

    def _ends(self, d: Size, leaf: Symbol | Var) -> int | None:
        """A lower bound of an expression that is linear in a leaf: the lower of its two ends."""
        for monomial, _ in d.terms:
            if sum(leaf.text in atom.inside for atom in monomial) > 1:
                return None
            if any(leaf.text in atom.inside and atom != leaf for atom in monomial):
                return None
        first, last = (0, self.form.last[leaf.text]) if leaf.text in self.form.last else self.form.ranges[leaf.text]
        if last is None:
            return None
        low, high = self._lower_replaced(d, leaf, first), self._lower_replaced(d, leaf, last)
        return None if low is None or high is None else min(low, high)

    def _interval(self, d: Size) -> int | None:
        bound = d.constant
        for monomial, coefficient in d.terms:
            low, high = coefficient, coefficient
            for atom in monomial:
                low, high = _multiply_ranges((low, high), (self._atom_lower(atom), self._atom_upper(atom)))
            if low is None:
                return None
            bound += low
        return bound

    def _atom_lower(self, atom: Atom) -> int | None:
        match atom:
            case Symbol():
                return self.form.ranges[atom.text][0]
            case Var():
                return 0
            case Min():
                bounds = [self.lower(arg) for arg in atom.args]
                known = [b for b in bounds if b is not None]
                return min(known) if len(known) == len(bounds) else None
            case FloorDiv():
                return self._floor_lower(atom)
            case _:
                return None

    def _atom_upper(self, atom: Atom) -> int | None:
        match atom:
            case Symbol():
                return self.form.ranges[atom.text][1]
            case Var():
                return self.upper(self.form.last[atom.text])
            case Min():
                return min((b for b in map(self.upper, atom.args) if b is not None), default=None)
            case FloorDiv():
                return self._floor_upper(atom)
            case _:
                return None

    def _floor_lower(self, quotient: FloorDiv) -> int | None:
        low = self.lower(quotient.lhs)
        if low is None:
            return None
        if isinstance(quotient.rhs, int):
            return low // quotient.rhs
        if low < 0:
            return low // max(1, self.lower(quotient.rhs) or 1)
        largest = self.upper(quotient.rhs)
        return 0 if largest is None else low // max(1, largest)

    def _floor_upper(self, quotient: FloorDiv) -> int | None:
        high = self.upper(quotient.lhs)
        if isinstance(quotient.rhs, int):
            return None if high is None else high // quotient.rhs
        best = None
        if high is not None and high >= 0:
            best = high // max(1, self.lower(quotient.rhs) or 1)
        elif high is not None:
            best = -1
        for candidate in _quotient_candidates(quotient.lhs, quotient.rhs):
            gap = self.lower(candidate * quotient.rhs - quotient.lhs - 1)
            if gap is not None and gap >= 0 and (best is None or candidate - 1 < best):
                best = candidate - 1
        return best

    def _sign(self, d: Dim) -> int | None:
        """1 if d >= 0, -1 if d <= 0, None if unknown."""
        if isinstance(d, int):
            return 1 if d >= 0 else -1
        low = self.lower(d)
        if low is not None and low >= 0:
            return 1
        high = self.upper(d)
        return -1 if high is not None and high <= 0 else None


def replace(d: Dim, atom: Atom, value: Dim, divisors: list[Dim]) -> Dim:
    """A proof form with an atom replaced everywhere but in facts; divisors that changed are appended to `divisors`."""
    if isinstance(d, int):
        return d
    parts: list[Dim] = [d.constant]
    for monomial, coefficient in d.terms:
        if any(atom.text in factor.inside for factor in monomial):
            parts.append(scale(expanded(_replace_in_atom(f, atom, value, divisors) for f in monomial), coefficient))
        else:
            parts.append(make({monomial: coefficient}, 0))
    return total(parts)


def _replace_in_atom(factor: Atom, atom: Atom, value: Dim, divisors: list[Dim]) -> Dim:
    if factor == atom:
        return value
    if atom.text not in factor.inside:
        return factor.size()
    parts = [replace(operand, atom, value, divisors) for operand in factor.operands]
    if isinstance(factor, Min):
        return min_form(parts)
    if parts[1] != factor.operands[1]:
        divisors.append(parts[1])
    return floor_form(parts[0], parts[1])


def _first_min(d: Size) -> Min | None:
    """A min at the top of an expression, or else one nested in it."""
    pending = dict.fromkeys(atoms(d))
    seen = set(pending)
    while pending:
        nested: dict[Atom, None] = {}
        for atom in pending:
            if isinstance(atom, Min):
                return atom
            nested |= dict.fromkeys(inner for operand in atom.operands for inner in atoms(operand))
        pending = {atom: None for atom in nested if atom not in seen}
        seen.update(pending)
    return None


def _quotient_candidates(a: Dim, b: Dim) -> list[int]:
    """Integers q for which a < q * b may hold: ratios of coefficients, looking through a division inside b."""
    numerators = dict(a.terms) if isinstance(a, Size) else {}
    ratios = {1}
    for monomial, c in b.terms if isinstance(b, Size) else ():
        inner = {monomial: (c, 1)}
        match monomial:
            case (FloorDiv(lhs=Size() as lhs, rhs=int() as rhs),):
                inner |= {m: (c * k, rhs) for m, k in lhs.terms}
            case _:
                pass
        ratios |= {-(-numerators[m] * rhs // k) for m, (k, rhs) in inner.items() if m in numerators and k > 0}
    return sorted(q for q in ratios if q > 0)


def _weight(atom: Atom) -> tuple[int, str]:
    return (len(atom.inside), atom.text)


def _negated(value: int | None) -> int | None:
    return None if value is None else -value


def _greatest(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _multiply_ranges(
    a: tuple[int | None, int | None], b: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    """The range of a product; None is an infinite end."""
    corners: list[float] = []
    infinity = float("inf")
    for x in (-infinity if a[0] is None else a[0], infinity if a[1] is None else a[1]):
        for y in (-infinity if b[0] is None else b[0], infinity if b[1] is None else b[1]):
            corners.append(0 if x == 0 or y == 0 else x * y)
    low, high = min(corners), max(corners)
    return (None if low == -infinity else int(low), None if high == infinity else int(high))
