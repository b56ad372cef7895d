"""Expressions as keys: with all that a proof about them may look at, so its answer can be remembered.

What can be proved of `min(6, M - %fc1/m1)` can be proved of `min(6, M - %fc2/m1)`: symbols and loop variables are told
apart by numbers, in the order in which they are met, and the proof is of an expression with names of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.payload.sizes.expressions import Atom, Dim, Max, Min, Monomial, Size, Symbol, Var, atom_order, make

Expression = int | tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]
"""A size by the numbers of its atoms: the constant, then coefficients with monomials."""


SymbolFacts = tuple[int, int | None, int]
"""What is known of a symbol: its bounds, and what it is a multiple of."""
Definition = tuple[None, SymbolFacts] | tuple[type[Atom], tuple[Expression, ...]]
"""An atom: the facts of a symbol, the range of a loop variable, the operands of any other."""
Question = tuple[Expression, tuple[Definition, ...]]
"""An expression to prove something about; equal to another one if terms and facts agree, in order, with other names."""


KnownSymbols = Mapping[str, Symbol]
"""What is known of symbols, by name, where it is more than their function declares."""
NOTHING_KNOWN: Final[KnownSymbols] = {}


def question(size: Size, known: KnownSymbols = NOTHING_KNOWN) -> Question:
    """What is asked of an expression, whatever its symbols and loop variables are called."""
    numbering = _Numbering(known)
    asked = numbering.dim(size)
    return asked, tuple(numbering.definitions)


def asked_size(of: Question) -> Dim:
    """The expression, the same for all questions that are equal."""
    asked, definitions = of
    return _dim(asked, _atoms(definitions))


Questions = tuple[tuple[Expression, ...], tuple[Definition, ...]]
"""Expressions to prove something about together."""


def questions(sizes: Sequence[Dim], known: KnownSymbols = NOTHING_KNOWN) -> Questions:
    """What is asked of several expressions."""
    numbering = _Numbering(known)
    asked = tuple(map(numbering.dim, sizes))
    return asked, tuple(numbering.definitions)


def asked_sizes(of: Questions) -> list[Dim]:
    """The expressions, the same for all questions that are equal."""
    asked, definitions = of
    atoms = _atoms(definitions)
    return [_dim(each, atoms) for each in asked]


class _Numbering:
    """Numbers for the atoms of expressions and of facts; those of one text, whose first instance counts, have one."""

    __slots__ = ("_known", "_numbers", "definitions")

    def __init__(self, known: KnownSymbols = NOTHING_KNOWN) -> None:
        self._known = known
        self._numbers: dict[str, int] = {}
        self.definitions: list[Definition] = []

    def dim(self, d: Dim) -> Expression:
        if isinstance(d, int):
            return d
        number = self._number
        return (d.constant, tuple([(c, tuple([number(atom) for atom in monomial])) for monomial, c in d.terms]))

    def _number(self, atom: Atom) -> int:
        known = self._numbers.get(atom.text)
        if known is None:
            definition = self._definition(atom)
            known = self._numbers[atom.text] = len(self.definitions)
            self.definitions.append(definition)
        return known

    def _definition(self, atom: Atom) -> Definition:
        match atom:
            case Symbol():
                if self._known:
                    atom = self._known.get(atom.name, atom)
                return (None, (atom.lower, atom.upper, atom.multiple_of))
            case Var():
                return (Var, (self.dim(atom.lower), self.dim(atom.upper), self.dim(atom.step)))
            case _:
                return (type(atom), tuple(map(self.dim, atom.operands)))


def _atoms(definitions: Sequence[Definition]) -> list[Atom]:
    atoms: list[Atom] = []
    for number, definition in enumerate(definitions):
        atoms.append(_atom(f"n{number:04}", definition, atoms))
    return atoms


def _atom(name: str, definition: Definition, atoms: list[Atom]) -> Atom:
    if definition[0] is None:
        return Symbol(name, *definition[1])
    kind, parts = definition
    dims = [_dim(part, atoms) for part in parts]
    if kind is Var:
        return Var(name, *dims)
    return kind(tuple(dims)) if kind in (Min, Max) else kind(*dims)


def _dim(expression: Expression, atoms: list[Atom]) -> Dim:
    if isinstance(expression, int):
        return expression
    constant, terms = expression
    coefficients: dict[Monomial, int] = {
        tuple(sorted((atoms[number] for number in numbers), key=atom_order)): c for c, numbers in terms
    }
    return make(coefficients, constant)
