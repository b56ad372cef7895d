"""Formulas, as tables write them, and whether a value is what one says, however it is associated and divided.

A formula is an expression of Python: `x` is a value, `e` a number, `max(..)`, `sum(..)` and `mean(..)` go along some
dims and are repeated along them, other functions are operations on elements. Sums and products match in any order; a
quotient is a product with a reciprocal, a difference a sum with a negative; numbers may be anywhere in a product.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Final

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.ir import DIM_NAMES, Operation, Value
from tcpx.payload.sizes import Dim, Size, Symbol, as_dim, product
from tcpx.payload.types import dtype_of, f32, f64, shape_of
from tcpx.records import frozen
from tcpx.transform.algebra import number_of

REDUCTIONS: Final = {"max": "tcp.reduce_max", "sum": "tcp.reduce_sum", "mean": "tcp.reduce_mean"}
NAMES: Final = {opcode: name for name, opcode in REDUCTIONS.items()}
COMPUTED_WITH: Final = {"tcp.reduce_sum": "mean", "tcp.rsqrt": "sqrt"}
"""The functions that opcodes with other names may be a part of."""
NEGATIVE: Final = "tcp.neg"
FACTORS: Final[Mapping[str, tuple[int, ...]]] = {
    "tcp.mul": (1, 1), "tcp.div": (1, -1), "tcp.reciprocal": (-1,), NEGATIVE: (1,),
}  # fmt: skip
"""The exponents of the operands of what is a product, but for a sign."""
TERMS: Final[Mapping[str, tuple[int, ...]]] = {"tcp.add": (1, 1), "tcp.sub": (1, -1), NEGATIVE: (-1,)}
"""The signs of the operands of what is a sum."""
ROOTS: Final = {"tcp.rsqrt": -1}
"""The exponents of square roots."""
POWERS: Final = {"tcp.pow": (2, 3)}
"""The exponents that make a power a product."""
BROADCAST: Final = "tcp.broadcast"
NO_CHANGE: Final = frozenset({"most", DIM_NAMES})
"""Attributes of functions that do not change what they are."""
MOST_DEPTH: Final = 12
"""Operations one within another that are seen through."""
NUMBER: Final = "e"
"""The letter of a number."""
EPSILON: Final = {f32: 2.0**-23, f64: 2.0**-52}
UNITS: Final = 16
"""By how many units in the last place a number in a payload may differ from that of a formula."""


@frozen
class Letter:
    """A value, the same one wherever the letter stands."""

    name: str


@frozen
class Call:
    """A function of another formula."""

    name: str
    argument: Formula

    @property
    def opcode(self) -> str:
        return REDUCTIONS.get(self.name, f"tcp.{self.name}")


@frozen
class Product:
    """A number times formulas to integer powers."""

    number: float
    factors: tuple[tuple[Formula, int], ...]


@frozen
class Sum:
    """A number plus products; None for a number that `e` stands for."""

    number: float | None
    terms: tuple[Product, ...]


Formula = Letter | Call | Product | Sum


@cache
def formula(text: str) -> Formula:
    """The formula that a text writes. Raises ValueError for what is none."""
    return _formula(ast.parse(text, mode="eval").body)


def calls(made: Formula) -> frozenset[str]:
    """The functions of a formula."""
    match made:
        case Letter():
            return frozenset()
        case Call(name, argument):
            return calls(argument) | {name}
        case Product():
            return frozenset(name for factor, _ in made.factors for name in calls(factor))
        case Sum():
            return frozenset(name for term in made.terms for name in calls(term))


def functions_of(opcode: str) -> Sequence[str]:
    """The functions of formulas that an operation of a payload may be, or be a part of."""
    own = NAMES.get(opcode, opcode.removeprefix("tcp."))
    return (own, COMPUTED_WITH[opcode]) if opcode in COMPUTED_WITH else (own,)


def _formula(node: ast.expr) -> Formula:
    match node:
        case ast.Constant(value=int() | float() as number):
            return Product(float(number), ())
        case ast.Name(id="pi"):
            return Product(math.pi, ())
        case ast.Name(id=name):
            return Letter(name)
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            argument = _formula(inner)
            if name == "sqrt" and isinstance(argument, Product) and not argument.factors:
                return Product(math.sqrt(argument.number), ())
            return Call(name, argument)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _times(_product(_formula(inner)), Product(-1.0, ()))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _times(_product(_formula(left)), _product(_formula(right)))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _times(_product(_formula(left)), _power(_product(_formula(right)), -1))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as exponent)):
            return _power(_product(_formula(left)), exponent)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _plus(_sum(_formula(left)), _sum(_formula(right)))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _plus(_sum(_formula(left)), _sum(_times(_product(_formula(right)), Product(-1.0, ()))))
        case _:
            raise ValueError(f"no formula: {ast.unparse(node)}")


def _product(made: Formula) -> Product:
    return made if isinstance(made, Product) else Product(1.0, ((made, 1),))


def _times(left: Product, right: Product) -> Product:
    powers: dict[Formula, int] = {}
    for factor, exponent in (*left.factors, *right.factors):
        powers[factor] = powers.get(factor, 0) + exponent
    return Product(left.number * right.number, tuple(powers.items()))


def _power(made: Product, exponent: int) -> Product:
    return Product(made.number**exponent, tuple((factor, exponent * power) for factor, power in made.factors))


def _sum(made: Formula) -> Sum:
    if isinstance(made, Sum):
        return made
    if made == Letter(NUMBER):
        return Sum(None, ())
    term = _product(made)
    return Sum(0.0, (term,)) if term.factors else Sum(term.number, ())


def _plus(left: Sum, right: Sum) -> Sum:
    number = None if left.number is None or right.number is None else left.number + right.number
    return Sum(number, (*left.terms, *right.terms))


# -- values ----------------------------------------------------------------------------------------------------------


@frozen
class Place:
    """A value, or its square root; of each row, and repeated along it, where `in_rows`."""

    value: Value
    in_rows: bool = False
    is_root: bool = False

    @property
    def made(self) -> Operation | None:
        return None if self.is_root else self.value.defining_op

    def at(self, operand: int) -> Place:
        """An operand of what computes the value."""
        return replace(self, value=self.value.defining_op.operands[operand]) if self.value.defining_op else self


@frozen
class Expansion:
    """A number and places with their exponents or signs, and the operations that were seen through."""

    number: float
    places: tuple[tuple[Place, int], ...]
    seen: frozenset[Operation] = frozenset()


@frozen
class Found:
    """What letters stand for so far, along which dims, and which operations are parts."""

    letters: Mapping[str, Value]
    number: float = 0.0
    dims: tuple[int, ...] | None = None
    parts: frozenset[Operation] = frozenset()

    def of(self, *parts: Operation) -> Found:
        """The same, of these parts too."""
        return replace(self, parts=self.parts | set(parts))


def matches(wanted: Formula, value: Value) -> Iterator[Found]:
    """Every way in which a value is what a formula says, along the same dims everywhere."""
    return filter(_repeats_along_dims, _matches(wanted, Place(value), Found({})))


def _repeats_along_dims(found: Found) -> bool:
    repeated = [part for part in found.parts if part.opcode == BROADCAST]
    return all(_missing(part) == found.dims for part in repeated)


def _missing(broadcast: Operation) -> tuple[int, ...]:
    """The dims along which an operation repeats what it reads."""
    kept, rank = broadcast.attributes["dims"], len(shape_of(broadcast.results[0].type))
    return tuple(k for k in range(rank) if not isinstance(kept, tuple) or k not in kept)


def _matches(wanted: Formula, place: Place, found: Found) -> Iterator[Found]:
    match wanted:
        case Letter(name):
            known = found.letters.get(name, place.value)
            if not place.in_rows and not place.is_root and known is place.value:
                yield replace(found, letters={**found.letters, name: place.value})
        case Call():
            yield from _calls(wanted, place, found)
        case Product():
            yield from _products(wanted, place, found)
        case Sum():
            yield from _sums(wanted, place, found)


def _calls(wanted: Call, place: Place, found: Found) -> Iterator[Found]:
    made = place.made
    if wanted.name == "sqrt" and place.is_root:
        yield from _matches(wanted.argument, replace(place, is_root=False), found)
    elif made is not None and made.opcode == BROADCAST and not place.in_rows:
        yield from _calls(wanted, replace(place.at(0), in_rows=True), found.of(made))
    elif made is not None and wanted.name in REDUCTIONS:
        yield from _reductions(wanted, place, made, found)
    elif made is not None and made.opcode == wanted.opcode and set(made.attributes) <= NO_CHANGE:
        yield from _matches(wanted.argument, place.at(0), found.of(made))


def _reductions(wanted: Call, place: Place, made: Operation, found: Found) -> Iterator[Found]:
    """A reduction, or a mean as a sum over the number of elements."""
    dims = made.attributes.get("dims")
    if not place.in_rows:
        return
    if made.opcode == wanted.opcode and len(made.operands) == 1 and isinstance(dims, tuple):
        along = tuple(k for k in dims if isinstance(k, int))
        if found.dims not in (None, along):
            return
        known = replace(found, dims=along)
        yield from _matches(wanted.argument, Place(made.operands[0]), known.of(made))
    elif wanted.name == "mean":
        for expansion in _expansions(place, 2, FACTORS):
            for total, exponent in expansion.places:
                if exponent == 1 and total.made is not None and _is_mean(expansion, total.made):
                    yield from _reductions(Call("sum", wanted.argument), total, total.made, found.of(*expansion.seen))


def _is_mean(expansion: Expansion, total: Operation) -> bool:
    """Whether a product with a sum of elements divides it by their number."""
    dims = total.attributes.get("dims")
    if total.opcode != REDUCTIONS["sum"] or not isinstance(dims, tuple):
        return False
    shape = shape_of(total.operands[0].type)
    count = product(shape[k] for k in dims if isinstance(k, int))
    sizes = [(place.value, exponent) for place, exponent in expansion.places if place.made is not total]
    if not sizes:
        return isinstance(count, int) and count > 0 and _is_near(expansion.number * count, 1.0, total.results[0])
    (size, exponent), *others = sizes
    divisor = None if others or exponent != -1 or expansion.number != 1 else _size(size)
    return divisor is not None and are_equal_at(total, divisor, count)


def _size(value: Value) -> Dim | None:
    """The size that every element of a value is."""
    made = value.defining_op
    if made is not None and made.opcode == BROADCAST:
        return _size(made.operands[0])
    held = made.attributes.get("value") if made is not None and not made.operands else None
    return as_dim(held) if isinstance(held, Size | Symbol) else None


def _is_near(found: float, wanted: float, value: Value) -> bool:
    """Whether a number is another one, up to how a payload rounds it."""
    return abs(found - wanted) <= UNITS * EPSILON[dtype_of(value.type)] * abs(wanted)


def _products(wanted: Product, place: Place, found: Found) -> Iterator[Found]:
    most = sum(abs(exponent) for _, exponent in wanted.factors)
    # What a letter stands for is known from where it stands with others.
    factors = sorted(wanted.factors, key=lambda factor: isinstance(factor[0], Letter))
    for made in _expansions(place, most, FACTORS):
        if len(made.places) != len(factors) or not _is_near(made.number, wanted.number, place.value):
            continue
        for order in permutations(made.places):
            if [exponent for _, exponent in factors] == [exponent for _, exponent in order]:
                pairs = [(factor, at) for (factor, _), (at, _) in zip(factors, order, strict=True)]
                yield from _all(pairs, found.of(*made.seen))


def _sums(wanted: Sum, place: Place, found: Found) -> Iterator[Found]:
    terms = sorted(wanted.terms, key=lambda term: all(isinstance(factor, Letter) for factor, _ in term.factors))
    for made in _expansions(place, len(terms), TERMS):
        is_any = wanted.number is None
        if len(made.places) != len(terms) or not made.seen or not (is_any or made.number == wanted.number):
            continue
        known = replace(found, number=made.number) if is_any else found
        for order in permutations(made.places):
            signed = [_times(term, Product(float(sign), ())) for term, (_, sign) in zip(terms, order, strict=True)]
            yield from _all(list(zip(signed, (at for at, _ in order), strict=True)), known.of(*made.seen))


def _all(pairs: Sequence[tuple[Formula, Place]], found: Found) -> Iterator[Found]:
    """Every way in which all of these are what they should be."""
    if not pairs:
        yield found
        return
    for first in _matches(*pairs[0], found):
        yield from _all(pairs[1:], first)


def _expansions(
    place: Place, most: int, table: Mapping[str, tuple[int, ...]], depth: int = MOST_DEPTH
) -> Iterator[Expansion]:
    """A value as a product, or as a sum, of at most so many places, seen through ever more operations."""
    is_product = table is FACTORS
    number = None if place.is_root else number_of(place.value)
    if number is not None:
        yield Expansion(float(number), ())
        return
    if most < 1:
        return
    yield Expansion(1.0 if is_product else 0.0, ((place, 1),))
    made, parts = place.made, _parts(place, table) if depth else ()
    if made is None or not parts:
        return
    neutral = 0.0 if not is_product else -1.0 if made.opcode == NEGATIVE else 1.0
    found = [Expansion(neutral, (), frozenset({made}))]
    others = sum(part.is_root or number_of(part.value) is None for part, _ in parts) - 1
    for part, weight in parts:
        own = list(_expansions(part, (most - others) // abs(weight), table, depth - 1))
        joined = [_joined(before, each, weight, is_product) for before in found for each in own]
        found = [made for made in joined if made and sum(abs(weight) for _, weight in made.places) <= most]
    yield from found


def _joined(left: Expansion, right: Expansion, weight: int, is_product: bool) -> Expansion | None:
    """The product, or the sum, of both, of which one has an exponent or a sign. None where a place would cancel: it may
    be infinite, or 0."""
    powers = dict(left.places)
    for place, exponent in right.places:
        before = powers.get(place, 0)
        if before * weight * exponent < 0:
            return None
        powers[place] = before + weight * exponent
    if is_product and weight < 0 and right.number == 0:
        return None
    number = left.number * right.number**weight if is_product else left.number + weight * right.number
    return Expansion(number, tuple(powers.items()), left.seen | right.seen)


def _parts(place: Place, table: Mapping[str, tuple[int, ...]]) -> Sequence[tuple[Place, int]]:
    """The operands of a product, or of a sum, with their exponents or signs; nothing of anything else."""
    made = place.made
    if made is None:
        return ()
    if made.opcode == BROADCAST and not place.in_rows:
        return ((replace(place.at(0), in_rows=True), 1),)
    if table is FACTORS and made.opcode in ROOTS:
        return ((replace(place.at(0), is_root=True), ROOTS[made.opcode]),)
    if table is FACTORS and made.opcode in POWERS:
        exponent = number_of(made.operands[1])
        return ((place.at(0), int(exponent)),) if exponent in POWERS[made.opcode] else ()
    return [(place.at(k), weight) for k, weight in enumerate(table.get(made.opcode, ()))]
