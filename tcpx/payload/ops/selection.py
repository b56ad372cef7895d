"""The first elements of rows in an order, found without putting the others in order.

The key of the last one that is taken is found bit by bit: how many keys are below a number is counted in vectors. One
more pass collects the elements up to it in their order. What is not taken goes to a place behind all others: no branch.
"""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import dims, element_of
from tcpx.payload.interfaces import Build, parallel, sequential
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.bits import Bitcast, ShiftLeft
from tcpx.payload.ops.elementwise import Sub, cast_to
from tcpx.payload.ops.generic import CLAMP, FILL
from tcpx.payload.ops.gml_st import For, Materialize, StYield
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.ordered_rows import COUNTED, Order, Rows, appending, either, placed_in_order
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.ops.terms import Term
from tcpx.payload.predicates import Predicate
from tcpx.payload.sizes import Dim, Var, is_equal
from tcpx.payload.subsets import Tile
from tcpx.payload.types import SCALARS, ScalarType, dtype_of, like, shape_of

_I = dims("i")


def first_in_order(build: Build, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    """The first `count` elements of each row in an order, and what `indices` has at their places."""
    *lead, extent = shape_of(x.type)
    rows = Rows(build, tuple(lead))
    if is_equal(count, extent) is True:
        return placed_in_order(build, x, order, [x, indices])
    types = [like(v.type, (*lead, count), dtype_of(v.type)) for v in (x, indices)]
    few = Predicate.of("<=", extent, COUNTED)
    return either(
        rows,
        few,
        types,
        lambda inner: _by_counting(inner, x, order, indices, count),
        lambda inner: _by_threshold(inner, x, order, indices, count),
    )


def _by_counting(rows: Rows, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    ranks = rows.ranks(order.key(Term(rows.build, x)).value)
    taken = _first(rows, rows.put(indices, ranks, count + 1, CLAMP), count)
    return [_at(rows, x, taken, count, FILL), taken]


def _by_threshold(rows: Rows, x: Value, order: Order, indices: Value, count: Dim) -> Sequence[Value]:
    key = order.key(Term(rows.build, x)).value
    counted = dtype_of(indices.type)
    last = _last_key(rows, key, count, counted)
    places = _places(rows, key, last, count, counted)
    taken = _first(rows, rows.put(indices, places, count + 1, CLAMP), count)
    elements = _at(rows, x, taken, count, CLAMP)
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
