"""Conditions on sizes: conjunctions of comparisons, decided by proof or at run time, and the facts they imply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Final, Literal

from tcpx.payload.sizes.bounds import is_equal, is_less, is_less_equal, upper_bound
from tcpx.payload.sizes.equations import solutions
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    Symbol,
    Var,
    make,
    to_text,
)
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols
from tcpx.payload.sizes.substitution import Substitution, are_same, substitute
from tcpx.payload.sizes.traversal import evaluate, leaves, variables
from tcpx.payload.sizes.traversal import symbols as symbols_of
from tcpx.records import frozen_for_checkers

Relation = Literal["==", "!=", "<", "<=", ">", ">="]
NEGATED: Final[Mapping[Relation, Relation]] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
REFINEMENT_ROUNDS: Final = 8
"""Facts about one symbol may tighten those of another; a few rounds are enough in practice: one for each power of 2 in
what an equation of a deep U-Net says of a height."""


@frozen_for_checkers
class Comparison:
    """`lhs op rhs`."""

    op: Relation
    lhs: Dim
    rhs: Dim

    def decide(self, known: KnownSymbols = NOTHING_KNOWN) -> bool | None:
        """True or False if that holds for all sizes, else None."""
        match self.op:
            case "==":
                return is_equal(self.lhs, self.rhs, known)
            case "!=":
                return _opposite(is_equal(self.lhs, self.rhs, known))
            case "<":
                return is_less(self.lhs, self.rhs, known)
            case "<=":
                return is_less_equal(self.lhs, self.rhs, known)
            case ">":
                return is_less(self.rhs, self.lhs, known)
            case ">=":
                return is_less_equal(self.rhs, self.lhs, known)

    def evaluate(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for given values of symbols and loop variables."""
        lhs, rhs = evaluate(self.lhs, sizes), evaluate(self.rhs, sizes)
        match self.op:
            case "==":
                return lhs == rhs
            case "!=":
                return lhs != rhs
            case "<":
                return lhs < rhs
            case "<=":
                return lhs <= rhs
            case ">":
                return lhs > rhs
            case ">=":
                return lhs >= rhs

    def negate(self) -> Comparison:
        """The comparison that holds exactly where this one does not."""
        return Comparison(NEGATED[self.op], self.lhs, self.rhs)

    def substitute(self, mapping: Substitution, known: KnownSymbols = NOTHING_KNOWN) -> Comparison:
        """The comparison with symbols and loop variables replaced; itself where nothing is."""
        return self.map(lambda d: substitute(d, mapping, known))

    def map(self, of: Callable[[Dim], Dim]) -> Comparison:
        """The comparison with what `of` makes of its sizes; itself where these stay."""
        lhs, rhs = of(self.lhs), of(self.rhs)
        return self if lhs is self.lhs and rhs is self.rhs else Comparison(self.op, lhs, rhs)

    def to_text(self) -> str:
        """`M < 4`."""
        return f"{to_text(self.lhs)} {self.op} {to_text(self.rhs)}"

    def not_negative(self) -> tuple[Dim, ...]:
        """Sizes that are >= 0 exactly where this holds; none for `!=`."""
        gap = self.rhs - self.lhs
        match self.op:
            case "==":
                return (gap, -gap)
            case "<":
                return (gap - 1,)
            case "<=":
                return (gap,)
            case ">":
                return (-gap - 1,)
            case ">=":
                return (-gap,)
            case "!=":
                return ()


class _Remembered:
    """What of a predicate is computed when it is first asked for."""

    __slots__ = ("_key",)

    _key: str


@frozen_for_checkers
class Predicate(_Remembered):
    """A conjunction of comparisons; the empty one holds always."""

    comparisons: tuple[Comparison, ...] = ()

    @staticmethod
    def of(op: Relation, lhs: Dim, rhs: Dim) -> Predicate:
        """The predicate of one comparison."""
        return Predicate((Comparison(op, lhs, rhs),))

    def __and__(self, other: Predicate) -> Predicate:
        return Predicate(tuple(dict.fromkeys((*self.comparisons, *other.comparisons))))

    def __str__(self) -> str:
        return self.to_text()

    def decide(self) -> bool | None:
        """True or False if that holds for all sizes, else None."""
        decisions = [comparison.decide() for comparison in self.comparisons]
        if False in decisions:
            return False
        if None not in decisions:
            return True
        return False if self.facts(self.symbols()) is None else None

    def evaluate(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for given values of symbols and loop variables."""
        return all(comparison.evaluate(sizes) for comparison in self.comparisons)

    def negate(self) -> Predicate | None:
        """The opposite predicate, None unless there is exactly one comparison."""
        return Predicate((self.comparisons[0].negate(),)) if len(self.comparisons) == 1 else None

    def substitute(self, mapping: Substitution, known: KnownSymbols = NOTHING_KNOWN) -> Predicate:
        """The predicate with symbols and loop variables replaced; itself where nothing is."""
        return self.map(lambda d: substitute(d, mapping, known))

    def map(self, of: Callable[[Dim], Dim]) -> Predicate:
        """The predicate with what `of` makes of its sizes; itself where these stay."""
        made = tuple([comparison.map(of) for comparison in self.comparisons])
        return self if are_same(made, self.comparisons) else Predicate(made)

    def without(self, comparison: Comparison) -> Predicate:
        """The other comparisons."""
        return Predicate(tuple(c for c in self.comparisons if c != comparison))

    def simplify(self) -> Predicate:
        """Without the comparisons that always hold."""
        return Predicate(tuple(c for c in self.comparisons if c.decide() is not True))

    def to_text(self) -> str:
        """`M < 4 and N == 0`; `0 == 0` for the empty predicate."""
        return " and ".join(comparison.to_text() for comparison in self.comparisons) or "0 == 0"

    @property
    def key(self) -> str:
        """Its text, the declarations of its symbols and the ranges of its loop variables. Predicates with equal keys
        say the same, also those of two functions."""
        try:
            return self._key
        except AttributeError:
            sizes = [d for c in self.comparisons for d in (c.lhs, c.rhs)]
            self._key = " | ".join((self.to_text(), *_declarations(sizes)))
            return self._key

    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols it mentions, by name."""
        found = {s.name: s for c in self.comparisons for d in (c.lhs, c.rhs) for s in symbols_of(d)}
        return tuple(found[name] for name in sorted(found))

    def variables(self) -> tuple[Var, ...]:
        """The loop variables it mentions, by name."""
        found = {v.name: v for c in self.comparisons for d in (c.lhs, c.rhs) for v in variables(d)}
        return tuple(found[name] for name in sorted(found))

    def refine(self, symbols: Iterable[Symbol]) -> dict[Symbol, Symbol]:
        """Those of the symbols for which the predicate implies tighter facts, with these facts.

        `M % 12 == 0 and M < 100` -> {M: Symbol("M", 0, 96, multiple_of=12)}. Empty if the predicate cannot hold.
        """
        given = tuple(symbols)
        known = self.facts(given)
        if known is None:
            return {}
        return {s: known[s.name] for s in given if _facts_of(known[s.name]) != _facts_of(s)}

    def facts(self, given: Iterable[Symbol]) -> dict[str, Symbol] | None:
        """The symbols, by name, with all facts that could be derived; None where the predicate cannot hold."""
        known = {symbol.name: symbol for symbol in given}
        for _ in range(REFINEMENT_ROUNDS):
            before = [_facts_of(symbol) for symbol in known.values()]
            here = self.substitute({symbol: symbol.size() for symbol in known.values()})
            for comparison in here.comparisons:
                if comparison.decide() is False or not _tighten(comparison, known):
                    return None
            for name, symbol in known.items():
                rounded = _rounded(symbol)
                if rounded.upper is not None and rounded.upper < rounded.lower:
                    return None
                known[name] = rounded
            if before == [_facts_of(symbol) for symbol in known.values()]:
                break
        return known


def _declarations(sizes: Iterable[Dim]) -> dict[str, None]:
    """How the symbols of sizes are declared, and the ranges of loop variables, with what these mention."""
    found: dict[str, None] = {}
    for leaf in (leaf for size in sizes for leaf in leaves(size).values()):
        if isinstance(leaf, Symbol):
            found[leaf.declaration] = None
        else:
            bounds = (leaf.lower, leaf.upper, leaf.step)
            found |= {f"{leaf.text}: {' '.join(map(to_text, bounds))}": None, **_declarations(bounds)}
    return found


def _tighten(comparison: Comparison, known: dict[str, Symbol]) -> bool:
    """Tighten what is known by one comparison; False where no value of its symbol satisfies it."""
    for size in comparison.not_negative():
        _tighten_range(size, known)
    if comparison.op == "==" and not _tighten_by_equation(comparison.rhs - comparison.lhs, known):
        return False
    match comparison:
        case Comparison("==", Size(terms=(((Mod(lhs=lhs, rhs=int() as rhs),), 1),), constant=0), 0):
            _tighten_multiple(lhs, rhs, known)
        case Comparison("==", 0, Size(terms=(((Mod(lhs=lhs, rhs=int() as rhs),), 1),), constant=0)):
            _tighten_multiple(lhs, rhs, known)
        case Comparison("!=", Size(terms=(((Symbol(name=name),), 1),), constant=offset), int() as value):
            _exclude(name, value - offset, known)
        case Comparison("!=", int() as value, Size(terms=(((Symbol(name=name),), 1),), constant=offset)):
            _exclude(name, value - offset, known)
        case _:
            pass
    return True


def _tighten_by_equation(gap: Dim, known: dict[str, Symbol]) -> bool:
    """The values of the one symbol of a size for which it is 0; False where there are none."""
    found = solutions(gap)
    if found is None or found.symbol.name not in known:
        return True
    symbol = known[found.symbol.name]
    known[symbol.name] = replace(symbol, multiple_of=lcm(symbol.multiple_of, found.multiple_of))
    if found.ends is not None:
        _tighten_range(symbol.size() - found.ends[0], known)
        _tighten_range(found.ends[1] - symbol.size(), known)
    return not found.are_none


def _tighten_range(size: Dim, known: dict[str, Symbol]) -> None:
    """Bounds of each atom that stands alone in a term of a size >= 0, from the range of the other terms."""
    if isinstance(size, int):
        return
    for monomial, coefficient in size.terms:
        rest = upper_bound(size - make({monomial: coefficient}, 0)) if len(monomial) == 1 else None
        if rest is not None and coefficient > 0:
            _tighten_lower(monomial[0], -(rest // coefficient), known)
        elif rest is not None:
            _tighten_upper(monomial[0], rest // -coefficient, known)


def _tighten_lower(atom: Atom, bound: int, known: dict[str, Symbol]) -> None:
    """The fact atom >= bound."""
    match atom:
        case Symbol(name=name) if name in known:
            known[name] = replace(known[name], lower=max(known[name].lower, bound))
        case FloorDiv(lhs=lhs, rhs=int() as rhs):
            _tighten_range(lhs - bound * rhs, known)
        case CeilDiv(lhs=lhs, rhs=int() as rhs):
            _tighten_range(lhs - (bound - 1) * rhs - 1, known)
        case Min(args=args):
            for arg in args:
                _tighten_range(arg - bound, known)
        case Max(args=args):
            _tighten_only([arg - bound for arg in args], known)
        case _:
            pass


def _tighten_upper(atom: Atom, bound: int, known: dict[str, Symbol]) -> None:
    """The fact atom <= bound."""
    match atom:
        case Symbol(name=name) if name in known:
            upper = known[name].upper
            known[name] = replace(known[name], upper=bound if upper is None else min(upper, bound))
        case FloorDiv(lhs=lhs, rhs=int() as rhs):
            _tighten_range((bound + 1) * rhs - 1 - lhs, known)
        case CeilDiv(lhs=lhs, rhs=int() as rhs):
            _tighten_range(bound * rhs - lhs, known)
        case Max(args=args):
            for arg in args:
                _tighten_range(bound - arg, known)
        case Min(args=args):
            _tighten_only([bound - arg for arg in args], known)
        case _:
            pass


def _tighten_only(sizes: Sequence[Dim], known: dict[str, Symbol]) -> None:
    """The fact that one of these sizes is >= 0, where all but one are known not to be."""
    possible = [size for size in sizes if is_less(size, 0) is not True]
    if len(possible) == 1:
        _tighten_range(possible[0], known)


def _tighten_multiple(lhs: Dim, rhs: int, known: dict[str, Symbol]) -> None:
    match lhs:
        case Size(terms=(((Symbol(name=name),), 1 | -1),), constant=offset) if name in known and offset % rhs == 0:
            known[name] = replace(known[name], multiple_of=lcm(known[name].multiple_of, rhs))
        case _:
            pass


def _exclude(name: str, value: int, known: dict[str, Symbol]) -> None:
    symbol = known.get(name)
    if symbol is not None and symbol.lower == value:
        known[name] = replace(symbol, lower=value + 1)
    elif symbol is not None and symbol.upper == value:
        known[name] = replace(symbol, upper=value - 1)


def _rounded(symbol: Symbol) -> Symbol:
    """The range with its ends on multiples."""
    m = symbol.multiple_of
    upper = None if symbol.upper is None else symbol.upper // m * m
    return replace(symbol, lower=-(-symbol.lower // m) * m, upper=upper)


def _facts_of(symbol: Symbol) -> tuple[int, int | None, int]:
    return (symbol.lower, symbol.upper, symbol.multiple_of)


def _opposite(decision: bool | None) -> bool | None:
    return None if decision is None else not decision
