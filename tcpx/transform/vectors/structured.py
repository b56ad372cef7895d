"""Unrolling of structured operations: the scalar body, applied to lanes, for every piece of the result."""

from __future__ import annotations

from itertools import product

from tcpx.payload.indexing_maps import IndexingMap
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.vector import Insert, Read, Shuffle
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import ScalarType
from tcpx.target import LaneType
from tcpx.transform import new
from tcpx.transform.vectors.accesses import Lanes
from tcpx.transform.vectors.dot_products import DotProduct, dot_product, factor, multiply_accumulate
from tcpx.transform.vectors.lane_dims import LaneDim, as_size, depends, dims_of_result, extents_of, lane_step, streams
from tcpx.transform.vectors.literals import is_splat
from tcpx.transform.vectors.pieces import Grid, Index, Pieces, shape_of_vector
from tcpx.transform.vectors.probes import combiner_of, reduces
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.transposition import network
from tcpx.transform.vectors.widths import is_vector

At = dict[str, int]
"""The iteration a piece starts at: dim -> position."""


def unroll(pieces: Pieces, op: Structured) -> bool:
    """Define the pieces of the result of `op`; False if `op` is one instruction as it stands, and stays."""
    if is_instruction(pieces, op):
        width = shape_of_vector(next(v.type for v in (op.result, *op.operands) if is_vector(v)))[0]
        for index, value in enumerate(op.operands):
            if is_vector(value):
                pieces.rewriter.set_operand(op, index, pieces.piece(value, (0,), width))
        return False
    lane = pieces.widths.lane_dim(op)
    if lane is not None and lane.is_reduction and pieces.widths.of(op) > 1:
        partial = reduce_lanes(pieces, op, lane)
        if op.init is None or pieces.widths.partial_reduction(op.init) is not op:
            pieces.define(op.result, totals(pieces, op, op.result, partial, op.init))
        else:
            pieces.partials[op] = partial
    else:
        pieces.define(op.result, map_lanes(pieces, op))
    return True


def rearrange(pieces: Pieces, op: Insert | Shuffle) -> bool:
    """Define the pieces of a vector whose lanes are those of others; False if `op` is one instruction and stays."""
    result, vectors = op.result, [v for v in op.operands if is_vector(v)]
    if all(pieces.widths.is_piece(v) and v.type == result.type for v in (result, *vectors)):
        for index, value in enumerate(vectors):
            pieces.rewriter.set_operand(op, index, pieces.piece(value, (0,), pieces.widths.of(value)))
        return False
    lanes: list[Value] = []
    for value, lane in op.sources():
        lanes.append(pieces.scalar(value, (lane,)) if is_vector(value) else value)
    width = pieces.widths.of(result)
    grid: Grid = {}
    for key in pieces.keys(result.type, width):
        start = pieces.start(key, width)[0]
        chunk = lanes[start : start + width]
        grid[key] = chunk[0] if width == 1 else pieces.from_elements([*chunk, *chunk[-1:] * (width - len(chunk))])
    pieces.define(result, grid)
    return True


def is_instruction(pieces: Pieces, op: Structured) -> bool:
    """Whether the operation is one that unrolling makes: lane-wise on 1-D vectors of the right width, a splat, or
    the reduction of one such vector to a scalar."""
    vectors = [v for v in (op.result, *op.operands) if is_vector(v)]
    shapes = {shape_of_vector(v.type) for v in vectors}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        return False
    width = next(iter(shapes))[0]
    if width == 1:
        return False
    if is_vector(op.result):
        lane_wise = (isinstance(op, Elementwise) and bool(op.semantics) and len(vectors) == 1 + len(op.operands)) or (
            is_splat(op)
        )
        return lane_wise and width == pieces.widths.of(op.result)
    return is_horizontal(op) and width == pieces.widths.of(op)


def is_horizontal(op: Structured) -> bool:
    """Whether the operation is what `horizontal_reduction` makes."""
    if not op.regions or len(op.operands) != 1 or not isinstance(op.result.type, ScalarType):
        return False
    its, body = op.iterators(), op.regions[0]
    shape = shape_of_vector(op.operands[0].type)
    return (
        len(shape) == len(its) == 1
        and its[0].is_reduction
        and [inner.opcode for inner in body.ops[:-1]] == [op.attributes.get("combiner")]
        and set(body.ops[0].operands) == set(body.args)
    )


def map_lanes(pieces: Pieces, op: Structured) -> Grid:
    """Lanes along the last dim of the result: reductions run piece by piece, outermost, in accumulators."""
    extents, out = extents_of(op), dims_of_result(op)
    width = pieces.widths.of(op.result) if is_vector(op.result) else 1
    keys = pieces.keys(op.result.type, width)
    reductions = [it.name for it in op.iterators() if it.is_reduction]
    acc: dict[Index, Value | None] = {
        key: pieces.piece(op.init, key, width) if op.init is not None else None for key in keys
    }
    dot = dot_product(op, pieces.widths.lane_dim(op), width, pieces.target)
    strides = [dot.group if dot is not None and name == dot.dim else 1 for name in reductions]
    for step in product(*(range(0, extents[name], stride) for name, stride in zip(reductions, strides, strict=True))):
        for key in keys:
            at = dict(zip(out, pieces.start(key, width), strict=True)) | dict(zip(reductions, step, strict=True))
            if dot is not None:
                acc[key] = _add_dot(pieces, op, dot, at, acc[key], piece_name(op, key), width)
                continue
            args = [_operand(pieces, op, k, at, out[-1] if width > 1 else None, width) for k in range(len(op.inputs))]
            acc[key] = pieces.apply(op, args, acc[key], piece_name(op, key))
    grid: Grid = {}
    for key, value in acc.items():
        made = value if value is not None else neutral(pieces, op)
        grid[key] = pieces.splat(made, width) if isinstance(made.type, ScalarType) else made
    return grid


def _add_dot(
    pieces: Pieces, op: Structured, dot: DotProduct, at: At, acc: Value | None, base: str, width: int
) -> Value:
    """An accumulator with the dot products of one group of neighbours added."""
    factors = [factor(pieces, op.inputs[k], _index(op.maps()[k], at), dot, dot.spread[k], width) for k in dot.order]
    start = acc if acc is not None else neutral(pieces, op)
    whole = pieces.splat(start, width) if isinstance(start.type, ScalarType) else start
    return multiply_accumulate(pieces, op, factors, whole, base)


def reduce_lanes(pieces: Pieces, op: Structured, lane: LaneDim) -> Grid:
    """Lanes along a reduction dim: per element of the result a vector of partial results.

    In a last chunk that is not full, the lanes beyond the extent keep the partial result they have.
    """
    extents, out, width = extents_of(op), dims_of_result(op), pieces.widths.of(op)
    others = [it.name for it in op.iterators() if it.is_reduction and it.name != lane.name]
    keys = pieces.keys(op.result.type, 1)
    steps = list(product(*(range(extents[name]) for name in others), range(0, extents[lane.name], width)))
    partial: dict[Index, Value | None] = dict.fromkeys(keys)
    carried = pieces.carried.get(op)
    if carried is not None:
        partial.update(carried)
    interleaved = len(keys) <= pieces.target.vector_registers // 2
    order = [(s, k) for s in steps for k in keys] if interleaved else [(s, k) for k in keys for s in steps]
    padded = _pads_with_zero(op, lane.name)
    for step, key in order:
        at = dict(zip(out, key, strict=True)) | dict(zip((*others, lane.name), step, strict=True))
        args = [_operand(pieces, op, k, at, lane.name, width) for k in range(len(op.inputs))]
        valid = min(width, extents[lane.name] - step[-1])
        before = partial[key]
        if valid < width and not padded and before is None:
            before = pieces.splat(neutral(pieces, op), width)
        after = pieces.apply(op, args, partial[key], piece_name(op, key))
        if valid < width and not padded and before is not None:
            kept = new.select(pieces.mask(valid, width), after, before)
            after = pieces.insert(kept, piece_name(op, key), op)
        partial[key] = after
    missing = [key for key, value in partial.items() if value is None]
    for key in missing:
        partial[key] = pieces.splat(neutral(pieces, op), width)
    return {key: value for key, value in partial.items() if value is not None}


def totals(pieces: Pieces, op: Structured, result: Value, partial: Grid, init: Value | None) -> Grid:
    """The lanes of partial results combined, and `init` with them: the pieces of `result`.

    Where the target can, the lanes of as many vectors as one has are combined together, in a tree of shuffles.
    """
    width = pieces.widths.of(result) if is_vector(result) else 1
    if width == 1:
        return {key: _with_init(pieces, op, key, _total(pieces, op, key, partial[key]), init, 1) for key in partial}
    type_ = LaneType(op.acc_type.name, width)
    tree = network(pieces.target, type_) if width == pieces.widths.of(op) else None
    grid: Grid = {}
    for key in pieces.keys(result.type, width):
        first, name = pieces.start(key, width)[-1], piece_name(op, key)
        keys = [(*key[:-1], last) for last in range(first, min(first + width, shape_of_vector(result.type)[-1]))]
        if tree is None:
            sums = [_total(pieces, op, k, partial[k]) for k in keys]
            made = pieces.from_elements([*sums, *sums[-1:] * (width - len(sums))])
        else:
            made = tree.combined(
                [partial[k] for k in keys],
                lambda a, b, lanes, name=name: pieces.insert(Shuffle.of(a, b, lanes), f"{name}.t", op),
                lambda a, b, name=name: _combined(pieces, op, name, a, b),
            )
        grid[key] = _with_init(pieces, op, key, made, init, width)
    return grid


def _total(pieces: Pieces, op: Structured, key: Index, partial: Value) -> Value:
    return pieces.insert(horizontal_reduction(op, partial), piece_name(op, key), op)


def _combined(pieces: Pieces, op: Structured, name: str, lhs: Value, rhs: Value) -> Value:
    return op.combine(lambda made: pieces.insert(made, name, op), lhs, rhs)


def _with_init(pieces: Pieces, op: Structured, key: Index, made: Value, init: Value | None, width: int) -> Value:
    """What was reduced, and a piece of what the reduction starts from."""
    if init is None:
        return made
    return _combined(pieces, op, piece_name(op, key), pieces.piece(init, key, width), made)


def horizontal_reduction(op: Structured, vector: Value) -> Generic:
    """A detached reduction of a 1-D vector to a scalar with the combiner of `op`."""
    block = Block([("", op.acc_type), ("", op.acc_type)])

    combined = op.combine(lambda made: block.append(made).result, block.args[1], block.args[0])
    block.append(Yield([combined]))
    attributes = {
        "iterators": (("d0", "reduction"),),
        "maps": ((as_size("d0"),), ()),
        "combiner": combiner_of(op).opcode,
    }
    return Generic([vector], [op.acc_type], attributes, [block])


def neutral(pieces: Pieces, op: Structured) -> Value:
    """The neutral element of a reduction."""
    number = op.neutral()
    if number is None and reduces(op):
        raise refusal(op, "has no neutral element", "a reduction with a combiner that has one", "none")
    return pieces.constant(number or 0, op.acc_type)


def piece_name(op: Structured, key: Index) -> str:
    """`mm.2.0`: the base name of what computes one piece."""
    return ".".join([op.result.name, *map(str, key)])


def _pads_with_zero(op: Structured, name: str) -> bool:
    """Whether lanes beyond the extent of the lane dim `name` are 0 in all operands, and so add nothing."""
    return all(
        op.pad_value(k, reduced=True) == 0
        and isinstance(value.defining_op, Read)
        and value.defining_op.value == 0
        and streams(indexing_map, name)
        for k, (indexing_map, value) in enumerate(zip(op.maps(), op.inputs, strict=True))
    )


def _operand(pieces: Pieces, op: Structured, k: int, at: At, lane: str | None, width: int) -> Value:
    """The lanes of input `k` that an iteration reads; a splat where the input does not depend on the lane dim."""
    value, indexing_map = op.inputs[k], op.maps()[k]
    index = _index(indexing_map, at)
    if lane is None:
        return pieces.scalar(value, index)
    moving = [d for d, e in enumerate(indexing_map) if depends(e, lane)]
    if not moving:
        return pieces.splat(pieces.scalar(value, index), width)
    step = lane_step(indexing_map[moving[0]], lane)
    if len(moving) == 1 and step is not None and step > 0:
        return pieces.lanes(value, index, Lanes(moving[0], step, width))
    last = extents_of(op)[lane] - 1
    places = [at | {lane: min(position, last)} for position in range(at[lane], at[lane] + width)]
    return pieces.from_elements([pieces.scalar(value, _index(indexing_map, there)) for there in places])


def _index(indexing_map: IndexingMap, at: At) -> Index:
    return tuple(e if isinstance(e, int) else evaluate(e, at) for e in indexing_map)
