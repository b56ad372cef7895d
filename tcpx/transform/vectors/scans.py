"""Scans in lanes: iterations of a sequential dim side by side in a vector, combined in as many stages as their number
has bits (W. D. Hillis and G. L. Steele, Data parallel algorithms, 1986), and with what vectors before them hand on."""

from collections.abc import Sequence
from itertools import product

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Value
from tcpx.payload.ops.vector import Shuffle
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import dtype_of
from tcpx.target import LaneType, Target
from tcpx.transform import new
from tcpx.transform.vectors.iterations import (
    At,
    arguments,
    kept_lanes,
    key_of,
    neutral,
    on_lanes,
    orders_of,
    piece_name,
)
from tcpx.transform.vectors.lane_dims import extents_of
from tcpx.transform.vectors.pieces import Grid, Pieces


def moved_up(width: int, lanes: int) -> tuple[int, ...]:
    """The lanes of a shuffle that moves those of its second vector up, behind the last lanes of the first."""
    return tuple(range(width - lanes, 2 * width - lanes))


def has_scans(target: Target, dtype: str, width: int) -> bool:
    """Whether the target has the shuffles for a scan in so many lanes."""
    rows = {row.lanes for row in target.shuffles(LaneType(dtype, width))}
    return width > 1 and all(moved_up(width, 1 << bit) in rows for bit in range(width.bit_length() - 1))


def scan_in_lanes(pieces: Pieces, op: Structured) -> list[Grid]:
    """The pieces of the results of a scan whose lanes lie along its sequential dim."""
    dim = (Lanes(op).lanes or ("", 0))[0]
    extents, orders = extents_of(op), orders_of(op)
    own = [number for number in range(len(op.results)) if Reduction(op).has_accumulator(number)]
    along = next(number for number in range(len(op.results)) if number not in own)
    width = pieces.widths.of(op.results[along])
    others = [name for name in extents if name != dim]
    grids: list[Grid] = [{} for _ in op.results]
    for start in product(*(range(extents[name]) for name in others)):
        at = dict(zip(others, start, strict=True))
        handed = on_lanes(pieces, neutral(pieces, op), width)
        for number in own if op.inits else ():
            element = pieces.scalar(op.inits[number], key_of(orders[number], at, 1))
            handed[number] = pieces.splat(element, width)
        for first in range(0, extents[dim], width):
            made, handed = _vector(pieces, op, at | {dim: first}, handed, width)
            for number in range(len(op.results)):
                if number not in own:
                    key = key_of(orders[number], at | {dim: first}, width)
                    grids[number][key] = made[number]
        for number in own:
            total = handed[number]
            grids[number][key_of(orders[number], at, 1)] = pieces.extract(total, 0) if width > 1 else total
    for number in own:
        grids[number] = _in_vectors(pieces, op.results[number], grids[number])
    return grids


def _vector(
    pieces: Pieces, op: Structured, at: At, handed: Sequence[Value], width: int
) -> tuple[Sequence[Value], list[Value]]:
    """What one vector of iterations makes, and hands on: in all lanes."""
    dim = (Lanes(op).lanes or ("", 0))[0]
    key = key_of(orders_of(op)[0], at, width)
    name, none = piece_name(op, key), on_lanes(pieces, neutral(pieces, op), width)
    own = [number for number in range(len(op.results)) if Reduction(op).has_accumulator(number)]
    args = arguments(pieces, op, at, dim if width > 1 else None, width)
    alone = on_lanes(pieces, pieces.apply(op, args, none, name), width)
    kept = kept_lanes(op, at, dim, min(width, extents_of(op)[dim] - at[dim]))
    upto = list(alone)
    if kept != width:
        mask = pieces.mask(kept, width)
        for number in own:
            upto[number] = pieces.insert(new.select(mask, alone[number], none[number]), name, op)

    def moved(values: Sequence[Value], lanes: int) -> list[Value]:
        found = list(values)
        for number in own:
            shuffled = Shuffle.of(none[number], values[number], moved_up(width, lanes))
            found[number] = pieces.insert(shuffled, f"{name}.t", op)
        return found

    def joined(lhs: Sequence[Value], rhs: Sequence[Value]) -> list[Value]:
        return on_lanes(pieces, Reduction(op).joined(lambda made: pieces.insert(made, name, op), lhs, rhs), width)

    for bit in range((width - 1).bit_length()):
        upto = joined(moved(upto, 1 << bit), upto)
    same = [next((k for k in own if alone[k] is value), None) for value in alone]
    if None not in same:
        after = joined(handed, upto)
        made: Sequence[Value] = [after[k] for k in same if k is not None]
    else:
        made = on_lanes(pieces, pieces.apply(op, args, joined(handed, moved(upto, 1)), name), width)
    return made, joined(handed, [_last(pieces, op, value, width, f"{name}.t") for value in upto])


def _last(pieces: Pieces, op: Structured, vector: Value, width: int, name: str) -> Value:
    """The last lane in all lanes."""
    lanes = (2 * width - 1,) * width
    rows = pieces.target.shuffles(LaneType(dtype_of(vector.type).name, width))
    if any(row.lanes == lanes for row in rows):
        return pieces.insert(Shuffle.of(vector, vector, lanes), name, op)
    return pieces.splat(pieces.extract(vector, width - 1), width) if width > 1 else vector


def _in_vectors(pieces: Pieces, value: Value, elements: Grid) -> Grid:
    """Elements of a value as the pieces that it has."""
    width = pieces.widths.of(value)
    grid: Grid = {}
    for key in pieces.keys(value.type, width):
        if width == 1:
            grid[key] = elements[key]
            continue
        begin = pieces.start(key, width)
        chunk = [elements.get((*begin[:-1], begin[-1] + k)) for k in range(width)]
        known = [element for element in chunk if element is not None]
        grid[key] = pieces.from_elements([*known, *known[-1:] * (width - len(known))])
    return grid
