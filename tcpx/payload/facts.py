"""What the branches round an operation say about sizes, and what its function demands: in a branch, its condition
holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.sizes.bounds import is_equal, is_less_equal, known_divisor, lower_bound, upper_bound
from tcpx.payload.sizes.equations import reduced
from tcpx.payload.sizes.expressions import Atom, Dim, Max, Min, Mod, Size, Symbol, Var, product, total
from tcpx.payload.sizes.linear import are_contradictory
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.sizes.substitution import Substitution, simplify, with_facts
from tcpx.payload.sizes.traversal import as_symbol, symbols

REMEMBERED: Final = 2**10
"""Branches within branches whose facts are remembered."""


class Facts:
    """Conditions that all hold."""

    def __init__(self, predicates: Sequence[Predicate] = ()) -> None:
        self._holding = Predicate(tuple(dict.fromkeys(c for p in predicates for c in p.comparisons)))
        self._attached: dict[int, tuple[Dim, Dim]] = {}
        self._values: dict[int, tuple[Dim, Dim]] = {}
        """Sizes that were asked about, by identity: those of one text may know other things of their symbols. With each
        the answer; most are asked about again, by the operations behind."""

    @cached_property
    def _symbols(self) -> dict[str, Symbol]:
        refined = self._holding.refine(self._holding.symbols())
        return {symbol.name: symbol for symbol in refined.values()}

    def invariant(self) -> Facts:
        """Those that mention no loop variable."""
        return Facts([Predicate((c,)) for c in self._holding.comparisons if not Predicate((c,)).variables()])

    def sizes(self) -> dict[Symbol | Var, Dim]:
        """Each symbol that they are about, as it is where they hold: a substitution."""
        return {symbol: symbol.size() for symbol in self._symbols.values()}

    def attach(self, d: Dim) -> Dim:
        """The same expression, with the facts on its symbols."""
        if isinstance(d, int) or not self._symbols:
            return d
        known = self._attached.get(id(d))
        if known is None:
            known = self._attached[id(d)] = d, with_facts(d, self._symbols)
        return known[1]

    def value(self, d: Dim) -> Dim:
        """The expression simplified by the facts: an int where it can have one value only."""
        if isinstance(d, int) or not self._holding.comparisons:
            return d
        known = self._values.get(id(d))
        if known is None:
            known = self._values[id(d)] = d, self._value(d)
        return known[1]

    def _value(self, d: Size) -> Dim:
        for comparison in self._holding.comparisons:
            if comparison.op == "==":
                gap = comparison.lhs - comparison.rhs
                known = next((rest for rest in (d - gap, d + gap) if isinstance(rest, int)), None)
                if known is not None:
                    return known
        return simplify(self.attach(d))

    def lower_bound(self, d: Dim) -> int | None:
        """The greatest value that the expression is proved not to go below where the facts hold."""
        known = (lower_bound(d - size) for size in (0, *self._not_negative))
        return max((bound for bound in known if bound is not None), default=None)

    def upper_bound(self, d: Dim) -> int | None:
        """The smallest value that the expression is proved not to exceed where the facts hold."""
        known = (upper_bound(d + size) for size in (0, *self._not_negative))
        return min((bound for bound in known if bound is not None), default=None)

    @cached_property
    def _not_negative(self) -> Sequence[Dim]:
        """Sizes that the facts say are at least 0, such as 48 - M * N."""
        return [size for c in self._holding.comparisons for size in c.not_negative()]

    def and_also(self, predicate: Predicate) -> Facts:
        """The same facts, and one more."""
        return Facts([self._holding, predicate])

    def substitute(self, mapping: Substitution) -> Facts:
        """The same facts of other symbols and loop variables."""
        return Facts([self._holding.substitute(mapping)])

    def with_implied(self) -> Facts:
        """The same facts with what they say of the arguments of minima and maxima, and of multiples: a minimum is at
        most each argument, and 16 * n is never between 0 and 16."""
        found = dict.fromkeys(self._not_negative)
        pending = list(found)
        while pending:
            parts = [part for part in _arguments(pending.pop()) if part not in found]
            found |= dict.fromkeys(parts)
            pending += parts
        return Facts([self._holding, *(Predicate.of("<=", 0, _rounded(size)) for size in found)])

    def decide(self, predicate: Predicate) -> bool | None:
        """True or False if the predicate does or does not hold wherever the facts do, else None."""
        decisions = [self._decide(comparison) for comparison in predicate.comparisons]
        if False in decisions:
            return False
        return None if None in decisions else True

    def prove(self, predicate: Predicate) -> bool:
        """Whether a predicate is proved to hold wherever the facts do, by several of them together or by one. Where
        nothing proves it, this takes longer than `decide`."""
        known = [self.attach(size) for size in self._not_negative]
        negated = [[_in_steps(self.attach(d)) for d in c.negate().not_negative()] for c in predicate.comparisons]
        if all(sizes and are_contradictory([*sizes, *known]) for sizes in negated):
            return True
        return self.decide(predicate) is True

    def allow(self, predicate: Predicate) -> bool:
        """False if the predicate is known to hold nowhere where the facts do."""
        both = self._holding & predicate
        if both.decide() is False:
            return False
        return all(Facts([both.without(c)])._decide(c) is not False for c in predicate.comparisons)

    def are_possible(self) -> bool:
        """False if they are known to hold nowhere."""
        return NOTHING.allow(self._holding)

    def _decide(self, comparison: Comparison) -> bool | None:
        here = Comparison(comparison.op, self.attach(comparison.lhs), self.attach(comparison.rhs))
        decided = here.decide()
        if decided is None and comparison.op == "==" and self._are_equal(here):
            return True
        if decided is None and self._implies(here):
            return True
        return False if decided is None and self._implies(here.negate()) else decided

    def _are_equal(self, wanted: Comparison) -> bool:
        """Whether two sizes are one where what facts say is equal stands for one another."""
        gap = reduced(wanted.rhs - wanted.lhs)
        zeros = [*self._zeros]
        if any(rest == 0 for zero in zeros for rest in _without_a_term(gap, zero)):
            return True
        while zeros and gap != 0:
            gap, *zeros = _without_atom(zeros[0], [gap, *zeros[1:]])
        return gap == 0

    def _implies(self, wanted: Comparison) -> bool:
        """Whether each size that is >= 0 where `wanted` holds is at least one that a fact says is >= 0."""
        if wanted in self._holding.comparisons:
            return True
        needed = wanted.not_negative()
        return bool(needed) and all(self._is_not_negative(d) for d in needed)

    def _is_not_negative(self, d: Dim) -> bool:
        """Whether a size is at least one that a fact says is >= 0, or is >= 0 with what is equal in place of a term."""
        if any(is_less_equal(size, d) is True for size in self._not_negative):
            return True
        return any(is_less_equal(0, other) is True for zero in self._zeros for other in _without_a_term(d, zero))

    @cached_property
    def _zeros(self) -> Sequence[Dim]:
        """Sizes that the facts say are 0."""
        return [self.attach(c.rhs) - self.attach(c.lhs) for c in self._holding.comparisons if c.op == "=="]


def _arguments(size: Dim) -> Sequence[Dim]:
    """Sizes that are at least this one: with an argument in the place of a minimum, or of a maximum that is taken
    off."""
    for atoms, coefficient in size.terms if isinstance(size, Size) else ():
        if len(atoms) == 1 and isinstance(atom := atoms[0], Min if coefficient > 0 else Max):
            return [size + coefficient * (arg - atom.size()) for arg in atom.args]
    return ()


def _rounded(size: Dim) -> Dim:
    """The size without what is left of it by a divisor of its remainders: at least 0 where the size is."""
    rests = [atoms[0] for atoms, _ in size.terms if len(atoms) == 1] if isinstance(size, Size) else []
    for divisor in dict.fromkeys(rest.rhs for rest in rests if isinstance(rest, Mod) and isinstance(rest.rhs, int)):
        constant = _constant_beside_multiples(size, divisor)
        if constant is not None:
            return size - constant % divisor
    return size


def _constant_beside_multiples(size: Dim, divisor: int) -> int | None:
    """The constant of a size whose other terms are a multiple of `divisor` together; remainders by it count as what
    they are the remainders of."""
    same = size
    for atoms, coefficient in size.terms if isinstance(size, Size) else ():
        if len(atoms) == 1 and isinstance(rest := atoms[0], Mod) and rest.rhs == divisor:
            same = same + coefficient * (rest.lhs - rest.size())
    constant = same if isinstance(same, int) else same.constant
    return constant if known_divisor(same - constant) % divisor == 0 else None


def _without_a_term(d: Dim, zero: Dim) -> Iterator[Dim]:
    """The size without one term, in place of which stands what it is where another size is 0."""
    own = dict(d.terms) if isinstance(d, Size) else {}
    for monomial, coefficient in zero.terms if isinstance(zero, Size) else ():
        count, rest = divmod(own.get(monomial, 0), coefficient)
        if count and not rest:
            yield d - count * zero


def _without_atom(zero: Dim, sizes: Sequence[Dim]) -> list[Dim]:
    """Sizes without an atom by which another one, which is 0, is linear: one step of an elimination."""
    for atoms, coefficient in zero.terms if not isinstance(zero, int) else ():
        same = atoms[0].size() - coefficient * zero
        if len(atoms) == 1 and abs(coefficient) == 1 and not _has(same, atoms[0]):
            return [_with_in_place_of(size, atoms[0], same) for size in sizes]
    return [*sizes]


def _has(size: Dim, atom: Atom) -> bool:
    return not isinstance(size, int) and any(atom in factors for factors, _ in size.terms)


def _with_in_place_of(size: Dim, atom: Atom, same: Dim) -> Dim:
    if isinstance(size, int) or not _has(size, atom):
        return size
    parts = (c * product([same if a == atom else a.size() for a in factors]) for factors, c in size.terms)
    return total([size.constant, *parts])


NOTHING = Facts()


def as_declared(d: Dim, symbols: Iterable[Symbol]) -> Dim:
    """The expression over symbols as a function declares them: what a branch says of them holds in no other."""
    return with_facts(d, {symbol.name: symbol for symbol in symbols})


def foreign_symbols(d: Dim, op: Operation) -> list[str]:
    """The symbols in a size that mean nothing where an operation stands: those of another function, or with facts that
    another declares for its symbol of this name."""
    func = op.func
    if func is None or func.module is None or len(func.module.funcs) < 2:
        return []
    facts, found = facts_at(op), list[str]()
    declared = {symbol.name: symbol for symbol in func.symbols}
    for symbol in symbols(d):
        known = as_symbol(facts.attach(declared[symbol.name].size())) if symbol.name in declared else None
        if known is None or _says_more(symbol, known):
            found.append(symbol.name)
    return found


def _says_more(symbol: Symbol, known: Symbol) -> bool:
    is_above = symbol.upper is not None and (known.upper is None or symbol.upper < known.upper)
    return symbol.lower > known.lower or is_above or known.multiple_of % symbol.multiple_of != 0


def facts_at(op: Operation) -> Facts:
    """What holds where an operation stands."""
    branches = tuple(_branches(op))
    return _facts(branches) if branches else NOTHING


def are_equal_at(op: Operation, lhs: Dim, rhs: Dim) -> bool:
    """Whether two sizes are known to be equal where an operation stands."""
    return is_equal(lhs, rhs) is True or facts_at(op).decide(Predicate.of("==", lhs, rhs)) is True


def is_less_equal_at(op: Operation, lhs: Dim, rhs: Dim) -> bool:
    """Whether a size is proved to be at most another one where an operation stands."""
    return is_less_equal(lhs, rhs) is True or facts_at(op).prove(Predicate.of("<=", lhs, rhs))


def facts_if(op: Operation, also: Sequence[Predicate]) -> Facts:
    """What holds where an operation stands, and where these do."""
    return Facts([*_branch_conditions(op), *also])


def facts_in_iterations(op: Operation) -> Facts:
    """What holds where an operation stands, with what it says that all loops round it have an iteration."""
    loops = [var for outer in op.ancestors() if isinstance(var := outer.attributes.get("var"), Var)]
    return Facts([*_branch_conditions(op), *(Predicate.of("<", var.lower, var.upper) for var in loops)])


def is_unreachable(op: Operation) -> bool:
    """Whether a loop round an operation has no iteration where the branches round the operation hold."""
    here = facts_at(op)
    loops = [var for outer in op.ancestors() if isinstance(var := outer.attributes.get("var"), Var)]
    return any(here.decide(Predicate.of("<", var.lower, var.upper)) is False for var in loops)


def facts_in(conditional: Operation, region: int) -> Facts:
    """What holds in one region of a conditional."""
    held = conditional.attributes.get("predicate")
    own = [_Branch(held, region)] if isinstance(held, Predicate) else []
    return _facts((*own, *_branches(conditional)))


def _branch_conditions(op: Operation) -> Iterator[Predicate]:
    return (held for branch in _branches(op) if (held := branch.condition) is not None)


class _Branch:
    """A region of a conditional, by the very predicate it has: predicates of equal texts may know other things of their
    symbols."""

    __slots__ = ("predicate", "region")

    def __init__(self, predicate: Predicate, region: int) -> None:
        self.predicate = predicate
        self.region = region

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Branch) and self.predicate is other.predicate and self.region == other.region

    def __hash__(self) -> int:
        return hash((id(self.predicate), self.region))

    @property
    def condition(self) -> Predicate | None:
        """What holds in it; None if that is not known as a conjunction."""
        return self.predicate if self.region == 0 else self.predicate.negate()


def _branches(op: Operation) -> Iterator[_Branch]:
    """The branches round an operation, innermost first, and what its function demands."""
    inner = op
    for outer in op.ancestors():
        held = outer.attributes.get("predicate")
        if isinstance(held, Predicate):
            yield from (_Branch(held, k) for k, block in enumerate(outer.regions) if block is inner.parent)
        elif isinstance(outer, FuncOp):
            yield from (_Branch(held, 0) for held in outer.demands)
        inner = outer


@lru_cache(maxsize=REMEMBERED)
def _facts(branches: tuple[_Branch, ...]) -> Facts:
    found = [held for branch in branches if (held := branch.condition) is not None]
    return Facts(found) if found else NOTHING


def _in_steps(size: Dim) -> Dim:
    """What is not negative where a size is not: of one that goes in steps, the step at or below it."""
    if not isinstance(size, Size):
        return size
    rising = size - size.constant
    step = known_divisor(rising)
    return rising + step * (size.constant // step) if step > 1 else size
