"""Size expressions as data: atoms, the normal form `Size`, linear arithmetic, evaluation and text.

Nothing here reasons about values: proofs live in `bounds.py`, simplifying constructors in `sizes.py`.
Atoms are equal when their texts are equal; the facts of symbols and loop variables are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import ClassVar, Final

from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Direction
from tcpx.records import frozen_as_compared_by_base, frozen_for_checkers

SYMBOL_RANK: Final = 0
VARIABLE_RANK: Final = 1
CALL_RANK: Final = 2


class Atom:
    """An indivisible factor; equality, hash and order follow its text. Arithmetic gives an int or a `Size`."""

    __slots__ = ("inside", "mentions", "order", "text")

    text: str
    """What `to_text` prints for this atom."""
    order: tuple[int, str]
    """Symbols before loop variables before calls, then alphabetical."""
    inside: frozenset[str]
    """Texts of this atom and of every atom nested in its operands; facts are not looked into."""
    mentions: frozenset[str]
    """Those, and what the ranges of loop variables mention."""

    @property
    def operands(self) -> tuple[Dim, ...]:
        """Its operands. A symbol and a loop variable have none."""
        return ()

    def _describe(self, rank: int, text: str, operands: Sequence[Dim] = (), facts: Sequence[Dim] = ()) -> None:
        self.order = (rank, text)
        self.text = text
        own = frozenset((text,))
        nested = [atom for operand in operands for atom in atoms(operand)]
        self.inside = own.union(*[atom.inside for atom in nested]) if nested else own
        known = nested + [atom for fact in facts for atom in atoms(fact)] if facts else nested
        self.mentions = own.union(*[atom.mentions for atom in known]) if known else own

    def size(self) -> Size:
        """This atom as an expression."""
        return Size((((self,), 1),), 0)

    def __add__(self, other: Operand) -> Dim:
        return self.size() + other

    def __radd__(self, other: Operand) -> Dim:
        return self.size() + other

    def __sub__(self, other: Operand) -> Dim:
        return self.size() - other

    def __rsub__(self, other: Operand) -> Dim:
        return -self.size() + other

    def __mul__(self, other: Operand) -> Dim:
        return self.size() * other

    def __rmul__(self, other: Operand) -> Dim:
        return self.size() * other

    def __neg__(self) -> Size:
        return -self.size()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.order == other.order)

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Copies and pickles are built anew from the fields, the text is not stored."""
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    __match_args__: tuple[str, ...] = ()


@frozen_as_compared_by_base
class Symbol(Atom):
    """A named run-time size, as its function declares it: `lower`, `upper` (inclusive) and `multiple_of`. What a branch
    says of it stands in a context, never in another instance."""

    name: str
    lower: int = 0
    upper: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if self.multiple_of < 1:
            raise ArgumentError(
                Diagnostic(
                    f"symbol {self.name} cannot be a multiple of {self.multiple_of}",
                    required="multiple_of >= 1",
                    found=str(self.multiple_of),
                )
            )
        self._describe(SYMBOL_RANK, self.name)

    @property
    def declaration(self) -> str:
        """`N: 1.. multiple_of 4`, as a function declares it."""
        text = self.name
        if self.lower != 0 or self.upper is not None:
            text += f": {self.lower}..{'' if self.upper is None else self.upper}"
        return text if self.multiple_of == 1 else f"{text} multiple_of {self.multiple_of}"


@frozen_as_compared_by_base
class Var(Atom):
    """A loop variable in scope: lower, lower + step, ... below `upper` (exclusive).

    An expression that mentions it is evaluated inside the loop, so the loop is not empty and its step is positive.
    """

    name: str
    lower: Dim
    upper: Dim
    step: Dim = 1

    def __post_init__(self) -> None:
        if isinstance(self.step, int) and self.step < 1:
            raise ArgumentError(
                Diagnostic(
                    f"loop variable %{self.name} cannot step by {self.step}",
                    required="step >= 1",
                    found=str(self.step),
                )
            )
        self._describe(VARIABLE_RANK, f"%{self.name}", facts=(self.lower, self.upper, self.step))


@frozen_as_compared_by_base
class Division(Atom):
    """A quotient or a rest; rhs is positive wherever the expression is evaluated."""

    word: ClassVar[str]
    lhs: Dim
    rhs: Dim

    def __post_init__(self) -> None:
        self._describe(CALL_RANK, f"{self.word}({to_text(self.lhs)}, {to_text(self.rhs)})", (self.lhs, self.rhs))

    @property
    def operands(self) -> tuple[Dim, ...]:
        return self.lhs, self.rhs


class FloorDiv(Division):
    """lhs / rhs rounded down."""

    __slots__ = ()
    word = "floordiv"


class CeilDiv(Division):
    """lhs / rhs rounded up."""

    __slots__ = ()
    word = "ceildiv"


class Mod(Division):
    """lhs - rhs * floordiv(lhs, rhs), in 0..rhs-1."""

    __slots__ = ()
    word = "mod"


@frozen_as_compared_by_base
class Extremum(Atom):
    """The smallest or largest of two or more sizes, kept sorted: a constant first, then by text."""

    word: ClassVar[str]
    args: tuple[Dim, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(sorted(self.args, key=_argument_order)))  # frozen for type checkers
        self._describe(CALL_RANK, f"{self.word}({', '.join(map(to_text, self.args))})", self.args)

    @property
    def operands(self) -> tuple[Dim, ...]:
        return self.args


class Min(Extremum):
    """The smallest."""

    __slots__ = ()
    word = "min"


class Max(Extremum):
    """The largest."""

    __slots__ = ()
    word = "max"


@frozen_as_compared_by_base
class ElementOf(Atom):
    """In an indexing map: the element that an iteration has of an operand, written as its role, `in1`."""

    operand: int

    def __post_init__(self) -> None:
        self._describe(SYMBOL_RANK, f"in{self.operand}")


Monomial = tuple[Atom, ...]
Term = tuple[Monomial, int]


class _Remembered:
    """What of a size is computed when it is first asked for."""

    __slots__ = ("_hash", "_leaves", "_names", "_text")

    _hash: int
    _leaves: Mapping[str, Symbol | Var]
    _names: frozenset[str]
    _text: str


@frozen_for_checkers
class Size(_Remembered):
    """A size that is not constant, in normal form: the sum of coefficient * monomial, sorted, plus a constant.

    A monomial is a sorted tuple of atoms; coefficients are not zero; there is at least one term.
    """

    terms: tuple[Term, ...]
    constant: int = 0

    @staticmethod
    def of(atom: Atom) -> Size:
        """The expression that is this atom."""
        return atom.size()

    def __add__(self, other: Operand) -> Dim:
        return add(self, other.size() if isinstance(other, Atom) else other)

    def __radd__(self, other: Operand) -> Dim:
        return add(self, other.size() if isinstance(other, Atom) else other)

    def __sub__(self, other: Operand) -> Dim:
        return add(self, other.size() if isinstance(other, Atom) else other, -1)

    def __rsub__(self, other: Operand) -> Dim:
        return add(as_dim(other), self, -1)

    def __mul__(self, other: Operand) -> Dim:
        return multiply(self, other.size() if isinstance(other, Atom) else other)

    def __rmul__(self, other: Operand) -> Dim:
        return multiply(self, other.size() if isinstance(other, Atom) else other)

    def __neg__(self) -> Size:
        return Size(tuple((monomial, -c) for monomial, c in self.terms), -self.constant)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((self.terms, self.constant))
            return self._hash

    def __reduce__(self) -> tuple[type[Size], tuple[object, ...]]:
        """Hashes of texts are of one process."""
        return Size, (self.terms, self.constant)

    @property
    def names(self) -> frozenset[str]:
        """Texts of the symbols and loop variables it mentions; facts are not looked into."""
        try:
            return self._names
        except AttributeError:
            self._names = frozenset(text for atom in atoms(self) for text in atom.inside if "(" not in text)
            return self._names

    @property
    def leaves(self) -> Mapping[str, Symbol | Var]:
        """Its symbols and loop variables by text, without those only their facts mention."""
        try:
            return self._leaves
        except AttributeError:
            self._leaves = _leaves_of(self)
            return self._leaves

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            self._text = _infix(self)
            return self._text

    def __repr__(self) -> str:
        return f"Size({to_text(self)})"


Dim = int | Size
Operand = int | Size | Atom


def as_dim(operand: Operand) -> Dim:
    """An int or Size for anything arithmetic accepts."""
    return operand.size() if isinstance(operand, Atom) else operand


def make(coefficients: Mapping[Monomial, int], constant: int) -> Dim:
    """The normal form of a sum of monomials plus a constant."""
    terms = [(monomial, c) for monomial, c in coefficients.items() if c]
    if not terms:
        return constant
    if len(terms) > 1:
        terms.sort(key=_term_order)
    return Size(tuple(terms), constant)


def add(a: Dim, b: Dim, factor: int = 1) -> Dim:
    """a + factor * b. Where both mention an atom with different facts, those of `a` stay."""
    if isinstance(b, int):
        if isinstance(a, int):
            return a + factor * b
        return Size(a.terms, a.constant + factor * b) if b else a
    if isinstance(a, int):
        return add(scale(b, factor), a)
    coefficients = dict(a.terms)
    for monomial, c in b.terms:
        coefficients[monomial] = coefficients.get(monomial, 0) + factor * c
    return make(coefficients, a.constant + factor * b.constant)


def scale(a: Dim, factor: int) -> Dim:
    """factor * a."""
    if isinstance(a, int):
        return a * factor
    if factor == 0:
        return 0
    if factor == 1:
        return a
    return Size(tuple([(monomial, c * factor) for monomial, c in a.terms]), a.constant * factor)


def multiply(a: Dim, b: Dim) -> Dim:
    """a * b, multiplied out."""
    if isinstance(b, int):
        return scale(a, b)
    if isinstance(a, int):
        return scale(b, a)
    coefficients: dict[Monomial, int] = {}
    for left, c in (*a.terms, ((), a.constant)):
        for right, d in (*b.terms, ((), b.constant)):
            monomial = tuple(sorted(left + right, key=atom_order)) if left and right else left or right
            coefficients[monomial] = coefficients.get(monomial, 0) + c * d
    return make(coefficients, coefficients.pop((), 0))


def total(dims: Iterable[Dim]) -> Dim:
    """The sum of sizes, in one pass."""
    coefficients: dict[Monomial, int] = {}
    constant = 0
    for d in dims:
        if isinstance(d, int):
            constant += d
            continue
        constant += d.constant
        for monomial, c in d.terms:
            coefficients[monomial] = coefficients.get(monomial, 0) + c
    return make(coefficients, constant)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes, 1 if there are none."""
    return reduce(lambda a, b: a * b, dims, 1)


def atoms(d: Dim) -> list[Atom]:
    """The atoms at the top of an expression, not those nested in operands or facts, with repetitions."""
    return [] if isinstance(d, int) else [atom for monomial, _ in d.terms for atom in monomial]


def _leaves_of(size: Size) -> Mapping[str, Symbol | Var]:
    found: dict[str, Symbol | Var] = {}
    pending = atoms(size)
    seen: set[int] = set()
    while pending:
        atom = pending.pop()
        if isinstance(atom, (Symbol, Var)):
            found.setdefault(atom.text, atom)
        elif id(atom) not in seen:
            seen.add(id(atom))
            pending += [inner for operand in atom.operands for inner in atoms(operand)]
    return found


def check_divisor(divisor: Dim, expression: str) -> None:
    """Raises ArgumentError for a constant divisor that is not positive."""
    if isinstance(divisor, int) and divisor < 1:
        raise ArgumentError(
            Diagnostic(
                f"division by {divisor} in size {expression}",
                required="a positive divisor",
                found=str(divisor),
                fix=Direction("guard the divisor with max(1, ..)"),
            )
        )


def to_text(d: Operand) -> str:
    """Infix text: symbols, loop variables, calls, the constant last; a positive term leads where there is one."""
    return d.text if isinstance(d, Atom) else str(d)


def _infix(d: Size) -> str:
    parts = [(c, "*".join(a.text for a in monomial)) for monomial, c in d.terms]
    lead = next((i for i, (c, _) in enumerate(parts) if c > 0), None)
    if lead is not None:
        parts.insert(0, parts.pop(lead))
    words = [(c < 0, text if abs(c) == 1 else f"{abs(c)}*{text}") for c, text in parts]
    if d.constant:
        constant = (d.constant < 0, str(abs(d.constant)))
        words = [constant, *words] if lead is None and d.constant > 0 else [*words, constant]
    first, *rest = words
    return ("-" if first[0] else "") + first[1] + "".join(f" {'-' if n else '+'} {text}" for n, text in rest)


def atom_order(atom: Atom) -> tuple[int, str]:
    return atom.order


def _term_order(term: Term) -> tuple[tuple[int, str], ...]:
    return tuple(atom.order for atom in term[0])


def _argument_order(arg: Dim) -> tuple[bool, str]:
    return (not isinstance(arg, int), to_text(arg))
