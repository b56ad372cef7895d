"""The operations that transforms make, detached. Only here, and in the tables of recipes, are their classes named."""

from collections.abc import Callable, Mapping, Sequence

from tcpx.payload import interfaces
from tcpx.payload.diagnostics import Location
from tcpx.payload.indexing_maps import dims
from tcpx.payload.interfaces import Build, Structured, Tileable
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.constant import Const, splat
from tcpx.payload.ops.contract import Contract
from tcpx.payload.ops.elementwise import Add, Cast, Fma, Max, Min, Mul, Sub, cast_to
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.index import IndexValue
from tcpx.payload.ops.memory import Empty
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.ops.select import Equal, GreaterEqual, NotEqual, Select
from tcpx.payload.ops.views import FREE, Concat, Pad, Reshape, Slice
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import Type, VectorType, like, shape_of, si64

padded, padded_behind = interfaces.padded, interfaces.padded_behind
pieces_of_all, whole_piece = interfaces.pieces_of_all, interfaces.whole_piece
add = Add.of
broadcast = Broadcast.of
cast = Cast.of
concat = Concat.of
empty = Empty.of
equal = Equal.of
fill = Fill.of
fma = Fma.of
greater_equal = GreaterEqual.of
index_value = IndexValue.of
literal = Const.literal
maximum = Max.of
minimum = Min.of
multiply = Mul.of
not_equal = NotEqual.of
reshape = Reshape.of
select = Select.of
slice_ = Slice.of
subtract = Sub.of
transpose = Transpose.of


def generic(
    inputs: Sequence[Value], types: Sequence[Type], attributes: Mapping[str, Attribute], regions: Sequence[Block]
) -> Structured:
    """A loop nest with this body."""
    return Generic(inputs, types, attributes, regions)


def contract(
    lhs: Value, rhs: Value, type_: Type, lhs_dims: Sequence[str], rhs_dims: Sequence[str], out_dims: Sequence[str]
) -> Operation:
    """The products of two operands with these dims, summed over those that the result lacks."""
    attributes = {"lhs": tuple(lhs_dims), "rhs": tuple(rhs_dims), "out": tuple(out_dims)}
    return Contract([lhs, rhs], [type_], attributes)


def yielded(values: Sequence[Value]) -> Operation:
    """The end of a body, which hands out these."""
    return Yield(values)


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
    pieces = ViewLike(view).pieces(tile)
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
    rest = ViewLike(view).rest
    if rest is None:
        return parts[0]
    (piece,) = pieces
    interior = [spacing - 1 for spacing in piece.spacing]
    return build(pad(parts[0], tile.sizes, rest, piece.first, interior, ViewLike(view).is_free))


def counting(build: Build, first: Dim, step: int, type_: VectorType) -> Value:
    """A 1-D vector of integers that goes up by `step` from a size on."""
    (d0,) = dims("d0")
    block = Block([("at", type_.dtype)])
    block.append(Yield([block.args[0]]))
    attributes = {"iterators": (("d0", "parallel"),), "maps": ((d0,),), "positions": (step * d0,), "origins": (first,)}
    return build(Generic([], [type_], attributes, [block]))


def clamped(build: Build, op: Structured, place: Value, extent: Dim) -> Value:
    """An index, or a vector of them, as si64: the nearest in a dim of this extent, or, where one outside is let be, the
    nearest in it or beside."""
    first, last = (0, extent - 1) if Indices(op).clamps_indices else (-1, extent)
    kind = like(place.type, shape_of(place.type), si64)
    most = build(index_value(last, si64))
    if isinstance(kind, VectorType):
        most = build(broadcast(most, (), kind))
    return build(maximum(splat(build, first, kind), build(minimum(cast_to(build, place, si64), most))))
