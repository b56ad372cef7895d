"""Integers in the bodies of operations that follow from positions and sizes, and comparisons of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcpx.payload.indexing_maps import index_range, map_coefficients
from tcpx.payload.interfaces import Elementwise, Position, Structured
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, maximum, minimum
from tcpx.payload.sizes.context import Context
from tcpx.payload.traits.algebra import algebra, is_comparison
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import dtype_of, i1, si32
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.bodies import Body, factors_of_sum
from tcpx.transform.editing import rename_inside, source_name
from tcpx.transform.elementwise import is_pointwise

WIDEST = 8
"""Bytes of an integer that holds every position."""


@frozen
class Place:
    """An integer of a body: linear in the dims of the operation, `moving`, from a size on."""

    moving: Dim
    start: Dim

    def __add__(self, other: Place) -> Place:
        return Place(self.moving + other.moving, self.start + other.start)

    def __rmul__(self, factor: int) -> Place:
        return Place(factor * self.moving, factor * self.start)

    def __sub__(self, other: Place) -> Place:
        return self + -1 * other

    def reach(self, extents: Mapping[str, Dim]) -> tuple[Dim, Dim]:
        """The least it is in iterations of these extents, and the most."""
        least, end = index_range(self.moving, extents)
        return self.start + least, self.start + end - 1


def places(op: Structured, body: Body) -> Mapping[Value, Place]:
    """The integers of a body that follow from positions and sizes, where they are linear."""
    found: dict[Value, Place] = {}
    for value, position in zip(body.positions, positions_read(op), strict=True):
        if map_coefficients(position.expression) is not None:
            found[value] = Place(position.expression, position.origin)
    for element, value in zip(body.elements, op.inputs, strict=True):
        size = _size(value)
        if size is not None and not dtype_of(value.type).is_float:
            found[element] = Place(0, size)
    for inner in body.ops:
        dtype, size = dtype_of(inner.result.type), _size(inner.result)
        place = None if size is None else Place(0, size)
        terms = [found[value] for value in inner.operands if value in found]
        if place is None and isinstance(inner, Elementwise) and 0 < len(terms) == len(inner.operands):
            place = _sum(inner, terms) if dtype.bytes == WIDEST else None
        if place is not None and not dtype.is_float:
            found[inner.result] = place
    return found


def _size(value: Value) -> Dim | None:
    """What every element of a value is, a number or a size."""
    made = value.defining_op
    if not isinstance(made, Structured) or not made.is_movement or len(made.operands) > 1:
        number = number_of(value)
        return number if isinstance(number, int) else None
    held = made.attributes.get("value")
    return _size(made.operands[0]) if made.operands else held if isinstance(held, Size | int) else None


def _sum(op: Elementwise, terms: Sequence[Place]) -> Place | None:
    """What an operation makes of integers, where that is a sum or a difference of them, or the one that there is."""
    if len(terms) == 1:
        return terms[0] if algebra(op).converts is not None else None
    factors = factors_of_sum(op)
    return None if factors is None else sum((f * t for f, t in zip(factors, terms, strict=True)), start=Place(0, 0))


def compared(inner: Operation, known: Mapping[Value, Place]) -> tuple[Place, Place] | None:
    """The two sides of a comparison of integers that are known so; None of anything else."""
    sides = [known[value] for value in inner.operands if value in known]
    compares = is_comparison(inner)
    return (sides[0], sides[1]) if compares and len(sides) == 2 == len(inner.operands) else None


def count_from_tile(rewriter: Rewriter, op: Structured, facts: Context) -> None:
    """Let comparisons of positions count from the first iteration of a tile, in 32 bits, where its elements have no
    more: as many of them go into a vector as if nothing were compared.

    How far one side begins behind the other is one number for the whole tile. If that is farther than its dims count,
    it is as good as one step farther than that.
    """
    bits = [dtype.bits for dtype in (dtype_of(value.type) for value in (*op.operands, *op.results)) if dtype != i1]
    if not is_pointwise(op) or not any(p.dtype.bits > max([*bits, si32.bits]) for p in positions_read(op)):
        return
    extents = {it.name: facts.value(extent) for it, extent in zip(op.iterators(), op.domain(), strict=True)}
    body = Body.of(op)
    known, tiled = places(op, body), dict[Operation, tuple[Position, Position]]()
    for inner in body.ops:
        sides = compared(inner, known)
        pair = _from_tile(*sides, extents) if sides is not None else None
        if pair is not None:
            tiled[inner] = pair
    if tiled:
        made = _counting(op, body, tiled)
        made.stand_for(op)
        rename_inside(rewriter, made, op)
        rewriter.insert(made, InsertPoint.before(op), source_name(op))
        rewriter.rename(made, op.name)
        rewriter.continue_as(op, made)
        rewriter.replace_op(op, made.results)


def _from_tile(a: Place, b: Place, extents: Mapping[str, Dim]) -> tuple[Position, Position] | None:
    """Positions that compare as these do; None where the tile is not known to be small enough."""
    ends = (
        Place(a.moving - b.moving, 0).reach(extents),
        Place(a.moving, 0).reach(extents),
        Place(b.moving, 0).reach(extents),
    )
    if any(not isinstance(end, int) or abs(end) > si32.maximum // 4 for pair in ends for end in pair):
        return None
    least, most = ends[0]
    apart = maximum(least - 1, minimum(most + 1, b.start - a.start))
    return Position(a.moving, si32), Position(b.moving, si32, apart)


def _counting(op: Structured, body: Body, tiled: Mapping[Operation, tuple[Position, Position]]) -> Structured:
    """A detached operation that compares these positions, and counts nothing else that is not needed."""
    needed = _needed(body, tiled)
    old = [
        (value, position) for value, position in zip(body.positions, positions_read(op), strict=True) if value in needed
    ]
    pairs = dict.fromkeys(position for pair in tiled.values() for position in pair)
    block = Block([
        *((value.name, dtype_of(value.type)) for value in op.inputs),
        *(("at", position.dtype) for position in (*(p for _, p in old), *pairs)),
    ])  # fmt: skip
    named = dict(zip([*body.elements, *(value for value, _ in old)], block.args, strict=False))
    numbers = dict(zip(pairs, block.args[len(named) :], strict=True))
    for inner in body.ops:
        if inner.result in needed:
            operands = [numbers[p] for p in tiled[inner]] if inner in tiled else [named[v] for v in inner.operands]
            made = type(inner)(operands, [inner.result.type], inner.attributes)
            made.result.name = made.name = inner.name or "at"
            block.append(made)
            named[inner.result] = made.result
    block.append(new.yielded([named[value] for value in body.results]))
    counted = [*(position for _, position in old), *pairs]
    attributes: dict[str, Attribute] = {
        "iterators": tuple(it.entry for it in op.iterators()),
        "maps": (*op.maps(), *op.result_maps()),
        "positions": tuple(position.expression for position in counted),
        "origins": tuple(position.origin for position in counted),
    }
    return new.generic(op.inputs, [result.type for result in op.results], attributes, [block])


def _needed(body: Body, tiled: Mapping[Operation, object]) -> set[Value]:
    """The values of a body that its results follow from where these operations read nothing of it."""
    found, waiting = set(body.results), list(body.results)
    while waiting:
        made = waiting.pop().defining_op
        for value in made.operands if made is not None and made not in tiled else ():
            if value not in found:
                found.add(value)
                waiting.append(value)
    return found
