"""Bounds as expressions: a size with its loop variables eliminated, for buffers made outside the loops."""

from collections.abc import Callable
from itertools import product as combinations

from tcpx.payload.sizes.arithmetic import ceildiv, floordiv, maximum, minimum
from tcpx.payload.sizes.bounds import is_in_whole_steps, is_less_equal, known_divisor
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Operand,
    Var,
    as_dim,
    atoms,
    make,
    product,
)
from tcpx.payload.sizes.monotone import direction
from tcpx.payload.sizes.proof_form import divide
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.substitution import Rebuild
from tcpx.payload.sizes.traversal import variables

Keep = Callable[[Var], bool]


def never(variable: Var) -> bool:
    """Keeps no loop variable."""
    return False


def upper_expression(d: Operand, keep: Keep = never, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """A size that d never exceeds and that mentions no loop variable but those `keep` accepts.

    `min(6, M - %i)` for %i in 0..M -> `min(6, M)`.
    """
    return _Elimination(keep, known).upper(as_dim(d))


def not_negative(d: Dim, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """The size, or 0 where it may be negative: an extent."""
    return d if is_less_equal(0, d, known) is True else maximum(0, d, known=known)


def lower_expression(d: Operand, keep: Keep = never, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """A size that d never goes below and that mentions no loop variable but those `keep` accepts."""
    return -_Elimination(keep, known).upper(-as_dim(d))


def last_value(variable: Var, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """The last value of a loop variable where its step is known to divide its span, else upper - 1."""
    lower, upper, step = variable.lower, variable.upper, variable.step
    span = upper - lower
    if isinstance(span, int) and isinstance(step, int):
        return lower + (span - 1) // step * step
    if isinstance(step, int):
        divided = known_divisor(span, known) % step == 0
    else:
        divided = is_in_whole_steps(span, step) or divide(span, step)[1] == 0
    return upper - step if divided else upper - 1


class _Elimination:
    """Removes loop variables innermost first, by their extreme values where that is monotone."""

    __slots__ = ("_keep", "_known")

    def __init__(self, keep: Keep, known: KnownSymbols) -> None:
        self._keep, self._known = keep, known

    def upper(self, d: Dim) -> Dim:
        """An upper bound without the variables to remove."""
        if isinstance(d, int):
            return d
        variable = self._innermost(d)
        if variable is None:
            return d
        way = direction(d, variable, self._sign)
        if way is not None:
            return self.upper(
                self._replaced(d, variable, variable.lower if way <= 0 else last_value(variable, self._known))
            )
        extremum = _first_extremum(d, variable)
        if extremum is not None:
            return self._split(d, extremum)
        if len(d.terms) > 1 or d.constant:
            terms = [self.upper(make({monomial: c}, 0)) for monomial, c in d.terms]
            return sum(terms, start=d.constant)
        corners = (bound for monomial, c in d.terms for bound in self._corners(monomial, c))
        return maximum(*corners, known=self._known)

    def lower(self, d: Dim) -> Dim:
        """A lower bound without the variables to remove."""
        return -self.upper(-d)

    def _innermost(self, d: Dim) -> Var | None:
        candidates = [v for v in variables(d) if not self._keep(v)]
        return max(candidates, key=lambda v: (_depth(v), v.text), default=None)

    def _split(self, d: Dim, extremum: Extremum) -> Dim:
        bounds = [self.upper(self._replaced(d, extremum, arg)) for arg in extremum.args]
        any_will_do = 1 if isinstance(extremum, Min) else -1
        return (
            minimum(*bounds, known=self._known)
            if direction(d, extremum, self._sign) == any_will_do
            else maximum(*bounds, known=self._known)
        )

    def _corners(self, monomial: Monomial, coefficient: int) -> list[Dim]:
        """Products of the ends of each factor; the largest is an upper bound."""
        return [coefficient * product(corner) for corner in combinations(*map(self._ends, monomial))]

    def _ends(self, atom: Atom) -> tuple[Dim, ...]:
        if self._innermost(atom.size()) is None:
            return (atom.size(),)
        match atom:
            case Var():
                return (self.lower(atom.lower), self.upper(last_value(atom, self._known)))
            case Min() | Max():
                extremum = minimum if isinstance(atom, Min) else maximum
                ends = ([*map(way, atom.args)] for way in (self.lower, self.upper))
                low, high = (extremum(*sizes, known=self._known) for sizes in ends)
                return (low, high)
            case Mod():
                return (0, self.upper(atom.rhs) - 1)
            case FloorDiv() | CeilDiv():
                divide_ = floordiv if isinstance(atom, FloorDiv) else ceildiv
                known = self._known
                divisors = {maximum(1, self.lower(atom.rhs), known=known), self.upper(atom.rhs)}
                low, high = self.lower(atom.lhs), self.upper(atom.lhs)
                return (
                    minimum(*(divide_(low, divisor, known) for divisor in divisors), known=known),
                    maximum(*(divide_(high, divisor, known) for divisor in divisors), known=known),
                )
            case _:
                raise TypeError(type(atom).__name__)

    def _replaced(self, d: Dim, atom: Atom, value: Dim) -> Dim:
        return Rebuild({atom.text: value}, facts=False, known=self._known).of(d)

    def _sign(self, d: Dim) -> int | None:
        if is_less_equal(0, d, self._known) is True:
            return 1
        return -1 if is_less_equal(d, 0, self._known) is True else None


def _depth(variable: Var) -> int:
    outer = (v for fact in (variable.lower, variable.upper, variable.step) for v in variables(fact))
    return 1 + max(map(_depth, outer), default=0)


def _first_extremum(d: Dim, variable: Var) -> Extremum | None:
    """A min or max that depends on a variable."""
    pending = [atom for atom in atoms(d) if variable.text in atom.inside]
    while pending:
        atom = pending.pop(0)
        if isinstance(atom, Extremum):
            return atom
        pending += [a for operand in atom.operands for a in atoms(operand) if variable.text in a.inside]
    return None
