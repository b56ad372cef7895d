"""Unrolling of structured operations: the scalar body, applied to lanes, for every piece of the result."""

from collections.abc import Callable, Sequence
from itertools import product

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Build, Elementwise, Structured
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.vector import Insert, Read, Shuffle
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.view import Padding
from tcpx.payload.types import ScalarType
from tcpx.target import LaneType
from tcpx.transform import new
from tcpx.transform.vectors.dot_products import DotProduct, dot_product, factor, multiply_accumulate
from tcpx.transform.vectors.iterations import (
    At,
    arguments,
    index_of,
    kept_lanes,
    key_of,
    neutral,
    on_lanes,
    orders_of,
    piece_name,
)
from tcpx.transform.vectors.lane_dims import LaneDim, as_size, dims_of_result, extents_of, streams
from tcpx.transform.vectors.literals import is_splat
from tcpx.transform.vectors.pieces import Grid, Index, Pieces, shape_of_vector
from tcpx.transform.vectors.probes import combines_in_one
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.scans import scan_in_lanes
from tcpx.transform.vectors.transposition import Network, network
from tcpx.transform.vectors.widths import is_vector


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
        if op.init is not None and pieces.widths.partial_reduction(op.init) is op:
            pieces.partials[op] = partial
            return True
        grids = totals(pieces, op, op.results, partial, op.inits)
    else:
        unrolled = scan_in_lanes if Lanes(op).scans_in_lanes else scan_lanes if Scan.of(op) is not None else map_lanes
        grids = unrolled(pieces, op)
    for result, grid in zip(op.results, grids, strict=True):
        pieces.define(result, grid)
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
    vectors = [v for v in (*op.results, *op.operands) if is_vector(v)]
    shapes = {shape_of_vector(v.type) for v in vectors}
    if len(op.results) != 1 or len(shapes) != 1 or len(next(iter(shapes))) != 1:
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


def map_lanes(pieces: Pieces, op: Structured) -> list[Grid]:
    """Lanes along the last dim of the results: reductions run piece by piece, outermost, in accumulators."""
    _check_maps(op)
    extents, out, first = extents_of(op), dims_of_result(op), op.results[0]
    width = pieces.widths.of(first) if is_vector(first) else 1
    keys = pieces.keys(first.type, width)
    reductions = [it.name for it in op.iterators() if it.is_reduction]
    acc: dict[Index, Sequence[Value]] = {key: [pieces.piece(init, key, width) for init in op.inits] for key in keys}
    dot = None if Masked(op).valid else dot_product(op, pieces.widths.lane_dim(op), width, pieces.target)
    strides = [dot.group if dot is not None and name == dot.dim else 1 for name in reductions]
    for step in product(*(range(0, extents[name], stride) for name, stride in zip(reductions, strides, strict=True))):
        for key in keys:
            at = dict(zip(out, pieces.start(key, width), strict=True)) | dict(zip(reductions, step, strict=True))
            if dot is not None:
                acc[key] = (_add_dot(pieces, op, dot, at, acc[key], piece_name(op, key), width),)
                continue
            kept = kept_lanes(op, at, None, width)
            if kept != 0:
                args = arguments(pieces, op, at, out[-1] if width > 1 else None, width)
                if pieces.leaves_accumulator(op, args):
                    continue
                acc[key] = _accumulated(pieces, op, args, acc[key], kept, width, key)
    grids: list[Grid] = [{} for _ in op.results]
    for key, values in acc.items():
        for grid, made in zip(grids, on_lanes(pieces, values or neutral(pieces, op), width), strict=True):
            grid[key] = made
    return grids


def scan_lanes(pieces: Pieces, op: Structured) -> list[Grid]:
    """Lanes along the last dim of the results, which is parallel; iterations of sequential dims in their order, each of
    what the one before handed on. A result that is indexed by these has pieces of every iteration."""
    extents, orders = extents_of(op), orders_of(op)
    lane, width = orders[0][-1], pieces.widths.of(op.results[0])
    steps = {it.name: range(extents[it.name]) for it in op.iterators() if it.is_sequential}
    starts = {name: range(0, n, width if name == lane else 1) for name, n in extents.items() if name not in steps}
    grids: list[Grid] = [{} for _ in op.results]
    for start in product(*starts.values()):
        at = dict(zip(starts, start, strict=True))
        handed = on_lanes(pieces, neutral(pieces, op), width)
        for number, (order, init) in enumerate(zip(orders, op.inits, strict=False)):
            if Reduction(op).has_accumulator(number):
                handed[number] = pieces.piece(init, key_of(order, at, width), width)
        for step in product(*steps.values()):
            here = at | dict(zip(steps, step, strict=True))
            kept, key = kept_lanes(op, here, None, width), key_of(orders[0], here, width)
            args = arguments(pieces, op, here, lane if width > 1 else None, width)
            made = _accumulated(pieces, op, args, handed, kept, width, key)
            for number, value in enumerate(made):
                grids[number][key_of(orders[number], here, width)] = value
                handed[number] = value if Reduction(op).has_accumulator(number) else handed[number]
    return grids


def _check_maps(op: Structured) -> None:
    """Several results have one grid of pieces."""
    if len(set(op.result_maps())) > 1:
        raise refusal(
            op,
            "has results that are indexed differently",
            required="one order of dims in all results",
            found=", ".join(f"[{', '.join(map(to_text, result_map))}]" for result_map in op.result_maps()),
            fix=Direction("transpose a result behind the operation instead"),
        )


def _add_dot(
    pieces: Pieces, op: Structured, dot: DotProduct, at: At, acc: Sequence[Value], base: str, width: int
) -> Value:
    """An accumulator with the dot products of one group of neighbours added."""
    factors = [factor(pieces, op.inputs[k], index_of(op.maps()[k], at), dot, dot.spread[k], width) for k in dot.order]
    (start,) = acc or neutral(pieces, op)
    (whole,) = on_lanes(pieces, [start], width)
    return multiply_accumulate(pieces, op, factors, whole, base)


def reduce_lanes(pieces: Pieces, op: Structured, lane: LaneDim) -> list[Grid]:
    """Lanes along a reduction dim: per element of each result a vector of partial results.

    In a last chunk that is not full, the lanes beyond the extent keep the partial result they have.
    """
    _check_maps(op)
    extents, out, width = extents_of(op), dims_of_result(op), pieces.widths.of(op)
    others = [it.name for it in op.iterators() if it.is_reduction and it.name != lane.name]
    keys = pieces.keys(op.results[0].type, 1)
    steps = list(product(*(range(extents[name]) for name in others), range(0, extents[lane.name], width)))
    partial: dict[Index, Sequence[Value]] = {key: [grid[key] for grid in pieces.carried.get(op, ())] for key in keys}
    interleaved = len(keys) <= pieces.target.vector_registers // 2
    order = [(s, k) for s in steps for k in keys] if interleaved else [(s, k) for k in keys for s in steps]
    padded = not Masked(op).valid and _pads_with_zero(op, lane.name)
    for step, key in order:
        at = dict(zip(out, key, strict=True)) | dict(zip((*others, lane.name), step, strict=True))
        kept = width if padded else kept_lanes(op, at, lane.name, min(width, extents[lane.name] - step[-1]))
        if kept != 0:
            args = arguments(pieces, op, at, lane.name, width)
            partial[key] = _accumulated(pieces, op, args, partial[key], kept, width, key)
    for key, values in partial.items():
        partial[key] = values or on_lanes(pieces, neutral(pieces, op), width)
    return [{key: values[k] for key, values in partial.items()} for k in range(len(op.results))]


def _accumulated(
    pieces: Pieces, op: Structured, args: Sequence[Value], before: Sequence[Value], kept: Dim, width: int, key: Index
) -> Sequence[Value]:
    """The accumulators after one iteration; lanes beyond those that are kept hand them on."""
    start = [] if kept == width else on_lanes(pieces, before or neutral(pieces, op), width)
    made = on_lanes(pieces, pieces.apply(op, args, before, piece_name(op, key)), width)
    if kept == width:
        return made
    mask = pieces.mask(kept, width)
    pairs = zip(made, start, strict=True)
    return [pieces.insert(new.select(mask, a, b), piece_name(op, key), op) for a, b in pairs]


def totals(
    pieces: Pieces, op: Structured, results: Sequence[Value], partial: Sequence[Grid], inits: Sequence[Value]
) -> list[Grid]:
    """The lanes of partial results combined, and `inits` with them: the pieces of `results`.

    Where the target can, the lanes of as many vectors as one has are combined together, in a tree of shuffles.
    """
    width = pieces.widths.of(results[0]) if is_vector(results[0]) else 1
    grids: list[Grid] = [{} for _ in results]
    tree = _tree(pieces, op) if width > 1 else None
    for key in pieces.keys(results[0].type, width):
        name, keys = piece_name(op, key), [key]
        if width > 1:
            first, end = pieces.start(key, width)[-1], shape_of_vector(results[0].type)[-1]
            keys = [(*key[:-1], last) for last in range(first, min(first + width, end))]
        if tree is not None:
            chunk = _in_tree(pieces, op, tree, name, [[grid[k] for grid in partial] for k in keys])
            if width < pieces.widths.of(op):
                lanes = [min(k, len(keys) - 1) for k in range(width)]
                chunk = [pieces.from_elements([pieces.extract(vector, k) for k in lanes]) for vector in chunk]
        else:
            sums = [_total(pieces, op, k, [grid[k] for grid in partial]) for k in keys]
            chunk = [
                column[0] if width == 1 else pieces.from_elements([*column, *column[-1:] * (width - len(column))])
                for column in zip(*sums, strict=True)
            ]
        if inits:
            chunk = _combined(pieces, op, name, [pieces.piece(init, key, width) for init in inits], chunk)
        for grid, made in zip(grids, chunk, strict=True):
            grid[key] = made
    return grids


def _total(pieces: Pieces, op: Structured, key: Index, partial: Sequence[Value]) -> Sequence[Value]:
    """The lanes of one partial result combined: by one operation where the combiner is one; else in a tree of shuffles
    or of scalars."""
    name, tree = piece_name(op, key), _tree(pieces, op)
    if len(partial) == 1 and combines_in_one(op):
        return [pieces.insert(horizontal_reduction(Reduction(op).combine, partial[0], op.acc_type), name, op)]
    if tree is not None:
        return [pieces.extract(total, 0) for total in _in_tree(pieces, op, tree, name, [partial])]
    lanes = shape_of_vector(partial[0].type)[0]
    level: list[Sequence[Value]] = [[pieces.extract(vector, lane) for vector in partial] for lane in range(lanes)]
    while len(level) > 1:
        half = len(level) // 2
        level = [_combined(pieces, op, name, a, b) for a, b in zip(level[:half], level[half:], strict=True)]
    return level[0]


def _tree(pieces: Pieces, op: Structured) -> Network | None:
    """How the target combines the lanes of a reduction in shuffles that vectors of each result have."""
    width = pieces.widths.of(op)
    return network(pieces.target, *(LaneType(dtype.name, width) for dtype in op.acc_types))


def _in_tree(
    pieces: Pieces, op: Structured, tree: Network, name: str, rows: Sequence[Sequence[Value]]
) -> Sequence[Value]:
    """The lanes of each of some rows combined, a vector for each result."""
    return tree.combined(
        rows,
        lambda a, b, lanes: [
            pieces.insert(Shuffle.of(x, y, lanes), f"{name}.t", op) for x, y in zip(a, b, strict=True)
        ],
        lambda a, b: _combined(pieces, op, name, a, b),
    )


def _combined(pieces: Pieces, op: Structured, name: str, lhs: Sequence[Value], rhs: Sequence[Value]) -> Sequence[Value]:
    return Reduction(op).joined(lambda made: pieces.insert(made, name, op), lhs, rhs)


def horizontal_reduction(combine: Callable[[Build, Value, Value], Value], vector: Value, dtype: ScalarType) -> Generic:
    """A detached reduction of a 1-D vector to a scalar, by what is one operation."""
    block = Block([("", dtype), ("", dtype)])
    combined = combine(lambda made: block.append(made).result, block.args[1], block.args[0])
    attributes = {
        "iterators": (("d0", "reduction"),),
        "maps": ((as_size("d0"),), ()),
        "combiner": block.ops[-1].opcode,
    }
    block.append(Yield([combined]))
    return Generic([vector], [dtype], attributes, [block])


def _pads_with_zero(op: Structured, name: str) -> bool:
    """Whether lanes beyond the extent of the lane dim `name` are 0 in all operands, and so add nothing."""
    return all(
        Padding(op).pad_value(k, reduced=True) == 0
        and isinstance(value.defining_op, Read)
        and value.defining_op.value == 0
        and streams(indexing_map, name)
        for k, (indexing_map, value) in enumerate(zip(op.maps(), op.inputs, strict=True))
    )
