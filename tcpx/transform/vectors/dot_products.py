"""Contractions of neighbours: a target's rows for dot products, where a reduction dim is stored as the last digit."""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import IndexingMap, map_digit, map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Value
from tcpx.payload.ops.dot_product import Dot
from tcpx.payload.ops.vector import Read
from tcpx.payload.types import dtype_of
from tcpx.records import frozen
from tcpx.target import LaneType, Target
from tcpx.transform.vectors.accesses import Lanes
from tcpx.transform.vectors.lane_dims import LaneDim, carries, extents_of
from tcpx.transform.vectors.pieces import Pieces
from tcpx.transform.vectors.probes import is_multiply_accumulate

DOT = "a + dot(b, c)"


@frozen
class DotProduct:
    """How an operation is done by dot products: `group` neighbours along the reduction dim `dim` at once.

    `order`: the inputs in the order of the row's factors. `spread`: per input, whether it has the lanes; the groups of
    one that has not are repeated over them.
    """

    dim: str
    group: int
    order: tuple[int, int]
    spread: tuple[bool, bool]


def dot_product(op: Structured, lane: LaneDim | None, width: int, target: Target) -> DotProduct | None:
    """The dot product that computes `op` in vectors of `width` lanes of the result; None if the target has no row, the
    operands are not read from memory, or what is to be neighbours in them is not."""
    if lane is None or lane.is_reduction or width < 2 or len(op.inputs) != 2 or not is_multiply_accumulate(op):
        return None
    extents = extents_of(op)
    maps, inputs = op.maps(), op.inputs
    found = [_group_of(m, lane.name) for m in maps]
    group = next((digit for digit in found if digit is not None), None)
    if group is None or extents[lane.name] % width or extents[group[0]] % group[1]:
        return None
    dim, size = group
    spread = (carries(maps[0], lane.name), carries(maps[1], lane.name))
    for k, (indexing_map, value) in enumerate(zip(maps, inputs, strict=True)):
        fits = found[k] == group if spread[k] else _ends_with(indexing_map, dim, size)
        read = value.defining_op
        if not fits or not isinstance(read, Read) or not read.subset.has_unit_strides or read.first:
            return None
    acc = LaneType(op.acc_type.name, width)
    for order in ((0, 1), (1, 0)):
        factors = [LaneType(dtype_of(inputs[k].type).name, width * size) for k in order]
        groups = [LaneType(dtype_of(v.type).name, size) for v, s in zip(inputs, spread, strict=True) if not s]
        repeated = [LaneType(dtype_of(v.type).name, width * size) for v, s in zip(inputs, spread, strict=True) if not s]
        if target.find("dot", DOT, acc, (acc, *factors)) is not None and all(
            target.find("splat", None, whole, (part,)) is not None for part, whole in zip(groups, repeated, strict=True)
        ):
            return DotProduct(dim, size, order, spread)
    return None


def _group_of(indexing_map: IndexingMap, lane: str) -> tuple[str, int] | None:
    """The dim, and how many neighbours along it, that an operand holds side by side for each lane."""
    if len(indexing_map) < 2 or map_dim(indexing_map[-2]) != lane or carries(indexing_map[:-2], lane):
        return None
    digit = map_digit(indexing_map[-1])
    return (digit.dim, digit.radix) if digit is not None and digit.is_remainder else None


def _ends_with(indexing_map: IndexingMap, dim: str, group: int) -> bool:
    """Whether an operand holds neighbours along a dim side by side, in groups or all of them."""
    if not indexing_map:
        return False
    digit = map_digit(indexing_map[-1])
    if digit is not None:
        return (digit.dim, digit.radix, digit.is_remainder) == (dim, group, True)
    return map_dim(indexing_map[-1]) == dim and not carries(indexing_map[:-1], dim)


def factor(pieces: Pieces, value: Value, index: Sequence[int], dot: DotProduct, spread: bool, width: int) -> Value:
    """The groups of one operand from `index` on: of each lane its own, or one for all lanes."""
    rank = len(index)
    group = Lanes(rank - 1, 1, dot.group)
    if spread:
        return pieces.groups(value, tuple(index), (Lanes(rank - 2, 1, width), group))
    return pieces.repeat(pieces.lanes(value, tuple(index), group), width * dot.group)


def multiply_accumulate(pieces: Pieces, op: Structured, factors: Sequence[Value], acc: Value, base: str) -> Value:
    """The sum of `acc` and the dot products of the factors, in the order of the row; it continues `op`."""
    made = pieces.insert(Dot.of(acc, *factors), base, op)
    if made.defining_op is not None:
        pieces.continue_as(op, made.defining_op)
    return made
