"""Replacement of symbols and loop variables in sizes, and simplification as replacement of nothing."""

from collections.abc import Mapping, Sequence
from operator import is_

from tcpx.payload.sizes.arithmetic import ceildiv, floordiv, maximum, minimum, mod
from tcpx.payload.sizes.bounds import is_less_equal
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    Division,
    Extremum,
    FloorDiv,
    Max,
    Min,
    Mod,
    Operand,
    Size,
    Symbol,
    Var,
    as_dim,
    atoms,
    product,
    total,
)

Substitution = Mapping[Symbol | Var, Dim] | Mapping[Symbol, Dim] | Mapping[Var, Dim]


def simplify(d: Operand) -> Dim:
    """The same size, rebuilt from its atoms with what can be proved; symbols with one value become that value."""
    return Rebuild({}, everything=True).of(as_dim(d))


def substitute(d: Operand, mapping: Substitution) -> Dim:
    """d with symbols and loop variables replaced at once, also in the facts of loop variables, and simplified.

    A symbol that is replaced by itself, with facts that leave it one value, becomes that value.
    """
    if isinstance(d, int):
        return d
    d = as_dim(d)
    texts = [atom.text for atom in mapping]
    if all(atom.mentions.isdisjoint(texts) for atom in atoms(d)):
        return d
    return Rebuild({atom.text: _with_one_value(atom, value) for atom, value in mapping.items()}).of(d)


def are_same(made: Sequence[object], given: Sequence[object]) -> bool:
    """Whether a replacement in each of these replaced nothing."""
    return all(map(is_, made, given))


def _with_one_value(atom: Symbol | Var, value: Dim) -> Dim:
    return simplify_symbol(value) if isinstance(atom, Symbol) and value == atom.size() else value


def with_facts(d: Dim, known: Mapping[str, Symbol]) -> Dim:
    """The same expression over symbols that carry the facts of `known`, by name; nothing is simplified."""
    if isinstance(d, int):
        return d
    return Size(tuple((tuple(_atom_with_facts(a, known) for a in monomial), c) for monomial, c in d.terms), d.constant)


def _atom_with_facts(atom: Atom, known: Mapping[str, Symbol]) -> Atom:
    match atom:
        case Symbol(name=name):
            return known.get(name, atom)
        case Var():
            return Var(atom.name, *(with_facts(d, known) for d in (atom.lower, atom.upper, atom.step)))
        case Division():
            return type(atom)(with_facts(atom.lhs, known), with_facts(atom.rhs, known))
        case Extremum():
            return type(atom)(tuple(with_facts(arg, known) for arg in atom.args))
        case _:
            raise TypeError(type(atom).__name__)


def simplify_symbol(value: Dim) -> Dim:
    """The value of a symbol that has only one, anything else as it is."""
    match value:
        case Size(terms=(((Symbol(lower=lower, upper=upper),), 1),), constant=offset) if lower == upper:
            return lower + offset
        case _:
            return value


class Rebuild:
    """One pass of replacement over expressions; parts that do not change are kept as they are.

    `everything` rebuilds and so simplifies unchanged parts too; without `facts` those of loop variables stay.
    """

    __slots__ = ("_everything", "_facts", "_known", "_mapping")

    def __init__(self, mapping: Mapping[str, Dim], everything: bool = False, facts: bool = True) -> None:
        self._mapping = mapping
        self._everything = everything
        self._facts = facts
        self._known: dict[str, Dim] = {}

    def of(self, d: Dim) -> Dim:
        """The rebuilt expression."""
        if isinstance(d, int) or not self._changes(d):
            return d
        return total([d.constant, *(c * product(map(self._atom, monomial)) for monomial, c in d.terms)])

    def _changes(self, d: Dim) -> bool:
        return self._everything or any(map(self._atom_changes, atoms(d)))

    def _atom_changes(self, atom: Atom) -> bool:
        return not (atom.mentions if self._facts else atom.inside).isdisjoint(self._mapping)

    def _atom(self, atom: Atom) -> Dim:
        if atom.text in self._mapping:
            return self._mapping[atom.text]
        if not self._everything and not self._atom_changes(atom):
            return atom.size()
        known = self._known.get(atom.text)
        if known is None:
            known = self._known[atom.text] = self._new_atom(atom)
        return known

    def _new_atom(self, atom: Atom) -> Dim:
        match atom:
            case Symbol():
                return simplify_symbol(atom.size())
            case Var():
                lower, upper, step = self.of(atom.lower), self.of(atom.upper), self.of(atom.step)
                if (isinstance(step, int) and step < 1) or is_less_equal(upper - lower, step) is True:
                    return lower
                return Var(atom.name, lower, upper, step).size()
            case FloorDiv():
                return floordiv(self.of(atom.lhs), self._divisor(atom.rhs))
            case CeilDiv():
                return ceildiv(self.of(atom.lhs), self._divisor(atom.rhs))
            case Mod():
                return mod(self.of(atom.lhs), self._divisor(atom.rhs))
            case Min():
                return minimum(*map(self.of, atom.args))
            case Max():
                return maximum(*map(self.of, atom.args))
            case _:
                raise TypeError(type(atom).__name__)

    def _divisor(self, rhs: Dim) -> Dim:
        """A divisor that became a constant below 1 belongs to a loop that does not run, where it counts as 1."""
        divisor = self.of(rhs)
        return max(1, divisor) if isinstance(divisor, int) else divisor
