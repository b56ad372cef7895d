"""What is known of sizes at a place, and the one question about them: `Context.decide`.

A context is a conjunction of conditions. From each condition on one symbol follow a range and a divisor of this
symbol; the other conditions relate sizes to one another. A question is answered by what is known of each symbol, then
by one relation, then by all that are connected with it. Contexts of operations are in `payload/contexts.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

from tcpx.payload.sizes.arithmetic import ceildiv, floordiv, maximum, minimum, mod
from tcpx.payload.sizes.bounds import REMEMBERED, is_less_equal, known_divisor, lower_bound, upper_bound
from tcpx.payload.sizes.equations import reduced
from tcpx.payload.sizes.expressions import Atom, Dim, Extremum, Max, Min, Mod, Size, Symbol, Var, atoms, product, total
from tcpx.payload.sizes.limits import not_negative
from tcpx.payload.sizes.linear import are_contradictory
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.sizes.questions import KnownSymbols, Questions, asked_sizes, questions
from tcpx.payload.sizes.substitution import Substitution, simplify

MOST_RELATIONS: Final = 16
"""Conditions that one proof combines."""
MOST_CASES: Final = 2
"""Minima and maxima whose arguments one proof tells apart, one in the cases of another."""


class Context:
    """Conditions that all hold where sizes are asked about."""

    def __init__(self, conditions: Sequence[Predicate] = ()) -> None:
        self._holding = Predicate(tuple(dict.fromkeys(c for p in conditions for c in p.comparisons)))

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The conditions, one by one."""
        return self._holding.comparisons

    @cached_property
    def names(self) -> KnownSymbols:
        """What the conditions say of symbols, where that is more than their declarations do. Where they contradict each
        other nothing runs, and it is enough what the last of them say: of a branch, what is known around it."""
        rest, given = self._holding, self._holding.symbols()
        while (known := rest.facts(given)) is None:
            rest = Predicate(rest.comparisons[1:])
        return {s.name: known[s.name] for s in given if known[s.name].declaration != s.declaration}

    def invariant(self) -> Context:
        """The conditions that mention no loop variable."""
        return Context([Predicate((c,)) for c in self._holding.comparisons if not Predicate((c,)).variables()])

    def symbols(self) -> Mapping[Symbol | Var, Dim]:
        """Each symbol that `names` has, by itself: a substitution that simplifies what mentions it."""
        return {symbol: symbol.size() for symbol in self._holding.symbols() if symbol.name in self.names}

    def and_also(self, *conditions: Predicate) -> Context:
        """This context, with more conditions."""
        return Context([self._holding, *conditions])

    def substitute(self, mapping: Substitution) -> Context:
        """The same conditions on other symbols and loop variables."""
        return Context([self._holding.substitute(mapping)])

    def value(self, d: Dim) -> Dim:
        """The expression simplified: an int where it can have one value only."""
        if isinstance(d, int) or not self._holding.comparisons:
            return d
        return self._value(d)

    def _value(self, d: Size) -> Dim:
        for zero in self._zeros:
            known = next((rest for rest in (d + zero, d - zero) if isinstance(rest, int)), None)
            if known is not None:
                return known
        return simplify(d, self.names)

    def lower_bound(self, d: Dim) -> int | None:
        """The greatest value that the expression is proved not to go below."""
        known = (lower_bound(d - size, self.names) for size in (0, *self._not_negative))
        return max((bound for bound in known if bound is not None), default=None)

    def upper_bound(self, d: Dim) -> int | None:
        """The smallest value that the expression is proved not to exceed."""
        known = (upper_bound(d + size, self.names) for size in (0, *self._not_negative))
        return min((bound for bound in known if bound is not None), default=None)

    def divisor(self, d: Dim) -> int:
        """The largest integer that is known to divide the expression; 0 for 0."""
        return known_divisor(d, self.names)

    def is_less_equal(self, a: Dim, b: Dim) -> bool | None:
        """Whether `a <= b` here: always, never, or unknown."""
        return self._decide(Comparison("<=", a, b))

    def is_equal(self, a: Dim, b: Dim) -> bool | None:
        """Whether `a == b` here: always, never, or unknown."""
        return self._decide(Comparison("==", a, b))

    def minimum(self, *sizes: Dim) -> Dim:
        """The smallest of sizes, without those that are known not to be it."""
        return minimum(*sizes, known=self.names)

    def maximum(self, *sizes: Dim) -> Dim:
        """The largest of sizes, without those that are known not to be it."""
        return maximum(*sizes, known=self.names)

    def not_negative(self, d: Dim) -> Dim:
        """The size, or 0 where it may be negative: an extent."""
        return not_negative(d, self.names)

    def floordiv(self, a: Dim, b: Dim) -> Dim:
        """The quotient rounded down, of a positive divisor."""
        return floordiv(a, b, self.names)

    def ceildiv(self, a: Dim, b: Dim) -> Dim:
        """The quotient rounded up, of a positive divisor."""
        return ceildiv(a, b, self.names)

    def mod(self, a: Dim, b: Dim) -> Dim:
        """What is left of a size by a positive divisor."""
        return mod(a, b, self.names)

    def decide(self, condition: Predicate) -> bool | None:
        """True or False if the condition does or does not hold wherever the context does, else None."""
        decisions = [self._decide(comparison) for comparison in condition.comparisons]
        if False in decisions:
            return False
        return None if None in decisions else True

    def holds(self, condition: Predicate) -> bool:
        """Whether the condition is known to hold wherever the context does."""
        return self.decide(condition) is True

    def holds_in_cases(self, condition: Predicate) -> bool:
        """`holds`, where need be in each case of a minimum or maximum: one for each argument that it may be. A case is
        a context of its own, so this is for conditions without which a program is refused."""
        return all(self._holds_in_cases(comparison, MOST_CASES) for comparison in condition.comparisons)

    def _holds_in_cases(self, wanted: Comparison, deeper: int) -> bool:
        if self._decide(wanted) is True or not self.is_possible:
            return True
        needed = wanted.not_negative() if deeper else ()
        return bool(needed) and all(
            any(self._is_not_negative_in_cases(size, *found, deeper - 1) for found in _extrema(size)) for size in needed
        )

    def _is_not_negative_in_cases(self, size: Dim, atom: Extremum, coefficient: int, deeper: int) -> bool:
        if isinstance(atom, Max) == (coefficient > 0):  # with an argument in its place, this term is not larger
            smaller = (size + coefficient * (arg - atom.size()) for arg in atom.args)
            if any(self._holds_in_cases(Comparison("<=", 0, d), deeper) for d in smaller):
                return True
        order = "<=" if isinstance(atom, Min) else ">="
        for arg in atom.args:
            case = self.and_also(*(Predicate.of(order, arg, other) for other in atom.args if other is not arg))
            if not case._holds_in_cases(Comparison("<=", 0, _with_in_place_of(size, atom, arg)), deeper):
                return False
        return True

    @property
    def is_possible(self) -> bool:
        """False if the conditions are known to hold nowhere."""
        return EMPTY.allows(self._holding)

    def allows(self, condition: Predicate) -> bool:
        """False if a condition is known to hold nowhere in the context."""
        both = self._holding & condition
        if both.decide() is False:
            return False
        return not any(Context([both.without(c)])._excludes(c) for c in condition.comparisons)

    def _decide(self, asked: Comparison) -> bool | None:
        decided = asked.decide(self.names)
        if decided is not None:
            return decided
        if self._implies(asked):
            return True
        if self._implies(asked.negate()):
            return False
        if self._follows(asked):
            return True
        return False if self._follows(asked.negate()) else None

    def _excludes(self, comparison: Comparison) -> bool:
        return comparison.decide(self.names) is False or self._implies(comparison.negate())

    def _implies(self, wanted: Comparison) -> bool:
        """Whether one condition says that a comparison holds."""
        if wanted in self._holding.comparisons or (wanted.op == "==" and self._are_equal(wanted)):
            return True
        needed = wanted.not_negative()
        return bool(needed) and all(self._is_not_negative(d) for d in needed)

    def _are_equal(self, wanted: Comparison) -> bool:
        """Whether two sizes are one where what conditions say is equal stands for one another."""
        gap = reduced(wanted.rhs - wanted.lhs)
        zeros = [*self._zeros]
        if any(rest == 0 for zero in zeros for rest in _without_a_term(gap, zero)):
            return True
        while zeros and gap != 0:
            gap, *zeros = _without_atom(zeros[0], [gap, *zeros[1:]])
        return gap == 0

    def _is_not_negative(self, d: Dim) -> bool:
        """Whether a size is at least one that a condition says is >= 0, or is >= 0 with what is equal in place of a
        term."""
        if any(is_less_equal(size, d, self.names) is True for size in self._not_negative):
            return True
        parts = (other for zero in self._zeros for other in _without_a_term(d, zero))
        return any(is_less_equal(0, other, self.names) is True for other in parts)

    def _follows(self, wanted: Comparison) -> bool:
        """Whether conditions say together that a comparison holds: its opposite contradicts them."""
        opposite = [_in_steps(d, self.names) for d in wanted.negate().not_negative()]
        if not opposite or any(isinstance(d, int) for d in opposite):
            return False
        return _never_hold(questions([*opposite, *self._connected(opposite)], self.names))

    def _connected(self, sizes: Sequence[Dim]) -> Sequence[Dim]:
        """The relations that share symbols and loop variables with sizes, or with relations that do."""
        found: list[Dim] = []
        names = frozenset[str]().union(*map(_mentions, sizes))
        others = [(size, _mentions(size)) for size in self._not_negative]
        while near := [(size, own) for size, own in others if own & names]:
            found += [size for size, _ in near]
            names = names.union(*(own for _, own in near))
            others = [entry for entry in others if entry not in near]
        return found[:MOST_RELATIONS]

    @cached_property
    def _not_negative(self) -> Sequence[Dim]:
        """Sizes that the conditions say are at least 0, such as 48 - M * N, and what follows for the arguments of
        minima and maxima, and for multiples: a minimum is at most each argument, and 16 * n is never between 0 and
        16."""
        found = dict.fromkeys(size for c in self._holding.comparisons for size in c.not_negative())
        pending = list(found)
        while pending:
            parts = [part for part in _arguments(pending.pop()) if part not in found]
            found |= dict.fromkeys(parts)
            pending += parts
        return list(dict.fromkeys(each for size in found for each in (size, _rounded(size))))

    @cached_property
    def _zeros(self) -> Sequence[Dim]:
        """Sizes that the conditions say are 0."""
        return [c.rhs - c.lhs for c in self._holding.comparisons if c.op == "=="]


@lru_cache(maxsize=REMEMBERED)
def _never_hold(about: Questions) -> bool:
    """Whether sizes are proved to be nowhere all at least 0."""
    return are_contradictory(asked_sizes(about))


def _mentions(d: Dim) -> frozenset[str]:
    """Texts of the symbols and loop variables in a size, and in the ranges of these."""
    return frozenset(text for atom in atoms(d) for text in atom.mentions if "(" not in text)


def _in_steps(size: Dim, known: KnownSymbols) -> Dim:
    """What is not negative where a size is not: of one that goes in steps, the step at or below it."""
    if not isinstance(size, Size):
        return size
    rising = size - size.constant
    step = known_divisor(rising, known)
    return rising + step * (size.constant // step) if step > 1 else size


def _arguments(size: Dim) -> Sequence[Dim]:
    """Sizes that are at least this one: with an argument in the place of a minimum, or of a maximum that is taken
    off."""
    for factors, coefficient in size.terms if isinstance(size, Size) else ():
        if len(factors) == 1 and isinstance(atom := factors[0], Min if coefficient > 0 else Max):
            return [size + coefficient * (arg - atom.size()) for arg in atom.args]
    return ()


def _rounded(size: Dim) -> Dim:
    """The size without what is left of it by a divisor of its remainders: at least 0 where the size is."""
    rests = [factors[0] for factors, _ in size.terms if len(factors) == 1] if isinstance(size, Size) else []
    for divisor in dict.fromkeys(rest.rhs for rest in rests if isinstance(rest, Mod) and isinstance(rest.rhs, int)):
        constant = _constant_beside_multiples(size, divisor)
        if constant is not None:
            return size - constant % divisor
    return size


def _constant_beside_multiples(size: Dim, divisor: int) -> int | None:
    """The constant of a size whose other terms are a multiple of `divisor` together; remainders by it count as what
    they are the remainders of."""
    same = size
    for factors, coefficient in size.terms if isinstance(size, Size) else ():
        if len(factors) == 1 and isinstance(rest := factors[0], Mod) and rest.rhs == divisor:
            same = same + coefficient * (rest.lhs - rest.size())
    constant = same if isinstance(same, int) else same.constant
    return constant if known_divisor(same - constant) % divisor == 0 else None


def _extrema(size: Dim) -> Sequence[tuple[Extremum, int]]:
    """The minima and maxima that are terms of a size, with their coefficients."""
    terms = size.terms if isinstance(size, Size) else ()
    return [(factors[0], c) for factors, c in terms if len(factors) == 1 and isinstance(factors[0], Extremum)]


def _without_a_term(d: Dim, zero: Dim) -> Iterator[Dim]:
    """The size without one term, in place of which stands what it is where another size is 0."""
    own = dict(d.terms) if isinstance(d, Size) else {}
    for monomial, coefficient in zero.terms if isinstance(zero, Size) else ():
        count, rest = divmod(own.get(monomial, 0), coefficient)
        if count and not rest:
            yield d - count * zero


def _without_atom(zero: Dim, sizes: Sequence[Dim]) -> list[Dim]:
    """Sizes without an atom by which another one, which is 0, is linear: one step of an elimination."""
    for factors, coefficient in zero.terms if not isinstance(zero, int) else ():
        same = factors[0].size() - coefficient * zero
        if len(factors) == 1 and abs(coefficient) == 1 and not _has(same, factors[0]):
            return [_with_in_place_of(size, factors[0], same) for size in sizes]
    return [*sizes]


def _has(size: Dim, atom: Atom) -> bool:
    return not isinstance(size, int) and any(atom in factors for factors, _ in size.terms)


def _with_in_place_of(size: Dim, atom: Atom, same: Dim) -> Dim:
    if isinstance(size, int) or not _has(size, atom):
        return size
    parts = (c * product([same if a == atom else a.size() for a in factors]) for factors, c in size.terms)
    return total([size.constant, *parts])


EMPTY = Context()
