"""Indexing maps: which element of an operand each iteration reads, as expressions over the iteration dims."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache

from tcpx.payload.sizes import (
    Dim,
    ElementOf,
    FloorDiv,
    Mod,
    Size,
    Symbol,
    Var,
    floordiv,
    is_less_equal,
    minimum,
    mod,
    substitute,
    symbols,
    to_text,
)
from tcpx.records import frozen

IndexingMap = tuple[Dim, ...]
"""One expression over the iteration dims (as `Symbol`s of their names) per dim of an operand."""


@cache
def dim_symbol(name: str) -> Symbol:
    """A dim of an iteration domain, as it stands in indexing maps."""
    return Symbol(name)


@cache
def dims(*names: str) -> IndexingMap:
    """The indexing map that selects these dims in this order."""
    return tuple(dim_symbol(n).size() for n in names)


def map_dim(expression: Dim) -> str | None:
    """The dim name if an indexing expression is just that dim."""
    if isinstance(expression, int) or expression.constant or len(expression.terms) != 1:
        return None
    ((factors, coefficient),) = expression.terms
    dim = factors[0]
    return dim.name if coefficient == 1 and len(factors) == 1 and isinstance(dim, Symbol) else None


@lru_cache(maxsize=4096)
def map_dims(indexing_map: IndexingMap) -> tuple[str, ...] | None:
    """The dim names of a map that selects dims, each at most once; None if it does anything else."""
    names = tuple(n for n in map(map_dim, indexing_map) if n is not None)
    return names if len(set(names)) == len(indexing_map) else None


def element_of(operand: int) -> Dim:
    """The entry of a map that is the element which an iteration has of another operand, an index."""
    return ElementOf(operand).size()


def map_element(expression: Dim) -> int | None:
    """The operand whose element is the index; None of an expression over dims."""
    match expression:
        case Size(terms=(((ElementOf(operand),), 1),), constant=0):
            return operand
        case _:
            return None


def index_operands(maps: Iterable[IndexingMap]) -> tuple[int, ...]:
    """The operands whose elements are indices in these maps, each once."""
    found = (map_element(e) for indexing_map in maps for e in indexing_map)
    return tuple(dict.fromkeys(k for k in found if k is not None))


@frozen
class DimDigit:
    """A part of a dim that an operand is indexed by: its quotient `floordiv(k, 4)`, or its remainder `mod(k, 4)`."""

    dim: str
    radix: int
    is_remainder: bool

    @property
    def partner(self) -> DimDigit:
        """The other part."""
        return DimDigit(self.dim, self.radix, not self.is_remainder)

    def size(self) -> Dim:
        """The indexing expression."""
        dim = Symbol(self.dim).size()
        return mod(dim, self.radix) if self.is_remainder else floordiv(dim, self.radix)

    def __str__(self) -> str:
        return f"{self.dim}{'%' if self.is_remainder else '/'}{self.radix}"


def map_digit(expression: Dim) -> DimDigit | None:
    """The digit if an indexing expression is just a digit of a dim."""
    match expression:
        case Size(terms=((((FloorDiv() | Mod()) as atom,), 1),), constant=0) if isinstance(atom.rhs, int):
            name = map_dim(atom.lhs)
            return DimDigit(name, atom.rhs, isinstance(atom, Mod)) if name is not None else None
        case _:
            return None


def map_coefficients(expression: Dim) -> Mapping[str, int] | None:
    """The dims of a linear expression with their factors, `2*i + j + 1`; None if it is not linear."""
    if isinstance(expression, int):
        return {}
    found: dict[str, int] = {}
    for atoms, factor in expression.terms:
        match atoms:
            case (Symbol(name),):
                found[name] = factor
            case _:
                return None
    return found


def is_linear_in(expression: Dim, dims: Collection[str]) -> bool:
    """Whether an expression is linear in these dims; their factors may be sizes."""
    for atoms, _ in () if isinstance(expression, int) else expression.terms:
        moving = [atom for atom in atoms if not {*map_symbols(atom.size())}.isdisjoint(dims)]
        if len(moving) > 1 or not all(isinstance(atom, Symbol) for atom in moving):
            return False
    return True


def grows(expression: Dim) -> bool:
    """Whether an expression is linear and grows with each dim: what a box reads starts at its first iteration."""
    coefficients = map_coefficients(expression)
    return bool(coefficients) and all(factor > 0 for factor in coefficients.values())


@frozen
class Falling:
    """An indexing expression that falls with its one dim, `31 - i`, `30 - 2*i`."""

    dim: str
    factor: int


def map_falling(expression: Dim) -> Falling | None:
    """What an expression falls with; None if it grows, or has another number of dims."""
    coefficients = map_coefficients(expression)
    if coefficients is None or len(coefficients) != 1:
        return None
    ((name, factor),) = coefficients.items()
    return Falling(name, factor) if factor < 0 else None


def index_range(expression: Dim, extents: Mapping[str, Dim]) -> tuple[Dim, Dim]:
    """The least index that iterations of these extents read, and what is just above the greatest: bounds of them, of
    what is not linear. None are known of the elements of an operand: what holds of these is another question."""
    dim = map_dim(expression)
    if dim is not None:
        return 0, extents[dim]
    if map_element(expression) is not None:
        return 0, 0
    digit = map_digit(expression)
    if digit is not None:
        extent = extents[digit.dim]
        return 0, minimum(digit.radix, extent) if digit.is_remainder else floordiv(extent - 1, digit.radix) + 1
    coefficients = map_coefficients(expression)
    ends: dict[bool, dict[Symbol | Var, Dim]] = {False: {}, True: {}}
    for name in map_symbols(expression):
        last = extents[name] - 1
        if coefficients is None:
            ends[True][Symbol(name)] = Var(name, 0, extents[name]).size()
            continue
        rises = coefficients[name] > 0
        ends[rises][Symbol(name)], ends[not rises][Symbol(name)] = last, 0
    if coefficients is None:
        anywhere = substitute(expression, ends[True])
        return anywhere, anywhere + 1
    return substitute(expression, ends[False]), substitute(expression, ends[True]) + 1


def map_block(expression: Dim, extents: Mapping[str, Dim]) -> tuple[str, int] | None:
    """The dim, and its factor, each of whose iterations reads in a block of as many elements of its own, as of
    `2*i + a` with a < 2 those of i; None where windows overlap."""
    for name, factor in (map_coefficients(expression) or {}).items():
        first, end = index_range(expression - factor * Symbol(name).size(), extents)
        if is_less_equal(0, first) is True and is_less_equal(end, factor) is True:
            return name, factor
    return None


def from_first(indexing_map: IndexingMap) -> IndexingMap:
    """The map by which a box reads its subset of an operand, which starts where the first iteration reads."""
    return tuple(map(_from_first, indexing_map))


def _from_first(expression: Dim) -> Dim:
    falling = map_falling(expression)
    if falling is not None:
        return Symbol(falling.dim).size()
    return expression - expression.constant if isinstance(expression, Size) and grows(expression) else expression


def map_name(expression: Dim) -> str | None:
    """The dim that an indexing expression is, or is a digit of."""
    digit = map_digit(expression)
    return digit.dim if digit is not None else map_dim(expression)


def map_symbols(expression: Dim) -> tuple[str, ...]:
    """The dims an indexing expression depends on."""
    return tuple(s.name for s in symbols(expression))


def map_text(indexing_map: IndexingMap) -> str:
    """An indexing map as messages show it: `[m, k + 1]`."""
    return f"[{', '.join(map(to_text, indexing_map))}]"
