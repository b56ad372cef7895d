"""The operations that transforms make, detached. Only here, and in the tables of recipes, are their classes named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Build, Tileable
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.elementwise import Add, Cast, Fma, Max, Min, Mul, Sub
from tcpx.payload.ops.index import IndexValue
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.ops.select import Select
from tcpx.payload.ops.views import FREE, Concat, Pad, Reshape
from tcpx.payload.pieces import Piece
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.types import Type, shape_of

add = Add.of
broadcast = Broadcast.of
cast = Cast.of
concat = Concat.of
empty = Empty.of
fill = Fill.of
fma = Fma.of
index_value = IndexValue.of
literal = Const.literal
maximum = Max.of
minimum = Min.of
multiply = Mul.of
reshape = Reshape.of
select = Select.of
subtract = Sub.of
transpose = Transpose.of


def reduce_sum(operand: Value, type_: Type, dims: Sequence[int]) -> Operation:
    """The sums over some dims."""
    return ReduceSum([operand], [type_], {"dims": tuple(dims)})


def stored(name: str, type_: Type, location: Location | None = None) -> Operation:
    """The stored array of a name."""
    return Const([], [type_], {"constant": name}, location=location)


def pad(
    operand: Value,
    shape: Sequence[Dim],
    value: float | int,
    low: Sequence[Dim] = (),
    interior: Sequence[int] = (),
    free: bool = False,
) -> Operation:
    """The operand in a larger result of this shape; `free`: what the padding holds does not matter."""
    made = Pad.of(operand, shape, value, low, interior)
    if free:
        made.attributes[FREE] = True
    return made


def shown(view: Tileable, tile: Tile, read: Callable[[int, Tile], Value], build: Build) -> Value | None:
    """What a tile of a view shows, of what `read` makes of tiles of its operands; None if it shows no tiles."""
    pieces = view.pieces(tile)
    if pieces is None:
        return None
    parts: list[Value] = []
    for piece in pieces:
        value = read(piece.operand, piece.tile)
        if piece.permutes:
            value = build(transpose(value, piece.permutation))
        if piece.reshapes:
            value = build(reshape(value, piece.shape))
        parts.append(value)
    if len(parts) > 1:
        along = next(dim for dim in range(tile.rank) if any(piece.first[dim] != 0 for piece in pieces))
        return build(concat(parts, along, tile.sizes))
    if view.rest is None:
        return parts[0]
    (piece,) = pieces
    interior = [spacing - 1 for spacing in piece.spacing]
    return build(pad(parts[0], tile.sizes, view.rest, piece.first, interior, view.is_free))


def padded(op: Operation | None) -> Value | None:
    """What a padding pads; None of what is none."""
    is_padding = isinstance(op, Tileable) and op.rest is not None and len(op.operands) == 1
    return op.operands[0] if is_padding and op is not None else None


def padded_behind(op: Operation | None) -> Value | None:
    """What a padding pads that stands behind the last elements alone; None of anything else."""
    piece = whole_piece(op) if padded(op) is not None else None
    return padded(op) if piece is not None and piece.place.is_at_origin else None


def pieces_of_all(op: Operation | None) -> Sequence[Piece] | None:
    """What all of a view shows; None of an operation that is none."""
    if not isinstance(op, Tileable) or len(op.results) != 1:
        return None
    return op.pieces(Tile.full(shape_of(op.result.type)))


def whole_piece(op: Operation | None) -> Piece | None:
    """The piece that a view shows of all of its only operand, in the shape it has; None of anything else."""
    pieces = pieces_of_all(op)
    if op is None or pieces is None or len(pieces) != 1 or pieces[0].reshapes:
        return None
    return pieces[0] if pieces[0].tile.is_full(shape_of(op.operands[pieces[0].operand].type)) is True else None
