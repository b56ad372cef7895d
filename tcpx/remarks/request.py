"""What a payload asks for, found out before its schedule changes it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Final, Self

from tcpx.costs.forwarding import PayloadPlaces
from tcpx.costs.needs import needed_parts
from tcpx.costs.operations import CAST, WIDENED, WIDENED_BITS
from tcpx.costs.work import Asked, Place, asked_for
from tcpx.payload.evaluator import bind_strides
from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import FuncOp, Module, Operation, Value, written_at
from tcpx.payload.ops.movement import Broadcast, Fill, Transpose
from tcpx.payload.sizes import Symbol, evaluate, symbols
from tcpx.payload.sizes.traversal import leaves
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import ScalarType, TensorType, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform.vectors.multiply_add import PRODUCT, SUM
from tcpx.transform.vectors.probes import combiner_of, is_multiply_accumulate

TYPICAL: Final = 256
"""The value of a symbol that may have any."""
SUMS: Final = "si32"


@frozen
class PayloadWork:
    """What each place of a payload asks for in a call with `sizes`; `dots` are those that add products of narrow
    integers, for which the target has dot products, with how many products a vector of these adds."""

    sizes: Mapping[str, int]
    asked: Asked
    places: PayloadPlaces
    dots: Mapping[Place, int]
    in_order: frozenset[Place]
    """Those whose iterations follow each other: in vectors they take several operations for one."""
    copies: Mapping[Place, float]
    """Where all operands of an operation on elements are broadcast: how often it computes each of its elements."""
    unread: frozenset[Place]
    """Those that compute elements which no result needs, if all of them are computed."""

    @classmethod
    def of(cls, module: Module, target: Target, sizes: Mapping[str, int] | None = None) -> Self:
        """At sizes that are given, else at typical ones."""
        func = module.main
        sizes = typical_sizes(func, sizes or {})
        ops = [op for reached in module.reached(func) for op in reached.walk()]
        dots = {written_at(op): products for op in ops if (products := _products_of_dot(op, target))}
        parts, places = needed_parts(func, sizes), PayloadPlaces.of(module)
        asked, unread = asked_for(func, sizes, target, parts), frozenset(written_at(op) for op in parts)
        in_order = frozenset(written_at(op) for op in ops if isinstance(op, Structured) and Scan.of(op) is not None)
        copies = {written_at(op): times for op in ops if (times := _copies(op, sizes)) > 1}
        return cls(sizes, asked, places, dots, in_order, copies, unread)


def typical_sizes(func: FuncOp, given: Mapping[str, int]) -> dict[str, int]:
    """Sizes at which a function is judged: those that are `given`, else some that its declarations allow. Arrays whose
    strides are not given are contiguous."""
    typical = {symbol.name: _typical(symbol) for symbol in func.symbols}
    dims = {symbol.name for value in func.args for dim in shape_of(value.type) for symbol in symbols(dim)}
    sizes = {**{name: size for name, size in typical.items() if name in dims}, **given}
    bind_strides(func, sizes)
    return {**typical, **sizes}


def _typical(symbol: Symbol) -> int:
    size = -(-max(symbol.lower, TYPICAL) // symbol.multiple_of) * symbol.multiple_of
    return size if symbol.upper is None else min(size, symbol.upper // symbol.multiple_of * symbol.multiple_of)


def _copies(op: Operation, sizes: Mapping[str, int]) -> float:
    """How often an operation on elements computes each, since what it is given is broadcast."""
    if (
        not isinstance(op, Elementwise)
        or op.is_movement
        or not op.operands
        or not isinstance(op.result.type, TensorType)
    ):
        return 1.0
    known = partial(elements_of, sizes=sizes)
    makers = [value.defining_op for value in op.operands if not isinstance(value.type, ScalarType)]
    sources = [maker.operands[0] for maker in makers if isinstance(maker, Broadcast)]
    most, computed = max(map(known, sources), default=0), known(op.result)
    is_repeated = all(isinstance(maker, Broadcast | Fill) for maker in makers)
    return computed / most if is_repeated and most else 1.0


def elements_of(value: Value, sizes: Mapping[str, int]) -> int:
    """How many elements a value has; 0 where its shape has variables that no size is known of."""
    if {leaf.name for dim in shape_of(value.type) for leaf in leaves(dim).values()} - set(sizes):
        return 0
    return prod(max(0, evaluate(dim, sizes)) for dim in shape_of(value.type))


Named = tuple[Value, tuple[str, ...]]
"""A factor of a sum of products, and the dims of the sum that its dims are."""


def _products_of_dot(op: Operation, target: Target) -> int:
    """How many products a vector of dot products adds of an operation that adds products whose factors were narrow
    integers before they were cast; 0 for another one, or where the target has none."""
    factors = _factors(op)
    if len(factors) != 2:
        return 0
    first, second = (dtype_of(_before_casts(value).type).name for value in factors)
    pairs = (first, second), (second, first), (WIDENED, WIDENED)
    width = next((each for each in (target.dot_width(lhs, rhs, SUMS) for lhs, rhs in pairs) if each > 1), 0)
    return width * target.lanes(SUMS)


def _factors(op: Operation) -> list[Value]:
    """The factors of a sum of products of narrow integers; none of anything else."""
    if (
        not isinstance(op, Structured)
        or Reduction.of(op) is None
        or len(op.results) != 1
        or Reduction(op).neutral() != 0
    ):
        return []
    factors = list(op.inputs)
    if not is_multiply_accumulate(op):
        product = _before_movement(factors[0]).defining_op if len(factors) == 1 else None
        if not isinstance(product, Elementwise) or product.semantics != PRODUCT or combiner_of(op).semantics != SUM:
            return []
        factors = list(product.operands)
    dtypes = [dtype_of(_before_casts(value).type) for value in factors]
    return factors if all(map(_is_narrow, dtypes)) else []


def _is_narrow(dtype: ScalarType) -> bool:
    """Whether the integers of dot products hold all values of a dtype."""
    return dtype.is_integer and (dtype.bits < WIDENED_BITS or dtype.name == WIDENED)


def narrow_product(op: Operation) -> tuple[Named, Named, tuple[str, ...]] | None:
    """The narrow factors of a sum of products with their dims, and the dims of the result; None where dims do not say
    what is multiplied."""
    factors = _factors(op)
    if len(factors) != 2 or not isinstance(op, Structured):
        return None
    out = map_dims(op.result_map())
    maps = [map_dims(each) for each in op.maps()]
    if len(maps) == 1:  # of products that are written as an operation of their own
        maps = [maps[0], maps[0]]
    named = [_dims_before(value, dims) for value, dims in zip(factors, maps, strict=True) if dims is not None]
    first, second = (*named, None, None)[:2]
    return (first, second, out) if first is not None and second is not None and out is not None else None


def _dims_before(value: Value, dims: tuple[str, ...]) -> Named | None:
    """The narrow value that another one is a cast, a broadcast or a transpose of, and its dims; None after other
    movements."""
    while (op := value.defining_op) is not None:
        if isinstance(op, Broadcast):
            dims = tuple(dims[k] for k in op.places_of_dims)
        elif isinstance(op, Transpose):
            dims = tuple(dims[op.permutation.index(k)] for k in range(len(dims)))
        elif not isinstance(op, Elementwise) or op.semantics != CAST:
            break
        value = op.operands[0]
    return (value, dims) if _is_narrow(dtype_of(value.type)) else None


def _before_movement(value: Value) -> Value:
    while isinstance(op := value.defining_op, Structured) and op.is_movement and len(op.inputs) == 1:
        value = op.inputs[0]
    return value


def _before_casts(value: Value) -> Value:
    while True:
        op = _before_movement(value).defining_op
        if not isinstance(op, Elementwise) or op.semantics != CAST:
            return _before_movement(value)
        value = op.operands[0]
