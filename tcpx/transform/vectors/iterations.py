"""Iterations of a structured operation in vectors: where they lie, what the body gets, what of the lanes counts."""

from collections.abc import Sequence
from functools import lru_cache

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import IndexingMap, map_digit, map_dim, map_dims
from tcpx.payload.interfaces import Position, Structured
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, Symbol, evaluate
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType
from tcpx.transform.vectors.accesses import Lanes
from tcpx.transform.vectors.lane_dims import depends, extents_of, lane_step
from tcpx.transform.vectors.pieces import Index, Pieces
from tcpx.transform.vectors.refusal import refusal

At = dict[str, int]
"""The iteration a piece starts at: dim -> position."""


def orders_of(op: Structured) -> list[tuple[str | None, ...]]:
    """The dim that each dim of each result is."""
    return [tuple(map(map_dim, result_map)) for result_map in op.result_maps()]


def key_of(order: Sequence[str | None], at: At, width: int) -> Index:
    """Of the piece that begins at an iteration, in a result with this order of dims."""
    *outer, last = [0, *(at[name or ""] for name in order)]
    return (*outer[1:], last // width) if order else ()


def kept_lanes(op: Structured, at: At, lane: str | None, lanes: int) -> Dim:
    """How many of so many lanes, from an iteration on along the lane dim, are no padding."""
    if not Masked(op).valid:
        return lanes
    kept, here = lanes, context_at(op)
    for name, count in Masked(op).valid.items():
        left = count - at[name]
        if name == lane:
            kept = here.minimum(kept, here.not_negative(left))
        elif here.is_less_equal(1, left) is not True:
            kept = kept * here.minimum(1, here.not_negative(left))
    return kept


def on_lanes(pieces: Pieces, values: Sequence[Value], width: int) -> list[Value]:
    return [pieces.splat(v, width) if isinstance(v.type, ScalarType) else v for v in values]


def neutral(pieces: Pieces, op: Structured) -> list[Value]:
    """The neutral element of a reduction, a scalar for each result."""
    numbers = Reduction(op).neutrals()
    if numbers is None and Reduction.of(op) is not None:
        raise refusal(op, "has no neutral element", "a reduction with a combiner that has one", "none")
    numbers = numbers or (0,) * len(op.results)
    return [pieces.constant(n or 0, dtype) for n, dtype in zip(numbers, op.acc_types, strict=True)]


def piece_name(op: Structured, key: Index) -> str:
    """`mm.2.0`: the base name of what computes one piece."""
    return ".".join([op.results[0].name, *map(str, key)])


def arguments(pieces: Pieces, op: Structured, at: At, lane: str | None, width: int) -> list[Value]:
    """What the body gets in an iteration, or in those of the lanes from it on: elements, then positions."""
    read = zip(op.inputs, op.maps(), strict=True)
    elements = [_operand(pieces, op, value, indexing_map, at, lane, width) for value, indexing_map in read]
    return [*elements, *(_position(pieces, position, at, lane, width) for position in positions_read(op))]


def _position(pieces: Pieces, position: Position, at: At, lane: str | None, width: int) -> Value:
    """The value of a position, lane by lane where it depends on the lane dim."""

    def first(there: At) -> Value:
        return pieces.index(position.at({Symbol(name): value for name, value in there.items()}), position.dtype)

    if lane is None:
        return first(at)
    if not depends(position.expression, lane):
        return pieces.splat(first(at), width)
    step = lane_step(position.expression, lane)
    if step is not None:
        return pieces.counting(first(at), step, width)
    return pieces.from_elements([first(at | {lane: at[lane] + k}) for k in range(width)])


def _operand(
    pieces: Pieces, op: Structured, value: Value, indexing_map: IndexingMap, at: At, lane: str | None, width: int
) -> Value:
    """The lanes of an input that an iteration reads; a splat where the input does not depend on the lane dim."""
    index = index_of(indexing_map, at)
    if lane is None:
        return pieces.scalar(value, index)
    moving, step = _moving(indexing_map, lane)
    if not moving:
        return pieces.splat(pieces.scalar(value, index), width)
    if len(moving) == 1 and step is not None and step > 0:
        return pieces.lanes(value, index, Lanes(moving[0], step, width))
    digit = map_digit(indexing_map[moving[0]]) if len(moving) == 1 else None
    if digit is not None and not digit.is_remainder and pieces.takes_any_lanes(value, width):
        return _repeated(
            pieces, value, index, Lanes(moving[0], 1, width), [(at[lane] + k) // digit.radix for k in range(width)]
        )
    last = extents_of(op)[lane] - 1
    places = [at | {lane: min(position, last)} for position in range(at[lane], at[lane] + width)]
    return pieces.from_elements([pieces.scalar(value, index_of(indexing_map, there)) for there in places])


def _repeated(pieces: Pieces, value: Value, index: Index, lanes: Lanes, places: Sequence[int]) -> Value:
    """Lanes of an input that holds each element once for several of them, out of a vector of its elements. Vectors
    begin at multiples of their length where that reaches as far."""
    first = places[0] // lanes.width * lanes.width
    if places[-1] >= first + lanes.width:
        first = places[0]
    vector = pieces.lanes(value, (*index[: lanes.dim], first, *index[lanes.dim + 1 :]), lanes)
    return pieces.permuted(vector, [place - first for place in places])


@lru_cache(maxsize=4096)
def _moving(indexing_map: IndexingMap, lane: str) -> tuple[Sequence[int], int | None]:
    """The entries of a map that depend on the lane dim, and how far the first of them moves per lane."""
    moving = [d for d, e in enumerate(indexing_map) if depends(e, lane)]
    return moving, lane_step(indexing_map[moving[0]], lane) if moving else None


def index_of(indexing_map: IndexingMap, at: At) -> Index:
    names = map_dims(indexing_map)
    if names is not None:
        return tuple([at[name] for name in names])
    return tuple(e if isinstance(e, int) else evaluate(e, at) for e in indexing_map)
