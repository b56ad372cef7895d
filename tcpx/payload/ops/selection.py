"""The first elements of rows in an order, found without putting the others in order.

The key of the last one that is taken is found bit by bit: how many keys are below a number is counted in vectors. One
more pass collects the elements up to it in their order. What is not taken goes to a place behind all others: no branch.
"""

from collections.abc import Sequence
from math import log2

from tcpx.payload.indexing_maps import dims, element_of
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, parallel, sequential
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.bits import Bitcast, ShiftLeft
from tcpx.payload.ops.elementwise import Min, Mul, Sub, cast_to
from tcpx.payload.ops.generic import CLAMP, FILL
from tcpx.payload.ops.gml_st import For, Materialize, StYield
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.ordered_rows import COUNTED, Order, Rows, appending, either, placed_in_order
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.ops.terms import Term
from tcpx.payload.sizes import Dim, Var, is_equal, is_less_equal
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import SCALARS, ScalarType, dtype_of, like, shape_of, si32

_I = dims("i")
_J = dims("j")


def first_in_order(build: Build, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    """The first `count` elements of each row in an order, and what `indices` has at their places."""
    *lead, extent = shape_of(x.type)
    rows = Rows(build, tuple(lead))
    if is_equal(count, extent) is True:
        return placed_in_order(build, x, order, [x, indices])
    source, width = x, _width_of_blocks(extent, count)
    if width and isinstance(extent, int) and isinstance(count, int):
        x, indices = _candidates(rows, x, order, dtype_of(indices.type), extent, count, width)
        extent = shape_of(x.type)[-1]
    types = [like(v.type, (*lead, count), dtype_of(v.type)) for v in (x, indices)]
    few = Predicate.of("<=", extent, COUNTED)
    return either(
        rows,
        few,
        types,
        lambda inner: _by_counting(inner, source, x, order, indices, count),
        lambda inner: _by_threshold(inner, source, x, order, indices, count),
    )


def _width_of_blocks(extent: Dim, count: Dim) -> int:
    """The elements of a block where few of many are taken, so that what is looked at twice is little; else 0."""
    if (
        not isinstance(extent, int)
        or not isinstance(count, int)
        or not count > 0
        or not COUNTED < extent <= si32.maximum
    ):
        return 0
    width = 1 << round(log2(extent / count) / 2)
    return width if 3 * (extent // width + count * width) <= extent else 0


def _candidates(
    rows: Rows, x: Value, order: Order, counted: ScalarType, extent: int, count: int, width: int
) -> tuple[Value, Value]:
    """The elements of the `count` blocks whose first ones in order come first, those behind the last block, and the
    indices of all. No other is taken: the first ones of these blocks come before it."""
    blocks = extent // width
    key_type = order.key_type(dtype_of(x.type))
    best = rows.nest(
        [x],
        [rows.type(key_type, blocks)],
        (*parallel("i"), Iterator("j", IteratorKind.REDUCTION, width)),
        [(width * _I[0] + _J[0],), _I],
        lambda terms: [terms[1].made(Min.of, order.key(terms[0]))],
        combiner="tcp.min",
    )[0]
    numbers = rows.build(Iota([], [rows.type(counted, blocks)], {"dim": len(rows.lead)}))
    taken = _first(
        rows,
        rows.put(numbers, _places_of(rows, best, dtype_of(x.type).is_float, count, counted), count + 1, CLAMP),
        count,
    )
    inside, size = count * width, count * width + extent % width
    each = rows.type(counted, size)
    ordinals = Term(rows.build, rows.build(Iota([], [each], {"dim": len(rows.lead)}))) >> width.bit_length() - 1

    def body(terms: Sequence[Term]) -> Sequence[Term]:
        block, _, at = terms
        return [
            at.is_below(inside).choose(block.made(Mul.of, width) + (at & width - 1), at + (blocks * width - inside))
        ]

    maps = [(element_of(1),), _I, _I]
    places = rows.nest([taken, ordinals.value], [each], parallel("i"), maps, body, positions=_I, out_of_range=CLAMP)[0]
    return _at(rows, x, places, size, CLAMP), places


def _places_of(rows: Rows, key: Value, has_room: bool, count: int, counted: ScalarType) -> Value:
    """Where each of the first `count` elements goes, in the order in which they stand; `count` for all others."""
    extent = shape_of(key.type)[-1]
    if is_less_equal(extent, COUNTED) is not True:
        return _places(rows, key, _last_key(rows, key, count, counted), count, counted)

    def body(terms: Sequence[Term]) -> Sequence[Term]:
        rank, place = terms
        takes = rank.is_below(count)
        return [place + takes.choose(place.constant(1), place.constant(0)), takes.choose(place, place.constant(count))]

    types = [rows.type(counted), rows.type(counted, extent)]
    return rows.nest([rows.ranks(key, has_room)], types, sequential("i"), [_I, (), _I], body, neutral=(0,))[1]


def _by_counting(rows: Rows, source: Value, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    """By those of `x`, which stand at `indices` of the source."""
    ranks = rows.ranks(order.key(Term(rows.build, x)).value, dtype_of(x.type).is_float)
    taken = _first(rows, rows.put(indices, ranks, count + 1, CLAMP), count)
    return [_at(rows, source, taken, count, FILL), taken]


def _by_threshold(rows: Rows, source: Value, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    key = order.key(Term(rows.build, x)).value
    counted = dtype_of(indices.type)
    last = _last_key(rows, key, count, counted)
    places = _places(rows, key, last, count, counted)
    taken = _first(rows, rows.put(indices, places, count + 1, CLAMP), count)
    elements = _at(rows, source, taken, count, CLAMP)
    return placed_in_order(rows.build, elements, order, [elements, taken])


def _at(rows: Rows, x: Value, places: Value, count: Dim, outside: str) -> Value:
    """The elements at `count` places of each row."""
    types = [rows.type(dtype_of(x.type), count)]
    maps = [(element_of(1),), _I, _I]
    return rows.nest([x, places], types, parallel("i"), maps, lambda terms: terms[:1], out_of_range=outside)[0]


def _first(rows: Rows, value: Value, count: Dim) -> Value:
    shape = (*rows.lead, count)
    return rows.build(Materialize.of(value, Tile((0,) * len(shape), shape)))


def _below(rows: Rows, key: Value, limit: Value, counted: ScalarType) -> Value:
    """How many keys of each row are below a number."""
    rank = len(rows.lead)
    limits = rows.build(Broadcast.of(limit, range(rank), like(key.type, shape_of(key.type), dtype_of(key.type))))
    is_below = Term(rows.build, key).is_below(Term(rows.build, limits)).value
    ones = cast_to(rows.build, is_below, counted)
    return rows.build(ReduceSum([ones], [rows.type(counted)], {"dims": (rank,)}))


def _last_key(rows: Rows, key: Value, count: Dim, counted: ScalarType) -> Value:
    """The key at place `count` - 1 of each row in order: the greatest with fewer than `count` keys below it."""
    signed = dtype_of(key.type)
    unsigned, least = SCALARS[f"ui{signed.bits}"], int(signed.minimum)
    var = Var("", 0, signed.bits)
    start = rows.build(Fill.of(0, rows.type(unsigned)))
    body = Block([("", start.type)])
    inner = Rows(appending(body), rows.lead)

    def number(value: Dim, dtype: ScalarType) -> Value:
        return inner.build(Fill.of(value, rows.type(dtype)))

    found = body.args[0]
    bit = inner.build(ShiftLeft.of(number(1, unsigned), number(signed.bits - 1 - var.size(), unsigned)))
    more = Term(inner.build, found) | Term(inner.build, bit)
    limit = Term(inner.build, inner.build(Bitcast.of(more.value, signed))) ^ least
    before = Term(inner.build, _below(inner, key, limit.value, counted))
    chosen = before.is_below(Term(inner.build, number(count, counted))).choose(more, Term(inner.build, found))
    body.append(StYield.of(chosen.value, found, Tile.full(shape_of(found.type))))
    loop = For.over(var, [start], body)
    rows.build(loop)
    made = Term(rows.build, rows.build(Bitcast.of(loop.results[0], signed)))
    return (made ^ least).value


def _places(rows: Rows, key: Value, last: Value, count: Dim, counted: ScalarType) -> Value:
    """Where each element goes that is taken: those before the last key, and the first of those that have it; `count`
    for all others."""
    extent = shape_of(key.type)[-1]
    wanted = rows.build(Fill.of(count, rows.type(counted)))
    equal = rows.build(Sub.of(wanted, _below(rows, key, last, counted)))

    def body(terms: Sequence[Term]) -> Sequence[Term]:
        own, limit, beyond, place, left = terms
        ends, one, none = own.equals(limit), place.constant(1), place.constant(0)
        takes = own.is_below(limit) | (ends & none.is_below(left))
        return [place + takes.choose(one, none), left - ends.choose(one, none), takes.choose(place, beyond)]

    row, each = rows.type(counted), rows.type(counted, extent)
    inits = [rows.build(Fill.of(0, row)), equal, rows.build(Empty.of(each))]
    maps = [_I, (), (), (), (), _I]
    types, its = [row, row, each], sequential("i")
    return rows.nest([key, last, wanted], types, its, maps, body, inits=inits, neutral=(0, 0))[2]
