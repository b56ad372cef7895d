"""How elements come into order along the last dim: by counting those that go before each, where they are few, else
digit by digit.

All values have the dims of the rows, then that of the elements of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tcpx.payload.indexing_maps import IndexingMap, dims, element_of, map_symbols
from tcpx.payload.interfaces import Build, Iterator, parallel, reduction, sequential
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.arithmetic import Neg
from tcpx.payload.ops.bits import Bitcast
from tcpx.payload.ops.elementwise import cast_to
from tcpx.payload.ops.generic import CLAMP, FILL, Generic, Yield
from tcpx.payload.ops.gml_st import For, If, StYield
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Fill
from tcpx.payload.ops.scan import CumSum
from tcpx.payload.ops.terms import Term
from tcpx.payload.sizes import Dim, Var, is_less_equal
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import (
    SCALARS,
    ScalarType,
    TensorType,
    Type,
    dtype_of,
    i1,
    shape_of,
    si8,
    si32,
    si64,
    ui32,
    ui64,
)
from tcpx.records import frozen

COUNTED: Final = 128
"""The most elements of a row whose places are found by counting: beyond, passes over digits take less time."""
DIGIT: Final = 8
"""Bits of a digit."""
EXPONENTS: Final = {"f64": 0x7FF << 52, "f32": 0xFF << 23, "f16": 0x1F << 10, "bf16": 0xFF << 7}
"""The bits of infinity, by dtype: those of NaN are greater."""

Body = Callable[[Sequence[Term]], Sequence[Term]]


@frozen
class Order:
    """An order of elements: rising or falling, with NaN beyond the largest or last."""

    falls: bool
    has_nan_last: bool

    def key(self, element: Term) -> Term:
        """A signed integer that is smaller the earlier an element comes, and the same for equal ones."""
        build, dtype = element.build, element.dtype
        if dtype.is_float:
            key = self._float_key(element)
        elif dtype.minimum < 0:
            key = element
        elif dtype == i1:
            key = Term(build, cast_to(build, element.value, si8))
        else:
            signed = SCALARS[f"si{dtype.bits}"]
            key = Term(build, build(Bitcast.of(element.value, signed))) ^ int(signed.minimum)
        return key ^ -1 if self.falls else key

    def key_type(self, dtype: ScalarType) -> ScalarType:
        """The dtype of keys of elements."""
        return si8 if dtype == i1 else SCALARS[f"si{dtype.bits}"]

    def _float_key(self, element: Term) -> Term:
        build, dtype = element.build, element.dtype
        integer = SCALARS[f"si{dtype.bits}"]
        bits = Term(build, build(Bitcast.of(element.value, integer)))
        size = bits & int(integer.maximum)
        key = bits.is_below(0).choose(Term(build, build(Neg.of(size.value))), bits)
        is_number = size.is_at_most(EXPONENTS[dtype.name])
        beyond = EXPONENTS[dtype.name] + 1
        return is_number.choose(key, key.constant(-beyond if self.falls and self.has_nan_last else beyond))


@frozen
class Rows:
    """Builds operations on rows of elements."""

    build: Build
    lead: tuple[Dim, ...]

    def type(self, dtype: ScalarType, *own: Dim) -> TensorType:
        """Rows of these dims."""
        return TensorType((*self.lead, *own), dtype)

    def nest(
        self,
        inputs: Sequence[Value],
        results: Sequence[TensorType],
        its: Sequence[Iterator],
        maps: Sequence[IndexingMap],
        body: Body,
        inits: Sequence[Value] = (),
        **attributes: Attribute,
    ) -> Sequence[Value]:
        """A loop nest in each row: the maps are of the dims of a row, those of the inputs, then of the results.

        The body takes elements, then the `positions` in si32, then what the iterations before made of results.
        """
        names = [f"r{k}" for k in range(len(self.lead))]
        again = {it.name for it in its if it.is_reduction}
        carried = [type_ for type_, m in zip(results, maps[len(inputs) :], strict=True) if not _names(m) & again]
        positions = attributes.get("positions", ())
        types = [dtype_of(value.type) for value in inputs]
        types += [si32] * (len(positions) if isinstance(positions, tuple) else 0)
        types += [type_.dtype for type_ in carried if again]
        block = Block([("", type_) for type_ in types])

        def build(op: Operation) -> Value:
            return block.append(op).result

        block.append(Yield([term.value for term in body([Term(build, arg) for arg in block.args])]))
        attributes["iterators"] = tuple(it.entry for it in (*parallel(*names), *its))
        attributes["maps"] = tuple((*dims(*names), *m) for m in maps)
        made = Generic([*inputs, *inits], results, attributes, [block])
        self.build(made)
        return made.results

    def put(self, value: Value, places: Value, count: Dim, outside: str) -> Value:
        """Elements where `places` says, in rows of `count`; where that is outside, `outside` says."""
        to = self.type(dtype_of(value.type), count)
        return self.nest(
            [value, places],
            [to],
            sequential("i"),
            [_I, _I, (element_of(1),)],
            lambda terms: terms[:1],
            inits=[self.build(Empty.of(to))],
            neutral=(0.0 if to.dtype.is_float else 0,),
            out_of_range=outside,
        )[0]

    def ranks(self, key: Value, has_room: bool) -> Value:
        """How many elements go before each. `has_room`: no key is the greatest number of its dtype, so one comparison
        with the next number takes the place of two where the other element stands before."""

        def body(terms: Sequence[Term]) -> Sequence[Term]:
            own, other, at, there, before = terms
            if has_room:
                away = Term(own.build, cast_to(own.build, (there - at).value, own.dtype))
                goes = other.is_below(own - (away >> own.dtype.bits - 1))
            else:
                goes = other.is_below(own) | (other.is_at_most(own) & there.is_below(at))
            return [before + goes.choose(before.constant(1), before.constant(0))]

        (count,) = shape_of(key.type)[len(self.lead) :]
        its = (*parallel("i"), *reduction("j"))
        return self.nest(
            [key, key],
            [self.type(si32, count)],
            its,
            [_I, _J, _I],
            body,
            combiner="tcp.add",
            positions=(*_I, *_J),
        )[0]

    def digits(self, value: Value, order: Order, shift: Value, width: int) -> Value:
        """A digit of the key of each element: its bits from `shift` on, a number for each row."""

        def body(terms: Sequence[Term]) -> Sequence[Term]:
            key = order.key(terms[0])
            build, unsigned = key.build, SCALARS[f"ui{key.dtype.bits}"]
            wide = ui64 if key.dtype.bits == 64 else ui32
            bits = build(Bitcast.of((key ^ int(key.dtype.minimum)).value, unsigned))
            digit = (Term(build, cast_to(build, bits, wide)) >> Term(build, cast_to(build, terms[1].value, wide))) & (
                (1 << width) - 1
            )
            return [Term(build, cast_to(build, digit.value, si32))]

        (count,) = shape_of(value.type)[len(self.lead) :]
        return self.nest([value, shift], [self.type(si32, count)], parallel("i"), [_I, (), _I], body)[0]

    def places_by(self, digits: Value, width: int, counted: ScalarType) -> Value:
        """Where each element goes by its digit alone; elements of one digit stay in their order."""
        (count,) = shape_of(digits.type)[len(self.lead) :]
        table, rows = self.type(counted, 1 << width), self.type(counted, count)
        (histogram,) = self.nest(
            [digits],
            [table],
            reduction("i"),
            [_I, (element_of(0),)],
            lambda terms: [terms[1] + 1],
            combiner="tcp.add",
        )
        starts = CumSum(
            [histogram], [table, TensorType(self.lead, counted)], {"dim": len(self.lead), "exclusive": True}
        )
        self.build(starts)
        return self.nest(
            [digits],
            [table, rows],
            sequential("i"),
            [_I, (element_of(0),), _I],
            lambda terms: [terms[1] + 1, terms[1]],
            inits=[starts.prefixes, self.build(Empty.of(rows))],
            neutral=(0,),
        )[1]


_I: Final = dims("i")
_J: Final = dims("j")


def _names(indexing_map: IndexingMap) -> set[str]:
    return {name for expression in indexing_map for name in map_symbols(expression)}


def placed_in_order(build: Build, x: Value, order: Order, moved: Sequence[Value]) -> Sequence[Value]:
    """Rows of the shape of `x`, each in the order of the elements of `x`."""
    *lead, count = shape_of(x.type)
    return either(
        Rows(build, tuple(lead)),
        Predicate.of("<=", count, COUNTED),
        [value.type for value in moved],
        lambda rows: _by_counting(rows, x, order, moved),
        lambda rows: _by_digits(rows, x, order, moved),
    )


def either(
    rows: Rows,
    predicate: Predicate,
    types: Sequence[Type],
    yes: Callable[[Rows], Sequence[Value]],
    no: Callable[[Rows], Sequence[Value]],
) -> Sequence[Value]:
    """What one of two ways gives: by a branch, where a call decides."""
    decided = predicate.decide()
    if decided is not None:
        return (yes if decided else no)(rows)
    branch = If([], types, {"predicate": predicate}, [Block(), Block()])
    for block, way in zip(branch.regions, (yes, no), strict=True):
        block.append(Yield(way(Rows(appending(block), rows.lead))))
    rows.build(branch)
    return branch.results


def appending(block: Block) -> Build:
    """Builds at the end of a block."""

    def build(op: Operation) -> Value:
        return block.append(op).results[0]

    return build


def _by_counting(rows: Rows, x: Value, order: Order, moved: Sequence[Value]) -> Sequence[Value]:
    key = order.key(Term(rows.build, x)).value
    count = shape_of(x.type)[-1]
    ranks = rows.ranks(key, dtype_of(x.type).is_float)
    return [rows.put(value, ranks, count, FILL) for value in moved]


def _by_digits(rows: Rows, x: Value, order: Order, moved: Sequence[Value]) -> Sequence[Value]:
    """A pass for each digit, from the lowest on. Two are done before the loop, which then has memory of its own; two in
    an iteration, so that the second one writes where the first one read."""
    bits, count = max(DIGIT, dtype_of(x.type).bits), shape_of(x.type)[-1]
    counted = si32 if is_less_equal(count, int(si32.maximum)) is True else si64
    inits = [x, *(value for value in moved if value is not x)]
    carried: Sequence[Value] = inits
    for shift in range(0, min(bits, 2 * DIGIT), DIGIT):
        carried = _pass(rows, order, carried, shift, counted)
    if bits > 2 * DIGIT:
        var = Var("", 2 * DIGIT, bits, 2 * DIGIT)
        body = Block([("", value.type) for value in carried])
        inner, values = Rows(appending(body), rows.lead), list(body.args)
        for shift in (var.size(), var.size() + DIGIT):
            values = list(_pass(inner, order, values, shift, counted))
        for value, destination in zip(values, body.args, strict=True):
            body.append(StYield.of(value, destination, Tile.full(shape_of(value.type))))
        loop = For.over(var, carried, body)
        rows.build(loop)
        carried = loop.results
    made = dict(zip(inits, carried, strict=True))
    return [made[value] for value in moved]


def _pass(rows: Rows, order: Order, values: Sequence[Value], shift: Dim, counted: ScalarType) -> Sequence[Value]:
    """Rows of several values in the order of one digit of the first."""
    bits, count = dtype_of(values[0].type).bits, shape_of(values[0].type)[-1]
    width = min(DIGIT, max(1, bits))
    digits = rows.digits(values[0], order, rows.build(Fill.of(shift, rows.type(si32))), width)
    places = rows.places_by(digits, width, counted)
    return [rows.put(value, places, count, CLAMP) for value in values]
