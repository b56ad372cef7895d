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
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols

Substitution = Mapping[Symbol | Var, Dim] | Mapping[Symbol, Dim] | Mapping[Var, Dim]


def simplify(d: Operand, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """The same size, rebuilt from its atoms with what can be proved; symbols with one value become that value."""
    return Rebuild({}, everything=True, known=known).of(as_dim(d))


def substitute(d: Operand, mapping: Substitution, known: KnownSymbols = NOTHING_KNOWN) -> Dim:
    """d with symbols and loop variables replaced at once, also in the ranges of loop variables, and simplified.

    What changes is simplified by what is `known` of symbols; one that is replaced by itself and has one value becomes
    this.
    """
    if isinstance(d, int):
        return d
    d = as_dim(d)
    texts = [atom.text for atom in mapping]
    if all(atom.mentions.isdisjoint(texts) for atom in atoms(d)):
        return d
    return Rebuild({a.text: _with_one_value(a, value, known) for a, value in mapping.items()}, known=known).of(d)


def redeclare(d: Dim, symbols: Mapping[str, Symbol]) -> Dim:
    """The same expression over these symbols in place of those of their names, also in the ranges of loop variables.
    Nothing is simplified; itself where no symbol is declared otherwise."""
    if isinstance(d, int):
        return d
    made = tuple([(tuple([_redeclared(atom, symbols) for atom in factors]), c) for factors, c in d.terms])
    same = all(are_same(new, old) for (new, _), (old, _) in zip(made, d.terms, strict=True))
    return d if same else Size(made, d.constant)


def _redeclared(atom: Atom, symbols: Mapping[str, Symbol]) -> Atom:
    match atom:
        case Symbol():
            known = symbols.get(atom.name, atom)
            return atom if known.declaration == atom.declaration else known
        case Var():
            parts = (atom.lower, atom.upper, atom.step)
            made = [redeclare(d, symbols) for d in parts]
            return atom if are_same(made, parts) else Var(atom.name, *made)
        case Division():
            made = [redeclare(d, symbols) for d in atom.operands]
            return atom if are_same(made, atom.operands) else type(atom)(*made)
        case Extremum():
            made = [redeclare(d, symbols) for d in atom.args]
            return atom if are_same(made, atom.args) else type(atom)(tuple(made))
        case _:
            return atom


def are_same(made: Sequence[object], given: Sequence[object]) -> bool:
    """Whether a replacement in each of these replaced nothing."""
    return all(map(is_, made, given))


def _with_one_value(atom: Symbol | Var, value: Dim, known: KnownSymbols) -> Dim:
    if not isinstance(atom, Symbol) or value != atom.size():
        return value
    symbol = known.get(atom.name)
    return symbol.lower if symbol is not None and symbol.lower == symbol.upper else simplify_symbol(value)


def simplify_symbol(value: Dim) -> Dim:
    """The value of a symbol that has only one, anything else as it is."""
    match value:
        case Size(terms=(((Symbol(lower=lower, upper=upper),), 1),), constant=offset) if lower == upper:
            return lower + offset
        case _:
            return value


class Rebuild:
    """One pass of replacement over expressions; parts that do not change are kept as they are.

    `everything` rebuilds and so simplifies unchanged parts too; without `facts` those of loop variables stay. `known`
    says more of symbols than they do themselves.
    """

    __slots__ = ("_everything", "_facts", "_known", "_mapping", "_rebuilt")

    def __init__(
        self,
        mapping: Mapping[str, Dim],
        everything: bool = False,
        facts: bool = True,
        known: KnownSymbols = NOTHING_KNOWN,
    ) -> None:
        self._mapping = mapping
        self._everything = everything
        self._facts = facts
        self._known = known
        self._rebuilt: dict[str, Dim] = {}

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
        made = self._rebuilt.get(atom.text)
        if made is None:
            made = self._rebuilt[atom.text] = self._new_atom(atom)
        return made

    def _new_atom(self, atom: Atom) -> Dim:
        match atom:
            case Symbol():
                known = self._known.get(atom.name, atom)
                return known.lower if known.lower == known.upper else atom.size()
            case Var():
                lower, upper, step = self.of(atom.lower), self.of(atom.upper), self.of(atom.step)
                if (isinstance(step, int) and step < 1) or is_less_equal(upper - lower, step, self._known) is True:
                    return lower
                return Var(atom.name, lower, upper, step).size()
            case FloorDiv():
                return floordiv(self.of(atom.lhs), self._divisor(atom.rhs), self._known)
            case CeilDiv():
                return ceildiv(self.of(atom.lhs), self._divisor(atom.rhs), self._known)
            case Mod():
                return mod(self.of(atom.lhs), self._divisor(atom.rhs), self._known)
            case Min():
                return minimum(*map(self.of, atom.args), known=self._known)
            case Max():
                return maximum(*map(self.of, atom.args), known=self._known)
            case _:
                raise TypeError(type(atom).__name__)

    def _divisor(self, rhs: Dim) -> Dim:
        """A divisor that became a constant below 1 belongs to a loop that does not run, where it counts as 1."""
        divisor = self.of(rhs)
        return max(1, divisor) if isinstance(divisor, int) else divisor
