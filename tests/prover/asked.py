"""Questions about sizes as text: what is asked, the symbols with what is known of them, the conditions, the answer.

    c <= b | a:1..~4 b:0..12 c:min(a,b-1) | a<=4*b a==2*b | True

Symbols, loop variables and calls are letters, in the order in which they are met, whatever their names were. A symbol
is its range, with `~4` if it is a multiple of 4. A loop variable is `loop(lower,upper,step)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Final, Literal

from tcpx.payload.sizes.bounds import known_divisor
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.expressions import (
    Atom,
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Symbol,
    Var,
    atom_order,
    make,
)
from tcpx.payload.sizes.predicates import Comparison, Predicate, Relation
from tcpx.payload.sizes.questions import NOTHING_KNOWN, KnownSymbols

Bound = Literal["lower", "upper", "divisor"]
Answer = bool | int | None

_RELATIONS: Final[Mapping[str, Relation]] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_CALLS: Final = {"floordiv": FloorDiv, "ceildiv": CeilDiv, "mod": Mod, "min": Min, "max": Max}
_WORDS: Final = {kind: word for word, kind in _CALLS.items()}
_COMPARISON: Final = re.compile(r"(.+?)(==|!=|<=|>=|<|>)(.+)")
_SYMBOL: Final = re.compile(r"(-?\d+)\.\.(-?\d*)(?:~(\d+))?")


class UnknownAtomError(Exception):
    """A size of something that is no symbol, loop variable, quotient, remainder, minimum or maximum."""


@dataclass(frozen=True, slots=True)
class Question:
    """A comparison, or a bound or divisor of a size, where conditions hold."""

    asked: Comparison | tuple[Bound, Dim]
    conditions: Sequence[Comparison] = ()

    def answer(self) -> Answer:
        """What today's code says."""
        here = Context([Predicate((condition,)) for condition in self.conditions])
        match self.asked:
            case Comparison() as comparison:
                return here.decide(Predicate((comparison,)))
            case ("lower", size):
                return here.lower_bound(size)
            case ("upper", size):
                return here.upper_bound(size)
            case (_, size):
                return known_divisor(size, here.names)

    @property
    def sizes(self) -> Sequence[Dim]:
        """Those that are asked about, then those of the conditions."""
        asked = (self.asked.lhs, self.asked.rhs) if isinstance(self.asked, Comparison) else self.asked[1:]
        return [*asked, *(size for c in self.conditions for size in (c.lhs, c.rhs))]

    def text(self, known: KnownSymbols = NOTHING_KNOWN) -> str:
        """The question with letters for names. Raises UnknownAtomError."""
        letters = _Letters(known)
        match self.asked:
            case Comparison() as comparison:
                asked = letters.comparison(comparison)
            case (word, size):
                asked = f"{word} {letters.size(size)}"
        conditions = " ".join(map(letters.comparison, self.conditions))
        return f"{asked} | {' '.join(letters.definitions)} | {conditions}"


def is_as_decided(question: Question, answer: Answer, recorded: Answer) -> bool:
    """Whether an answer says at least what another one says."""
    if recorded is None or isinstance(question.asked, Comparison):
        return recorded is None or answer is recorded
    if answer is None:
        return False
    match question.asked[0]:
        case "lower":
            return answer >= recorded
        case "upper":
            return answer <= recorded
        case _:
            return answer % recorded == 0 if recorded else answer == 0


class _Letters:
    """Letters for the atoms of sizes; of several instances of one name the first counts."""

    def __init__(self, known: KnownSymbols) -> None:
        self.definitions: list[str] = []
        self._known = known
        self._letters: dict[str, str] = {}

    def comparison(self, comparison: Comparison) -> str:
        return f"{self.size(comparison.lhs)}{comparison.op}{self.size(comparison.rhs)}"

    def size(self, size: Dim) -> str:
        if isinstance(size, int):
            return str(size)
        terms = [
            "*".join(
                [f"{c:+}"] * (abs(c) != 1)
                + [("+-"[c < 0]) * (i == 0 and abs(c) == 1) + self._letter(atom) for i, atom in enumerate(monomial)]
            )
            for monomial, c in size.terms
        ]
        text = "".join(terms) + (f"{size.constant:+}" if size.constant else "")
        return text.removeprefix("+")

    def _letter(self, atom: Atom) -> str:
        letter = self._letters.get(atom.text)
        if letter is None:
            definition = self._definition(atom)
            letter = self._letters[atom.text] = _letter(len(self._letters))
            self.definitions.append(f"{letter}:{definition}")
        return letter

    def _definition(self, atom: Atom) -> str:
        match atom:
            case Symbol():
                atom = self._known.get(atom.name, atom)
                upper = "" if atom.upper is None else atom.upper
                return f"{atom.lower}..{upper}" + (f"~{atom.multiple_of}" if atom.multiple_of != 1 else "")
            case Var():
                return f"loop({','.join(map(self.size, (atom.lower, atom.upper, atom.step)))})"
            case _ if type(atom) in _WORDS:
                return f"{_WORDS[type(atom)]}({','.join(map(self.size, atom.operands))})"
            case _:
                raise UnknownAtomError(atom.text)


def _letter(number: int) -> str:
    cycle, rest = divmod(number, len(ascii_lowercase))
    return ascii_lowercase[rest] + (str(cycle) if cycle else "")


def parsed(text: str) -> Question:
    """The question that a text says."""
    asked, definitions, conditions = (part.strip() for part in text.split("|"))
    atoms: dict[str, Atom] = {}
    for definition in definitions.split():
        letter, _, what = definition.partition(":")
        atoms[letter] = _atom(f"{len(atoms):04}", what, atoms)
    known = [_comparison(condition, atoms) for condition in conditions.split()]
    word, _, rest = asked.partition(" ")
    if word == "lower" or word == "upper" or word == "divisor":
        return Question((word, _size(rest, atoms)), known)
    return Question(_comparison(asked, atoms), known)


def _atom(name: str, text: str, atoms: dict[str, Atom]) -> Atom:
    symbol = _SYMBOL.fullmatch(text)
    if symbol is not None:
        lower, upper, step = symbol.groups()
        return Symbol(f"n{name}", int(lower), int(upper) if upper else None, int(step or 1))
    word, _, arguments = text.removesuffix(")").partition("(")
    sizes = [_size(argument, atoms) for argument in arguments.split(",")]
    if word == "loop":
        return Var(f"n{name}", *sizes)
    kind = _CALLS[word]
    return kind(tuple(sizes)) if kind in (Min, Max) else kind(*sizes)


def _comparison(text: str, atoms: dict[str, Atom]) -> Comparison:
    found = _COMPARISON.fullmatch(text)
    assert found is not None, text
    lhs, op, rhs = found.groups()
    return Comparison(_RELATIONS[op], _size(lhs, atoms), _size(rhs, atoms))


_TERM: Final = re.compile(r"[+-]?[^+-]+")


def _size(text: str, atoms: dict[str, Atom]) -> Dim:
    coefficients: dict[Monomial, int] = {}
    constant = 0
    for term in _TERM.findall(text):
        sign = -1 if term[0] == "-" else 1
        factors = term.lstrip("+-").split("*")
        if factors[0].isdigit():
            sign *= int(factors.pop(0))
        if factors:
            coefficients[tuple(sorted((atoms[factor] for factor in factors), key=atom_order))] = sign
        else:
            constant += sign
    return make(coefficients, constant)
