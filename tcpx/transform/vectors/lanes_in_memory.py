"""The lanes of an operation that is computed in memory: vectors along one of its parallel dims, of which the loops over
the other dims, ragged and sequential ones too, compute one after the other.

No lane meets what another one writes: the last dim of each result is that dim, and no index has to do with it. Or it is
a reduction dim, along which each lane has an accumulator of its own. Or lanes take turns: what is written by indices is
computed in lanes, and combined one lane after the other.
"""

from collections.abc import Collection

from tcpx.payload.contexts import context_at
from tcpx.payload.indexing_maps import IndexingMap, map_dim, map_element
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import LANES
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import is_irregular, ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import Scatter, can_take_turns
from tcpx.payload.types import ScalarType
from tcpx.target import Target
from tcpx.transform.vectors.lane_dims import carries, depends, lane_step, streams

MOST_VECTORS = 8
"""Vectors of a tile up to which they are computed side by side; a longer one is a loop over vectors."""


def lane_dim_in_memory(op: Structured) -> str | None:
    """The dim along which an operation has lanes where it is computed in memory; None where there is none."""
    ends = {map_dim(result_map[-1]) if result_map else None for result_map in op.result_maps()}
    dim = ends.pop()
    if ends or dim is None or op.iterator(dim).is_reduction or op.iterator(dim).is_whole:
        return None
    writes = all(streams(result_map, dim) and not _finds(op, result_map, dim) for result_map in op.result_maps())
    bounds = {k for bounds in ragged_dims(op).values() for k in (bounds.first, bounds.end)}
    is_known = not any(carries(op.maps()[k], dim) for k in bounds)
    reads = all(_is_strip(op, indexing_map, dim) for indexing_map in op.maps())
    counts = all(lane_step(position.expression, dim) is not None for position in positions_read(op))
    return dim if writes and is_known and reads and counts else None


def summed_lanes_in_memory(op: Structured) -> str | None:
    """The reduction dim along which an operation has lanes where it is computed in memory: the last one that its
    operands stream along, or are found by indices along."""
    if (
        not Reduction(op).is_commutative
        or Reduction(op).neutrals() is None
        or Scatter.of(op) is not None
        or Scan.of(op) is not None
    ):
        return None
    bounds = {k for bounds in ragged_dims(op).values() for k in (bounds.first, bounds.end)}
    found = [
        it.name
        for it in op.iterators()
        if it.is_reduction and it.name not in Masked(op).valid and _sums(op, it.name, bounds)
    ]
    return found[-1] if found else None


def dim_in_turn(op: Structured) -> str | None:
    """The dim along which an operation that scatters has lanes that take turns."""
    return next((it.name for it in reversed(op.iterators()) if takes_turns(op, it.name)), None)


def takes_turns(op: Structured, dim: str) -> bool:
    """Whether iterations of a dim may be the innermost ones, which does not change the order in which any element is
    combined, and their elements are read in lanes, of which two may write one element of a tensor."""
    bounds = {k for bounds in ragged_dims(op).values() for k in (bounds.first, bounds.end)}
    may_meet = can_take_turns(op, dim) and not op.iterator(dim).is_whole and lane_dim_in_memory(op) != dim
    in_memory = not any(isinstance(result.type, ScalarType) for result in op.results)
    return may_meet and in_memory and _sums(op, dim, bounds)


def _sums(op: Structured, dim: str, bounds: Collection[int]) -> bool:
    maps = op.maps()
    moves = [m for m in maps if carries(m, dim) or _finds(op, m, dim)]
    known = not any(carries(maps[k], dim) for k in bounds)
    reads = all(_finds(op, m, dim) or streams(m, dim) for m in moves) and all(_is_strip(op, m, dim) for m in maps)
    counts = all(lane_step(position.expression, dim) is not None for position in positions_read(op))
    return bool(moves) and known and reads and counts


def _finds(op: Structured, indexing_map: IndexingMap, dim: str) -> bool:
    """Whether an index of a map is an element that depends on the dim."""
    return any(carries(op.maps()[k], dim) for k in map(map_element, indexing_map) if k is not None)


def _is_strip(op: Structured, indexing_map: IndexingMap, dim: str) -> bool:
    """Whether iterations of the dim read one element, elements some steps apart, or those that indices say."""
    moving = [expression for expression in indexing_map if depends(expression, dim)]
    if _finds(op, indexing_map, dim):
        return not moving
    return not moving or (len(moving) == 1 and (lane_step(moving[0], dim) or 0) > 0)


def give_lanes(rewriter: Rewriter, op: Structured, target: Target) -> bool:
    """Let an operation that elements steer, or whose iterations have an order, have lanes along that dim: as many as a
    tile of it has, if that is a few vectors, else a vector of them. False where it has no such dim."""
    found = (
        (lane_dim_in_memory, summed_lanes_in_memory, dim_in_turn) if is_irregular(op) or Scan.of(op) is not None else ()
    )
    dim = next((dim for dim in (find(op) for find in found) if dim is not None), None)
    if dim is None:
        return False
    lanes = min(target.lanes(dtype.name) for dtype in op.acc_types)
    most = context_at(op).upper_bound(op.size_of(dim))
    width = most if most is not None and most <= MOST_VECTORS * lanes else lanes
    if width > 1 and Lanes(op).lanes != (dim, width):
        rewriter.set_attribute(op, LANES, (dim, width))
    return width > 1
