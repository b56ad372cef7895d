"""Interval, divisibility and equality proofs about sizes; the search is in `proofs.py`."""

from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from math import gcd
from typing import Final, TypeVar

from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    Extremum,
    FloorDiv,
    Min,
    Mod,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
    atoms,
)
from tcpx.payload.sizes.proof_form import LongFormError, content, has_several_minima, without_shifts
from tcpx.payload.sizes.proofs import Query
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols, Question, asked_size, question
from tcpx.payload.sizes.traversal import evaluate, leaves

Answer = TypeVar("Answer")

CASES: Final = 8
"""Values of a symbol that are looked at one by one."""
REMEMBERED: Final = 2**13
"""Answers remembered per kind of question; the same few hundred are asked at every step of a schedule."""


def _unknown_if_long(answer: Callable[[Question], Answer | None]) -> Callable[[Question], Answer | None]:
    """The answer, or None about what is too long to look at."""

    @wraps(answer)
    def ask(about: Question) -> Answer | None:
        try:
            return answer(about)
        except LongFormError:
            return None

    return ask


def lower_bound(d: Operand, known: KnownSymbols = NOTHING_KNOWN) -> int | None:
    """The greatest provable value that d never goes below, None if unbounded or unknown."""
    d = as_dim(d)
    if isinstance(d, int):
        return d
    ends = _ends(d, known)
    return _lower(question(d, known)) if ends is None else ends[0]


def upper_bound(d: Operand, known: KnownSymbols = NOTHING_KNOWN) -> int | None:
    """The smallest provable value that d never exceeds, None if unbounded or unknown."""
    d = as_dim(d)
    if isinstance(d, int):
        return d
    ends = _ends(d, known)
    return _upper(question(d, known)) if ends is None else ends[1]


def is_less_equal(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> bool | None:
    """Whether a <= b for all sizes (True), for none (False), or unknown (None)."""
    if isinstance(a, int) and isinstance(b, int):
        return a <= b
    a, b = as_dim(a), as_dim(b)
    decided = _is_not_negative(b - a, known)
    if decided is None and (_is_below_extremum(a, b, known) or _is_extremum_below(a, b, known)):
        return True
    return decided


def _is_below_extremum(a: Dim, b: Dim, known: KnownSymbols) -> bool:
    """Whether a <= b where b is a minimum or maximum: a is proved below all arguments, or below one."""
    found = _extremum(b)
    enough = all if isinstance(found, Min) else any
    return found is not None and enough(is_less_equal(a, arg, known) is True for arg in found.args)


def _is_extremum_below(a: Dim, b: Dim, known: KnownSymbols) -> bool:
    """Whether a <= b where a is a minimum or maximum: one argument is proved below b, or all are."""
    found = _extremum(a)
    enough = any if isinstance(found, Min) else all
    return found is not None and enough(is_less_equal(arg, b, known) is True for arg in found.args)


def arguments_of_minimum(d: Dim) -> tuple[Dim, ...]:
    """The sizes that `d` is the minimum of; none if it is something else."""
    found = _extremum(d)
    return found.args if isinstance(found, Min) else ()


def _extremum(d: Dim) -> Extremum | None:
    """The minimum or maximum that `d` is, if it is one."""
    match d:
        case Size(terms=(((Extremum() as atom,), 1),), constant=0):
            return atom
        case _:
            return None


def is_less(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> bool | None:
    """Whether a < b for all sizes (True), for none (False), or unknown (None)."""
    return _is_not_negative(as_dim(b) - as_dim(a) - 1, known)


def is_equal(a: Operand, b: Operand, known: KnownSymbols = NOTHING_KNOWN) -> bool | None:
    """Whether a == b for all sizes (True), for none (False), or unknown (None)."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if a is b:
        return True
    difference = as_dim(a) - as_dim(b)
    if isinstance(difference, int):
        return difference == 0
    low, high = _ends(difference, known) or (None, None)
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    return _is_zero(question(difference, known))


def _is_not_negative(d: Dim, known: KnownSymbols) -> bool | None:
    if isinstance(d, int):
        return d >= 0
    ends = _ends(d, known)
    return _sign(question(d, known)) if ends is None else _sign_between(*ends)


def _ends(d: Size, known: KnownSymbols) -> tuple[int | None, int | None] | None:
    """Between what a sum of multiples lies of symbols and of loop variables with constant ranges, from which a proof
    would find no more: most questions are about such sums. None for any other size."""
    low: int | None = d.constant
    high: int | None = d.constant
    for factors, coefficient in d.terms:
        ends = _ends_of(factors[0], known) if len(factors) == 1 else None
        if ends is None:
            return None
        least, most = ends if coefficient > 0 else ends[::-1]
        low = None if low is None or least is None else low + coefficient * least
        high = None if high is None or most is None else high + coefficient * most
    return low, high


def _ends_of(atom: Atom, known: KnownSymbols) -> tuple[int | None, int | None] | None:
    if isinstance(atom, Symbol):
        if known:
            atom = known.get(atom.name, atom)
        return (atom.lower, atom.upper) if atom.multiple_of == 1 else None
    if not isinstance(atom, Var):
        return None
    first, end, step = atom.lower, atom.upper, atom.step
    if not isinstance(first, int) or not isinstance(end, int) or not isinstance(step, int):
        return None
    return first, first + max(0, end - first - 1) // step * step


def _sign_between(low: int | None, high: int | None) -> bool | None:
    if low is not None and low >= 0:
        return True
    return False if high is not None and high < 0 else None


@lru_cache(maxsize=REMEMBERED)
@_unknown_if_long
def _lower(about: Question) -> int | None:
    query = Query()
    return query.lower(query.form.of(asked_size(about)))


@lru_cache(maxsize=REMEMBERED)
@_unknown_if_long
def _upper(about: Question) -> int | None:
    query = Query()
    return query.upper(query.form.of(asked_size(about)))


@lru_cache(maxsize=REMEMBERED)
@_unknown_if_long
def _sign(about: Question) -> bool | None:
    size = asked_size(about)
    decided = _sign_of(size)
    return _sign_by_cases(size) if decided is None else decided


def _sign_of(size: Dim) -> bool | None:
    query = Query()
    form = query.form.of(size)
    decided = _sign_of_form(query, form)
    return _sign_of_form(query, without_shifts(form)) if decided is None and has_several_minima(form) else decided


def _sign_of_form(query: Query, form: Dim) -> bool | None:
    low = query.lower(form)
    return True if low is not None and low >= 0 else _sign_between(None, query.upper(form))


def _sign_by_cases(size: Dim) -> bool | None:
    """The sign of quotients of one symbol: of its first values by looking, of all others by a proof of these alone.
    A quotient may be far from the fraction where both are small."""
    found = list(leaves(size).values())
    if len(found) != 1 or not isinstance(found[0], Symbol) or not any(isinstance(a, FloorDiv) for a in atoms(size)):
        return None
    symbol, query = found[0], Query()
    form = query.form.of(size)
    if isinstance(form, int) or len(query.form.ranges) != 1:
        return None
    ((text, (lower, upper)),) = query.form.ranges.items()
    last = lower + CASES - 1 if upper is None else min(lower + CASES - 1, upper)
    if any(evaluate(size, {symbol.name: value * symbol.multiple_of}) < 0 for value in range(lower, last + 1)):
        return None
    if last == upper:
        return True
    query.form.ranges[text] = (last + 1, upper)
    low = query.lower(form)
    return True if low is not None and low >= 0 else None


@lru_cache(maxsize=REMEMBERED)
@_unknown_if_long
def _is_zero(about: Question) -> bool | None:
    query = Query()
    form = query.form.of(asked_size(about))
    decided = _is_zero_form(query, form)
    return _is_zero_form(query, without_shifts(form)) if decided is None and has_several_minima(form) else decided


def _is_zero_form(query: Query, form: Dim) -> bool | None:
    if isinstance(form, int):
        return form == 0
    if form.constant % content(c for _, c in form.terms):
        return False
    low = query.lower(form)
    if low is not None and low > 0:
        return False
    high = query.upper(form)
    if high is not None and high < 0:
        return False
    return True if low == 0 and high == 0 else None


def known_divisor(d: Operand, known: KnownSymbols = NOTHING_KNOWN) -> int:
    """The largest integer known to divide d; 0 for 0."""
    if isinstance(d, int):
        return abs(d)
    if isinstance(d, Size):
        divisor = gcd(d.constant, *(_term_divisor(monomial, c, known) for monomial, c in d.terms))
        return divisor if divisor != 1 else _divisor_without_rest(d, known)
    match d:
        case Symbol():
            return known.get(d.name, d).multiple_of
        case Var():
            return gcd(known_divisor(d.lower, known), known_divisor(d.step, known))
        case Extremum():
            return gcd(*(known_divisor(arg, known) for arg in d.args))
        case Mod():
            return gcd(known_divisor(d.lhs, known), known_divisor(d.rhs, known))
        case FloorDiv(lhs=lhs, rhs=int() as rhs) | CeilDiv(lhs=lhs, rhs=int() as rhs):
            divisor = known_divisor(lhs, known)
            return divisor // rhs if divisor and divisor % rhs == 0 else 1
        case _:
            return 1


def is_in_whole_steps(size: Dim, step: Dim) -> bool:
    """Whether a size is `x - mod(x, step)`, or a multiple of it."""
    return any(mod.rhs == step and others == 0 for mod, _, others in _rests(size))


def _divisor_without_rest(size: Size, known: KnownSymbols) -> int:
    """A divisor of a size that is `x - mod(x, step)`, or a multiple of it; else 1."""
    steps = (
        gcd(factor * mod.rhs, known_divisor(others, known))
        for mod, factor, others in _rests(size)
        if isinstance(mod.rhs, int)
    )
    return next((step for step in steps if step > 1), 1)


def _rests(size: Dim) -> Iterator[tuple[Mod, int, Dim]]:
    """The terms of a size that are what is left of x after whole steps, with their factors, and the size without this
    many times `mod(x, step) - x`."""
    for term, factor in size.terms if isinstance(size, Size) else ():
        if len(term) == 1 and isinstance(term[0], Mod):
            yield term[0], factor, size - factor * Size.of(term[0]) + factor * term[0].lhs


def _term_divisor(monomial: tuple[Atom, ...], coefficient: int, known: KnownSymbols) -> int:
    for atom in monomial:
        coefficient *= known_divisor(atom, known)
    return abs(coefficient)
