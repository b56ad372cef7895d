"""What an operation costs by the orders of what it reads and gives, in vector instructions."""

from math import ceil, prod
from typing import Final

from tcpx.payload.indexing_maps import IndexingMap, map_coefficients, map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import dtype_of, shape_of
from tcpx.target import LaneType, Target
from tcpx.target.rows import EVERY_SECOND
from tcpx.transform.layouts.orders import Order, elements_of, extent_of
from tcpx.transform.layouts.relations import relation_of
from tcpx.transform.vectors.pieces import transposed

MOVED: Final = 0.75
"""A transpose, by element: what caches take for reading and writing it."""
PER_DIM: Final = 0.0005
"""The same for each dim that is not 1: of equal choices, the transpose of the fewest dims."""
PER_LOAD: Final = 0.25
"""A load of a vector that register tiles use about four times: for several indices of a dim that the operand has not,
or for neighbouring windows."""
UNALIGNED: Final = 1.5
"""The same along windows, whose vectors begin anywhere."""
SHUFFLED: Final = 3.0
"""The same of every second element: two loads and a shuffle, where the target has a row for that."""


def lanes_of(value: Value, target: Target) -> int:
    """The elements of a vector of the dtype of a value."""
    return max(1, target.vector_bits // max(8, dtype_of(value.type).bits))


def innermost_dim(order: Order, value: Value) -> int | None:
    """The dim of a value along which its elements follow one another; None of one element."""
    shape = shape_of(value.type)
    return next((dim for dim in reversed(order) if shape[dim] != 1), None)


def filled(extent: int, lanes: int) -> float:
    """How many lanes of the vectors along a dim have elements, on average."""
    return extent / ceil(extent / lanes)


def cost_of_result(op: Operation, order: Order, target: Target) -> float:
    """The vectors that an operation computes for a result in this order."""
    result = op.results[0]
    dim = innermost_dim(order, result)
    if dim is None:
        return 0.0
    extent = extent_of(shape_of(result.type)[dim])
    return iterations_of(op) / filled(extent, lanes_of(result, target))


def iterations_of(op: Operation) -> int:
    """How many elements an operation computes or combines.

    Windows of one operand are combined along the last dim after the others (`reduce_first`), if that is less.
    """
    if not isinstance(op, Structured):
        return elements_of(op.results[0])
    taps = {
        it.name: extent_of(extent) for it, extent in zip(op.iterators(), op.extents(), strict=True) if it.is_reduction
    }
    count = prod(map(extent_of, op.extents()))
    windows = [e for e in op.maps()[0] if len(map_symbols(e)) > 1] if len(op.inputs) == 1 else []
    if len(taps) < 2 or len(windows) < 2:
        return count
    factors = map_coefficients(windows[-1]) or {}
    stride = max((factor for name, factor in factors.items() if name not in taps), default=1)
    *others, last = taps.values()
    return min(count, count // max(1, prod(taps.values())) * (stride * prod(others) + last))


def cost_of_read(op: Structured, index: int, read: Order, gives: Order, target: Target) -> float:
    """What loading an operand costs that is stored in this order, or is transposed before where that is cheaper."""
    loads, best = cost_of_loads(op, index, read, gives, target)
    return min(loads, best + cost_of_transposing(op.operands[index]))


def cost_of_transposing(value: Value) -> float:
    """What a transpose costs; nothing where the compiler does it. The fewer its dims, the longer its blocks."""
    wide = sum(extent != 1 for extent in shape_of(value.type))
    return 0.0 if is_stored(value) else (MOVED + PER_DIM * wide) * elements_of(value)


def cost_of_loads(op: Structured, index: int, read: Order, gives: Order, target: Target) -> tuple[float, float]:
    """What loading an operand costs in this order and in the best one, while vectors lie along the innermost dim of a
    result in `gives`."""
    result, value = op.results[0], op.operands[index]
    dim, inner = innermost_dim(gives, result), innermost_dim(read, value)
    indexing_map: IndexingMap = op.maps()[index]
    if dim is None or inner is None:
        return 0.0, 0.0
    names = map_symbols(op.result_maps()[0][dim])
    along = [k for k, e in enumerate(indexing_map) if any(name in map_symbols(e) for name in names)]
    if not along:
        return 0.0, 0.0  # one element for all lanes
    vectors, lanes = cost_of_result(op, gives, target), lanes_of(value, target)
    factors = map_coefficients(indexing_map[along[0]]) or {}
    apart = {factors.get(name, 0) for name in names} - {0} if len(along) == 1 else set[int]()
    best = lanes
    if apart == {1}:
        best = UNALIGNED if len(factors) > 1 else 1.0
    elif apart == {2} and has_row_for_every_second(value, lanes, target):
        best = SHUFFLED
    per_load = 1.0 if len(factors) > 1 and _has_all_dims(op, indexing_map) else PER_LOAD
    return vectors * per_load * (best if along == [inner] else lanes), vectors * per_load * best


def has_row_for_every_second(value: Value, lanes: int, target: Target) -> bool:
    """Whether the target loads every second element of a value in one row."""
    row = target.find("strided_load", None, LaneType(dtype_of(value.type).name, lanes), [], [EVERY_SECOND])
    return row is not None and row.condition == EVERY_SECOND


def _has_all_dims(op: Structured, indexing_map: IndexingMap) -> bool:
    """Whether an operand that is read by this map has an element of its own for each of the result."""
    read = {name for expression in indexing_map for name in map_symbols(expression)}
    return all(name in read for expression in op.result_maps()[0] for name in map_symbols(expression))


def is_stored(value: Value) -> bool:
    """Whether a value is a stored constant, or a view of one: its transpose is computed by the compiler."""
    op = value.defining_op
    if op is None or Constant.of(op) is not None:
        return op is not None
    is_view = transposed(op) is not None or not isinstance(op, Structured)
    return len(op.operands) == 1 and is_view and is_stored(op.operands[0]) and relation_of(op) is not None
