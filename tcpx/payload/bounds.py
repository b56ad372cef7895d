"""Interval, divisibility and equality proofs about sizes; the search is in `proofs.py`."""

from __future__ import annotations

from math import gcd

from tcpx.payload.proof_form import content
from tcpx.payload.proofs import Query
from tcpx.payload.size_expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
)


def lower_bound(d: Operand) -> int | None:
    """The greatest provable value that d never goes below, None if unbounded or unknown."""
    if isinstance(d, int):
        return d
    query = Query()
    return query.lower(query.form.of(d))


def upper_bound(d: Operand) -> int | None:
    """The smallest provable value that d never exceeds, None if unbounded or unknown."""
    if isinstance(d, int):
        return d
    query = Query()
    return query.upper(query.form.of(d))


def is_less_equal(a: Operand, b: Operand) -> bool | None:
    """Whether a <= b for all sizes (True), for none (False), or unknown (None)."""
    return _is_not_negative(as_dim(b) - as_dim(a))


def is_less(a: Operand, b: Operand) -> bool | None:
    """Whether a < b for all sizes (True), for none (False), or unknown (None)."""
    return _is_not_negative(as_dim(b) - as_dim(a) - 1)


def is_equal(a: Operand, b: Operand) -> bool | None:
    """Whether a == b for all sizes (True), for none (False), or unknown (None)."""
    difference = as_dim(a) - as_dim(b)
    if isinstance(difference, int):
        return difference == 0
    query = Query()
    form = query.form.of(difference)
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


def _is_not_negative(d: Dim) -> bool | None:
    if isinstance(d, int):
        return d >= 0
    query = Query()
    form = query.form.of(d)
    low = query.lower(form)
    if low is not None and low >= 0:
        return True
    high = query.upper(form)
    return False if high is not None and high < 0 else None


def known_divisor(d: Operand) -> int:
    """The largest integer known to divide d; 0 for 0."""
    if isinstance(d, int):
        return abs(d)
    if isinstance(d, Size):
        return gcd(d.constant, *(_term_divisor(monomial, c) for monomial, c in d.terms))
    match d:
        case Symbol():
            return d.multiple_of
        case Var():
            return gcd(known_divisor(d.lower), known_divisor(d.step))
        case Min() | Max():
            return gcd(*map(known_divisor, d.args))
        case Mod():
            return gcd(known_divisor(d.lhs), known_divisor(d.rhs))
        case FloorDiv(lhs=lhs, rhs=int() as rhs) | CeilDiv(lhs=lhs, rhs=int() as rhs):
            divisor = known_divisor(lhs)
            return divisor // rhs if divisor and divisor % rhs == 0 else 1
        case _:
            return 1


def _term_divisor(monomial: tuple[Atom, ...], coefficient: int) -> int:
    for atom in monomial:
        coefficient *= known_divisor(atom)
    return abs(coefficient)
