"""Rows for reads, writes and prefetches: plain, masked or strided by what is provable of the subset."""

from collections.abc import Collection, Iterable

from tcpx.payload.contexts import are_equal_at, context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import ROW, Block, FuncOp, Operation, Value
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.ops.memory import Fence, Lead, Prefetch
from tcpx.payload.ops.vector import FromElements, Gather, Mask, Read, Write
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, is_equal, product
from tcpx.payload.sizes.questions import KnownSymbols
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, ScalarType, dtype_of
from tcpx.target import InstructionRow, LaneType
from tcpx.target.rows import EVERY_SECOND, KINDS
from tcpx.transform import new
from tcpx.transform.vectors.accesses import is_empty
from tcpx.transform.vectors.compute_rows import is_loose
from tcpx.transform.vectors.literals import is_all_true
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.selector import Selector, type_of


def select_read(selector: Selector, op: Read) -> None:
    """The row of a read; where the rest of the lanes is not 0, it is chosen by a mask."""
    type_ = type_of(op.result, op)
    if op.value == 0 and is_all_true(op.source.defining_op):
        (first,) = op.first or (0,)
        selector.rewrite(op, lambda build: build(Mask.of(product(op.subset.sizes), type_.lanes, first)))
        return
    buffer = _buffer(op, op.operands[0])
    known = context_at(op).names
    covered = _covers(op.subset, type_.lanes, known)
    if op.value != 0 and covered:
        selector.rewriter.set_attribute(op, "value", type(op.value)(0))
    elif op.value != 0 and (op.first or not _has_all_lanes(op.subset, type_.lanes, known)):
        selector.rewrite(op, lambda build: _filled(selector, op, build, type_.lanes))
        return
    kind = "load_from" if op.first else "load"
    row = _access_row(selector, op, buffer, type_.lanes, kind)
    if row is not None:
        selector.give(op, row)
    elif type_.lanes > 1:
        selector.rewrite(op, lambda build: _read_lane_by_lane(selector, op, build, type_.lanes))
    else:
        raise selector.missing(op, "load")


def select_mask(selector: Selector, op: Mask) -> None:
    """The row of a mask of lanes."""
    row = selector.find("lane_mask_from" if op.first != 0 else "lane_mask", type_of(op.result, op), [])
    if row is None:
        raise selector.missing(op, "lane_mask")
    selector.give(op, row)


def select_gather(selector: Selector, op: Gather) -> None:
    """The row of a read of lanes where others say."""
    _buffer(op, op.source)
    operands = [type_of(value, op) for value in op.indices.values()]
    row = selector.find("gather", type_of(op.result, op), operands)
    if row is None:
        raise selector.missing(op, "gather")
    selector.give(op, row)


def select_write(selector: Selector, op: Write) -> None:
    """The row of a write; lanes that no row stores together are stored one by one."""
    value, buffer = op.operands[0], _buffer(op, op.operands[1])
    type_ = type_of(value, op)
    kinds = [] if is_loose(value) else ["stream_store", "store"] if op.stream else ["store"]
    rows = (_access_row(selector, op, buffer, type_.lanes, kind) for kind in kinds)
    row = next((row for row in rows if row is not None), None)
    if row is not None:
        selector.give(op, row)
        return
    if type_.lanes == 1:
        raise selector.missing(op, "store")
    build = selector.builder(op)
    for lane in range(type_.lanes):
        tile = selector.tiles.at(op).piece(op.subset, _position(op, lane))
        if not is_empty(tile):
            element = selector.lane(build, value, lane)
            selector.put(type(op)([element, op.operands[1]], [], {**op.attributes, "subset": tile}), op)
    selector.rewriter.erase(op)


def select_prefetch(selector: Selector, op: Prefetch) -> None:
    """The row of a prefetch; the emitter repeats it for the cache lines of the subset."""
    _buffer(op, op.operands[0])
    row = selector.find("prefetch_write" if op.attributes.get("write") is True else "prefetch_read")
    if row is None:
        raise selector.missing(op, "prefetch")
    selector.give(op, row)


def select_lead(selector: Selector, op: Lead) -> None:
    """The row of a question where an element lies."""
    _buffer(op, op.source)
    row = selector.find("lead", LaneType("si64", 1), [])
    if row is None:
        raise selector.missing(op, "lead")
    selector.give(op, row)


def add_fences(selector: Selector, func: FuncOp) -> None:
    """Behind what writes past the caches, each thread waits for that to be seen by the others: at the end of an
    iteration of a parallel loop, or of the outermost loop of others."""
    row = selector.find("stream_fence")
    last: dict[Block, Operation] = {}
    for op in func.walk():
        if isinstance(op, Write) and row is not None and str(op.attributes.get(ROW)).startswith("stream_store"):
            around = [op, *op.ancestors()]
            until = next(
                k
                for k, outer in enumerate(around)
                if outer is func or (k and isinstance(outer, Loop) and outer.is_parallel)
            )
            block = around[until - 1].parent
            if block is not None and selector.target.row(str(op.attributes[ROW])).alignment:
                last[block] = around[until - 1]
    for op in last.values():
        fence = Fence([], [], {ROW: "stream_fence"})
        fence.stand_for(op)
        selector.rewriter.insert(fence, InsertPoint.after(op))


def _buffer(op: Operation, value: Value) -> BufferType:
    if not isinstance(value.type, BufferType):
        raise refusal(
            op,
            "accesses a value that is not in memory yet",
            required="a buffer",
            found=f"%{value.name}: {value.type}",
            fix=Direction("apply bufferize before"),
        )
    return value.type


def _covers(tile: Tile, lanes: int, known: KnownSymbols) -> bool:
    """Whether the tile provably has an element for every lane."""
    wanted = (lanes if dim in tile.kept else 1 for dim in range(tile.rank))
    return all(is_equal(a, b, known) is True for a, b in zip(wanted, tile.sizes, strict=True))


def _has_all_lanes(tile: Tile, lanes: int, known: KnownSymbols) -> bool:
    """Whether the tile provably has an element for every lane, if it has any."""
    return all(is_equal(lanes, tile.sizes[dim], known) is True for dim in tile.kept)


def _access_row(selector: Selector, op: OnSubset, buffer: BufferType, lanes: int, kind: str) -> InstructionRow | None:
    """The row of a load or store. Dropped dims are no part of it: an access with a size of 0 there is left out."""
    held = LaneType(buffer.dtype.name, lanes)
    names, conditions = [kind], list[str]()
    if lanes > 1:
        *outer, dim = op.subset.kept
        if outer:
            return _contiguous_row(selector, op, buffer, lanes, kind)
        distance = op.subset.strides[dim] * buffer.strides[dim]
        base = kind if are_equal_at(op, distance, 1) else f"strided_{kind}"
        conditions = [EVERY_SECOND] if are_equal_at(op, distance, 2) else []
        full = kind != "load_from" and are_equal_at(op, lanes, op.subset.sizes[dim])
        names = [base, f"masked_{base}"] if full else [f"masked_{base}"]
    return _first_row(selector, names, held, conditions)


def _first_row(
    selector: Selector, names: Iterable[str], held: LaneType, conditions: Collection[str] = ()
) -> InstructionRow | None:
    """The first row there is of some kinds of loads or stores of a vector."""
    for name in names:
        if name in KINDS:
            is_store = name.endswith("store")
            row = selector.find(name, None if is_store else held, [held] if is_store else [], conditions=conditions)
            if row is not None:
                return row
    return None


def _contiguous_row(
    selector: Selector, op: OnSubset, buffer: BufferType, lanes: int, kind: str
) -> InstructionRow | None:
    """The row of a load or store of rows that lie one behind the other."""
    *outer, inner = op.subset.kept
    distance: Dim = 1
    for dim in (inner, *reversed(outer)):
        if not are_equal_at(op, op.subset.strides[dim] * buffer.strides[dim], distance):
            return None
        distance = distance * op.subset.sizes[dim] if dim == inner else distance
    full = are_equal_at(op, product(op.subset.shape), lanes)
    held = LaneType(buffer.dtype.name, lanes)
    return _first_row(selector, [kind, f"masked_{kind}"] if full else [f"masked_{kind}"], held)


def _position(op: Read | Write, lane: int) -> tuple[int, ...]:
    """Where in its subset a read or write has a lane."""
    inner = op.subset.shape[-1] if op.is_flat else None
    return divmod(lane, inner) if isinstance(inner, int) else (lane,)


def _filled(selector: Selector, op: Read, build: Build, lanes: int) -> Value:
    """The read, and in lanes that it does not reach its `value`."""
    reached: Dim = product(op.subset.sizes)
    (first,) = op.first or (0,)
    mask = build(Mask.of(reached, lanes, first))
    attributes = {**op.attributes, "value": type(op.value)(0)}
    found = build(type(op)(op.operands, [op.result.type], attributes))
    type_ = op.result.type
    rest = build(new.literal(op.value, type_)) if isinstance(type_, ScalarType) else splat(build, op.value, type_)
    return build(new.select(mask, found, rest))


def _read_lane_by_lane(selector: Selector, op: Read, build: Build, lanes: int) -> Value:
    dtype = dtype_of(op.result.type)
    elements: list[Value] = []
    for lane in range(lanes):
        tile = selector.tiles.at(op).piece(op.subset, _position(op, lane))
        if op.first:
            tile, _ = selector.tiles.at(op).placed(op.subset, op.first, (lane,))
        if is_empty(tile):
            elements.append(build(new.literal(op.value, dtype)))
        else:
            elements.append(build(Read.of(op.source, tile, dtype, op.value)))
    return build(FromElements.of(elements))
