"""The form in which sizes are proved: primitive symbols, trip counters, `floordiv` and `min` only.

Before -> after, for v = Var(0, N, 4) and N a multiple of 4:
    min(4, N - v)    ->  4 * min(1, N' - v')     with N = 4 * N', v = 4 * v', v' in 0..N'-1
    ceildiv(M, 6)    ->  floordiv(M + 5, 6)
    mod(M, 6)        ->  M - 6 * floordiv(M, 6)
    max(a, b)        ->  -min(-a, -b)
So divisibility is visible in coefficients, and expressions that are equal by rounding rules cancel.
"""

from collections.abc import Iterable
from math import gcd
from typing import Final

from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Operand,
    Size,
    Symbol,
    Term,
    Var,
    as_dim,
    atoms,
    make,
    scale,
    total,
)
from tcpx.payload.sizes.traversal import leaves

Range = tuple[int, int | None]
LONGEST_FORM: Final = 2000
"""Terms of a form: a query looks at no more."""
LONGEST_TEXT: Final = 1 << 14
"""Characters of the atoms of a form: a remainder repeats its operands, so that the length doubles with each."""


class LongFormError(Exception):
    """A form that is longer than a query looks at, with its products multiplied out and its remainders written as
    quotients: nothing is known about it."""


def expanded(factors: Iterable[Dim]) -> Dim:
    """The product of forms. Raises LongFormError."""
    made: Dim = 1
    for factor in factors:
        if isinstance(made, Size) and isinstance(factor, Size) and len(made.terms) * len(factor.terms) > LONGEST_FORM:
            raise LongFormError
        made = made * factor
    return made


class ProofForm:
    """Rewrites expressions for one query; facts of the first instance of a name count.

    `ranges` holds the inclusive range of every primitive symbol, `last` the last value of every trip counter (they
    start at 0), `depth` the nesting depth of every trip counter. Loops in scope are not empty and divisors are
    positive, which tightens ranges.
    """

    __slots__ = ("_forms", "depth", "last", "ranges")

    def __init__(self) -> None:
        self.ranges: dict[str, Range] = {}
        self.last: dict[str, Dim] = {}
        self.depth: dict[str, int] = {}
        self._forms: dict[str, Dim] = {}

    def of(self, operand: Operand) -> Dim:
        """The proof form of an expression."""
        d = as_dim(operand)
        if isinstance(d, int):
            return d
        return total([d.constant, *(scale(expanded(map(self._atom, monomial)), c) for monomial, c in d.terms)])

    def _atom(self, atom: Atom) -> Dim:
        known = self._forms.get(atom.text)
        if known is None:
            known = self._new_atom(atom)
            if sum(len(inner.text) for inner in atoms(known)) > LONGEST_TEXT:
                raise LongFormError
            self._forms[atom.text] = known
        return known

    def _new_atom(self, atom: Atom) -> Dim:
        match atom:
            case Symbol():
                return self._symbol(atom)
            case Var():
                return self._variable(atom)
            case FloorDiv():
                return floor_form(self.of(atom.lhs), self._positive(atom.rhs))
            case CeilDiv():
                return floor_form(self.of(atom.lhs) - 1, self._positive(atom.rhs)) + 1
            case Mod():
                lhs, rhs = self.of(atom.lhs), self._positive(atom.rhs)
                return lhs - rhs * floor_form(lhs, rhs)
            case Min():
                return min_form([self.of(arg) for arg in atom.args])
            case Max():
                return -min_form([-self.of(arg) for arg in atom.args])
            case _:
                raise TypeError(type(atom).__name__)

    def _positive(self, divisor: Dim) -> Dim:
        form = self.of(divisor)
        self._assume_at_least(form, 1)
        return form

    def _symbol(self, symbol: Symbol) -> Dim:
        m = symbol.multiple_of
        lower = -(-symbol.lower // m)
        upper = None if symbol.upper is None else symbol.upper // m
        if lower == upper:
            return lower * m
        primitive = symbol if m == 1 else Symbol(f"{symbol.name}'{m}")
        self.ranges[primitive.text] = (lower, upper)
        return scale(primitive.size(), m)

    def _variable(self, var: Var) -> Dim:
        lower, upper, step = self.of(var.lower), self.of(var.upper), self._positive(var.step)
        span = upper - lower
        self._assume_at_least(span, 1)
        last = floor_form(span - 1, step)
        if isinstance(last, int) and last <= 0:
            return lower
        trip = Var(f"{var.name}'", 0, 1)
        outer = (leaf for d in (lower, last, step) for leaf in leaves(d) if leaf in self.depth)
        self.last[trip.text] = last
        self.depth[trip.text] = 1 + max((self.depth[leaf] for leaf in outer), default=0)
        return lower + step * trip

    def _assume_at_least(self, d: Dim, bound: int) -> None:
        """Tightens ranges of symbols by the fact d >= bound."""
        if isinstance(d, int):
            return
        for monomial, coefficient in d.terms:
            match monomial:
                case (Symbol() as symbol,) if coefficient > 0:
                    rest = self._rough_upper(d - coefficient * symbol)
                    if rest is not None:
                        lower, upper = self.ranges[symbol.text]
                        self.ranges[symbol.text] = (max(lower, -((rest - bound) // coefficient)), upper)
                case (Min() as smallest,) if coefficient > 0 and len(d.terms) == 1:
                    for arg in smallest.args:
                        self._assume_at_least(arg, -((d.constant - bound) // coefficient))
                case (FloorDiv(lhs=lhs, rhs=int() as rhs),) if coefficient > 0 and len(d.terms) == 1:
                    self._assume_at_least(lhs, -((d.constant - bound) // coefficient) * rhs)
                case _ if coefficient > 0 and len(d.terms) == 1 and d.constant < bound:
                    self._assume_no_zero(monomial)
                case _:
                    pass

    def _assume_no_zero(self, factors: Monomial) -> None:
        """Tightens ranges of symbols by the fact that their product, of which no factor is negative, is positive."""
        found = [self.ranges[atom.text] for atom in factors if isinstance(atom, Symbol)]
        if len(found) == len(factors) and all(lower >= 0 for lower, _ in found):
            for atom, (lower, upper) in zip(factors, found, strict=True):
                self.ranges[atom.text] = (max(lower, 1), upper)

    def _rough_upper(self, d: Dim) -> int | None:
        if isinstance(d, int):
            return d
        total = d.constant
        for monomial, coefficient in d.terms:
            match monomial:
                case (Symbol() as symbol,):
                    lower, upper = self.ranges[symbol.text]
                    extreme = upper if coefficient > 0 else lower
                case (Var(),):
                    extreme = None if coefficient > 0 else 0
                case _:
                    extreme = None
            if extreme is None:
                return None
            total += coefficient * extreme
        return total


def content(coefficients: Iterable[int]) -> int:
    """The greatest common divisor of integers, 0 if all are 0."""
    return gcd(*coefficients)


def floor_form(a: Dim, b: Dim) -> Dim:
    """floordiv(a, b) in proof form: what b divides is taken out, the sign of the leading term is positive."""
    if isinstance(b, Size):
        return _floor_by_size(a, b)
    if b < 1 or isinstance(a, int):
        return a // b if b > 0 and isinstance(a, int) else FloorDiv(a, b).size()
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in a.terms:
        q = c // b if c > 0 else -(-c // b)
        quotient[monomial], rest[monomial] = q, c - q * b
    whole = make(quotient, a.constant // b)
    remainder = make(rest, a.constant % b)
    if isinstance(remainder, int):
        return whole
    if remainder.terms[0][1] < 0:
        return whole - _floor_positive(b - 1 - remainder, b)
    return whole + _floor_positive(remainder, b)


def _floor_positive(a: Dim, b: int) -> Dim:
    if isinstance(a, int):
        return a // b
    common = content([b, *(c for _, c in a.terms)])
    if common > 1:
        return floor_form(make({m: c // common for m, c in a.terms}, a.constant // common), b // common)
    constant = a.constant // b
    a = Size(a.terms, a.constant % b)
    match a.terms:
        case (((FloorDiv(lhs=lhs, rhs=int() as rhs),), 1),):
            return floor_form(lhs + a.constant * rhs, rhs * b) + constant
        case _:
            return FloorDiv(a, b).size() + constant


def _floor_by_size(a: Dim, b: Size) -> Dim:
    if a in (0, -1):
        return a
    quotient, remainder = divide(a, b)
    if remainder in (0, -1):
        return quotient + remainder
    common = content([b.constant, *(c for _, c in b.terms)])
    if common > 1 and isinstance(remainder, Size):
        common = content([common, *(c for _, c in remainder.terms)])
        remainder = make({m: c // common for m, c in remainder.terms}, remainder.constant // common)
        b = Size(tuple((m, c // common) for m, c in b.terms), b.constant // common)
    return quotient + FloorDiv(remainder, b).size()


def divide(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Quotient and remainder of terms: a == quotient * b + remainder, as polynomials."""
    if isinstance(b, int):
        if isinstance(a, int):
            return a // b, a % b
        whole = make({m: c // b for m, c in a.terms if c % b == 0}, a.constant // b)
        return whole, a - whole * b
    lead, lead_coefficient = b.terms[-1]
    quotient: Dim = 0
    while isinstance(a, Size):
        smaller = None
        for monomial, c in a.terms:
            cofactor = None if c % lead_coefficient else _without(monomial, lead)
            if cofactor is None:
                continue
            part = make({cofactor: c // lead_coefficient}, 0) if cofactor else c // lead_coefficient
            difference = a - part * b
            if _length(difference) < len(a.terms):
                quotient, smaller = quotient + part, difference
                break
        if smaller is None:
            break
        a = smaller
    return quotient, a


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    """The monomial divided by another one, None if it is not divisible."""
    rest = list(monomial)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _length(d: Dim) -> int:
    return 0 if isinstance(d, int) else len(d.terms)


def min_form(args: list[Dim]) -> Dim:
    """min(args) in proof form: flat, common terms and the common factor taken out."""
    flat: list[Dim] = []
    for arg in args:
        match arg:
            case Size(terms=(((Min() as inner,), 1),), constant=constant):
                flat += [part + constant for part in inner.args]
            case _:
                flat.append(arg)
    unique: dict[tuple[Term, ...], int] = {}
    for arg in flat:
        terms = arg.terms if isinstance(arg, Size) else ()
        constant = arg.constant if isinstance(arg, Size) else arg
        unique[terms] = min(unique.get(terms, constant), constant)
    tables = [(dict(terms), constant) for terms, constant in unique.items()]
    return _min_of_tables(tables)


def _min_of_tables(tables: list[tuple[dict[Monomial, int], int]]) -> Dim:
    first, base = tables[0]
    if len(tables) == 1:
        return make(first, base)
    base = min(constant for _, constant in tables)
    shared = {m: c for m, c in first.items() if all(t.get(m) == c for t, _ in tables)}
    own = [({m: c for m, c in t.items() if m not in shared}, constant - base) for t, constant in tables]
    common = content([c for t, constant in own for c in (*t.values(), constant)])
    args = tuple(make({m: c // common for m, c in t.items()}, constant // common) for t, constant in own)
    return make(shared, base) + common * Min(args)


def without_shifts(form: Dim) -> Dim:
    """The proof form with each `min` replaced by one that is the same for arguments with equal differences.

    `min(0, n - 256)` -> `min(256, n) - 256`: of each product, the least coefficient among the arguments is taken out.
    So `max(256, n) == n + max(0, 256 - n)` and `max(0, x) + min(0, x) == x` cancel.
    """
    if isinstance(form, int):
        return form
    return total([form.constant, *(scale(expanded(map(_without_shift, m)), c) for m, c in form.terms)])


def _without_shift(atom: Atom) -> Dim:
    if not isinstance(atom, Min):
        return atom.size()
    tables = [dict(arg.terms) if isinstance(arg, Size) else {} for arg in atom.args]
    every = dict.fromkeys(monomial for table in tables for monomial in table)
    least = make({m: min(table.get(m, 0) for table in tables) for m in every}, 0)
    return least + min_form([arg - least for arg in atom.args])


def has_several_minima(form: Dim) -> bool:
    """Whether two different minima stand in the products of a form."""
    return len({atom for atom in atoms(form) if isinstance(atom, Min)}) > 1
