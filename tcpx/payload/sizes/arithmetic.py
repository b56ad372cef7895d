"""Constructors of sizes that simplify with what bounds and divisors prove.

`known` says more of symbols than they do themselves, as `Context.names` does.
"""

from collections.abc import Iterable, Sequence
from math import gcd
from operator import le
from typing import Final

from tcpx.payload.sizes.bounds import is_less, is_less_equal, known_divisor, lower_bound, upper_bound
from tcpx.payload.sizes.expressions import (
    CeilDiv,
    Dim,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Operand,
    Size,
    Var,
    as_dim,
    check_divisor,
    make,
    to_text,
)
from tcpx.payload.sizes.proof_form import divide
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.samples import corners, samples
from tcpx.payload.sizes.traversal import evaluate, variables

FEW: Final = 4
"""Sizes of an extremum whose pairs are compared by proofs alone."""


class Comparisons:
    """Which sizes are proved not to exceed which others: no pair is looked at twice, and none has a proof that is
    refuted by samples. Most pairs of many sizes are incomparable, and a proof that fails takes longest."""

    __slots__ = ("_decided", "_known", "_samples", "_values")

    def __init__(self, sizes: Sequence[Dim], known: KnownSymbols = NOTHING_KNOWN) -> None:
        """Of sizes without loop variables, and any others over the same symbols."""
        self._known = known
        self._samples = (*corners(sizes, known), *samples(sizes, known))
        self._values: dict[Dim, tuple[int, ...]] = {}
        self._decided: dict[tuple[Dim, Dim], bool] = {}

    def is_below(self, a: Dim, b: Dim) -> bool:
        """Whether `a <= b` is proved."""
        decided = self._decided.get((a, b))
        if decided is None:
            may_hold = all(map(le, self._at_samples(a), self._at_samples(b)))
            decided = self._decided[a, b] = may_hold and is_less_equal(a, b, self._known) is True
        return decided

    def _at_samples(self, size: Dim) -> tuple[int, ...]:
        known = self._values.get(size)
        if known is None:
            known = self._values[size] = self._computed(size)
        return known

    def _computed(self, size: Dim) -> tuple[int, ...]:
        """Offsets are sums with the largest of others, nested as deep as items are many."""
        match size:
            case Size(terms=(((Max(args=args),), 1),), constant=0):
                return tuple(map(max, *map(self._at_samples, args)))
            case Size(terms=((_, _), _, *_)):
                parts = [self._at_samples(make({monomial: c}, 0)) for monomial, c in size.terms]
                return tuple(size.constant + sum(values) for values in zip(*parts, strict=True))
            case _:
                return tuple([evaluate(size, sample) for sample in self._samples])


def floordiv(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """a / b rounded down. `floordiv(4*M + 3, 4)` -> `M`. The divisor must be positive where this is evaluated."""
    a, b = as_dim(a), as_dim(b)
    check_divisor(b, f"floordiv({to_text(a)}, {to_text(b)})")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    quotient, rest = _split(a, b, known)
    rest, b = _without_common_factor(rest, b)
    constant = _constant_quotient(rest, b, known)
    if constant is not None:
        return quotient + constant
    match rest:
        case Size(terms=(((FloorDiv() as inner,), 1),), constant=offset):
            return quotient + floordiv(inner.lhs + offset * inner.rhs, inner.rhs * b, known)
        case _:
            return quotient + FloorDiv(rest, b)


def ceildiv(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """a / b rounded up. `ceildiv(4*M + 3, 4)` -> `M + 1`. The divisor must be positive where this is evaluated."""
    a, b = as_dim(a), as_dim(b)
    check_divisor(b, f"ceildiv({to_text(a)}, {to_text(b)})")
    if isinstance(a, int) and isinstance(b, int):
        return -(-a // b)
    quotient, rest = _split(a, b, known)
    negative, b = _without_common_factor(-rest, b)
    rest = -negative
    constant = _constant_quotient(negative, b, known)
    if constant is not None:
        return quotient - constant
    match rest:
        case Size(terms=(((CeilDiv() as inner,), 1),), constant=offset):
            return quotient + ceildiv(inner.lhs + offset * inner.rhs, inner.rhs * b, known)
        case _:
            return quotient + CeilDiv(rest, b)


def mod(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """a - b * floordiv(a, b). `mod(4*M + 1, 4)` -> `1`. The divisor must be positive where this is evaluated."""
    a, b = as_dim(a), as_dim(b)
    check_divisor(b, f"mod({to_text(a)}, {to_text(b)})")
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    _, rest = _split(a, b, known)
    if isinstance(rest, Size) and isinstance(b, int):
        rest = make({m: c % b if c > 0 else -(-c % b) for m, c in rest.terms}, rest.constant)
    constant = _constant_quotient(rest, b, known)
    if constant is not None:
        return rest - constant * b
    match rest, b:
        case Size(terms=(((Mod(lhs=lhs, rhs=int() as rhs),), 1),), constant=offset), int() if rhs % b == 0:
            return mod(lhs + offset, b, known)
        case _:
            return Mod(rest, b).size()


def align_up(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """The smallest multiple of b that is not below a."""
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, Size) and isinstance(b, int):
        multiple = make({m: c for m, c in a.terms if known_divisor(make({m: c}, 0), known) % b == 0}, 0)
        return multiple + ceildiv(a - multiple, b, known) * b
    return ceildiv(a, b, known) * b


def minimum(first: Operand, *others: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """The smallest of sizes; those proved not below another one are left out."""
    return _extremum(Min, (first, *others), known)


def maximum(
    first: Operand, *others: Operand, known: KnownSymbols = NOTHING_KNOWN, comparisons: Comparisons | None = None
) -> Dim:
    """The largest of sizes; those proved not above another one are left out. `comparisons` are those of earlier calls
    with the same sizes."""
    return _extremum(Max, (first, *others), known, comparisons)


def _extremum(
    kind: type[Extremum], given: Iterable[Operand], known: KnownSymbols, comparisons: Comparisons | None = None
) -> Dim:
    flat: list[Dim] = []
    for arg in map(as_dim, given):
        match arg:
            case Size(terms=(((Extremum() as inner,), 1),), constant=0) if isinstance(inner, kind):
                flat += inner.args
            case _:
                flat.append(arg)
    if comparisons is None and len(flat) > FEW and not any(map(variables, flat)):
        comparisons = Comparisons(flat, known)

    def is_below(a: Dim, b: Dim) -> bool:
        return is_less_equal(a, b, known) is True if comparisons is None else comparisons.is_below(a, b)

    def precedes(a: Dim, b: Dim) -> bool:
        return is_below(a, b) if kind is Min else is_below(b, a)

    kept: list[Dim] = []
    for arg in flat:
        if not any(precedes(other, arg) for other in kept):
            kept = [*(other for other in kept if not precedes(arg, other)), arg]
    return kept[0] if len(kept) == 1 else kind(tuple(kept)).size()


def _split(a: Dim, b: Dim, known: KnownSymbols) -> tuple[Dim, Dim]:
    """Quotient and rest with a == quotient * b + rest, by coefficients and by facts about single terms."""
    quotient, rest = divide(a, b)
    if isinstance(rest, int):
        return quotient, rest
    unknown: Dim = rest.constant
    for monomial, coefficient in rest.terms:
        term = make({monomial: coefficient}, 0)
        if isinstance(b, int) and known_divisor(term, known) % b == 0:
            common = gcd(coefficient, b)
            exact = FloorDiv(make({monomial: 1}, 0), b // common).size()
            quotient = quotient + coefficient // common * exact
        elif isinstance(b, Size) and _is_stepped_by(monomial, b):
            quotient = quotient + coefficient * FloorDiv(make({monomial: 1}, 0), b).size()
        else:
            unknown = unknown + term
    return quotient, unknown


def _is_stepped_by(monomial: Monomial, step: Size) -> bool:
    match monomial:
        case (Var() as var,):
            return divide(var.lower, step)[1] == 0 and divide(var.step, step)[1] == 0
        case _:
            return False


def _without_common_factor(rest: Dim, b: Dim) -> tuple[Dim, Dim]:
    """Numerator and divisor of floordiv(rest, b) without the common factor of terms and divisor."""
    if isinstance(rest, int) or isinstance(b, Size):
        return rest, b
    common = gcd(b, *(c for _, c in rest.terms))
    return make({m: c // common for m, c in rest.terms}, rest.constant // common), b // common


def _constant_quotient(rest: Dim, b: Dim, known: KnownSymbols) -> int | Size | None:
    """floordiv(rest, b) if it is the same for all sizes."""
    if b == 1 or rest == 0:
        return rest
    low, high = lower_bound(rest, known), upper_bound(rest, known)
    if isinstance(b, int):
        return low // b if low is not None and high is not None and low // b == high // b else None
    if low is not None and low >= 0:
        return 0 if is_less(rest, b, known) is True else None
    return -1 if high is not None and high < 0 and is_less_equal(-b, rest, known) is True else None
