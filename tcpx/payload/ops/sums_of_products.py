"""Sums of products as matrix products of NumPy, which add in any order and take a hundredth of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.indexing_maps import IndexingMap, map_coefficients, map_dims, map_symbols
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.batched_body import LoopNest, by_dependence
from tcpx.payload.ops.elementwise import Add, Fma, Mul
from tcpx.payload.types import dtype_of
from tcpx.records import frozen

ELEMENTS: Final = 1 << 24
"""Of a factor that is a matrix of its own, such as the windows of an image, at most: 64 MiB of f32."""
EXACT: Final = 1 << 53
"""Integers up to here are numbers of f64."""


def sum_of_products(
    lhs: Array, lhs_dims: Sequence[str], rhs: Array, rhs_dims: Sequence[str], wanted: Sequence[str]
) -> Array:
    """The products of two arrays, added up over the dims that are not `wanted`, with these dims, in their order and of
    the dtype of both. `lhs_dims` and `rhs_dims` name the axes, each once; both have every dim that is not `wanted`."""
    both = [name for name in wanted if name in lhs_dims and name in rhs_dims]
    rows = [name for name in wanted if name not in rhs_dims]
    columns = [name for name in wanted if name not in lhs_dims]
    summed = [name for name in lhs_dims if name not in wanted]
    extents = {**dict(zip(lhs_dims, lhs.shape, strict=True)), **dict(zip(rhs_dims, rhs.shape, strict=True))}

    def matrices(array: Array, names: Sequence[str], *sides: Sequence[str]) -> Array:
        placed = np.transpose(array, [names.index(name) for side in (both, *sides) for name in side])
        return placed.reshape([*(extents[n] for n in both), *(prod(extents[n] for n in side) for side in sides)])

    made = _product(matrices(lhs, lhs_dims, rows, summed), matrices(rhs, rhs_dims, summed, columns))
    order = [*both, *rows, *columns]
    return made.reshape([extents[n] for n in order]).transpose([order.index(name) for name in wanted])


def _product(lhs: Array, rhs: Array) -> Array:
    """The matrix products. NumPy has fast ones for floats: integers are floats there if these are exact."""
    if lhs.dtype.kind in "iu" and lhs.size and rhs.size:
        largest = [max(int(array.max()), -int(array.min())) for array in (lhs, rhs)]
        if prod(largest) * lhs.shape[-1] < EXACT:
            return np.matmul(lhs.astype(np.float64), rhs.astype(np.float64)).astype(np.int64).astype(lhs.dtype)
    return np.asarray(np.matmul(lhs, rhs))


def of_nest(nest: LoopNest, start: Array, result_map: IndexingMap) -> Array | None:
    """`start`, which is not changed, and what a loop nest adds to it; None for one that does more than add up products
    of numbers that it reads at linear places, or in a dtype of less than 32 bits."""
    found, names = _Product.of(nest), map_dims(result_map)
    if found is None or names is None or start.shape != tuple(nest.extents[name] for name in names):
        return None
    sides = [_Factor.of(nest, value, found.ops) for value in found.factors]
    lhs, rhs = sides
    if lhs is None or rhs is None or {*lhs.dims, *rhs.dims} != {*nest.extents}:
        return None
    total = np.empty_like(start)
    with np.errstate(all="ignore"):
        _add_up((lhs, rhs), names, nest, {name: slice(0, extent) for name, extent in nest.extents.items()}, total)
        return np.add(start, total, dtype=start.dtype)


def _add_up(
    factors: Sequence[_Factor], names: Sequence[str], nest: LoopNest, part: Mapping[str, slice], total: Array
) -> None:
    """Set a part of `total`, whose dims are `names`: in halves of the longest of them, until the factors are short."""
    extents = {name: index.stop - index.start for name, index in part.items()}
    longest = max(names, key=lambda name: extents[name], default="")
    elements = max(prod(extents[name] for name in factor.dims) for factor in factors)
    if elements > ELEMENTS and longest and extents[longest] > 1:
        first, stop = part[longest].start, part[longest].stop
        for half in (slice(first, (first + stop) // 2), slice((first + stop) // 2, stop)):
            _add_up(factors, names, nest, {**part, longest: half}, total)
        return
    lhs, rhs = (factor.elements(part, nest.evaluation) for factor in factors)
    made = sum_of_products(lhs, factors[0].dims, rhs, factors[1].dims, names)
    total[tuple(part[name] for name in names)] = made
    nest.evaluation.note_points(prod(extents.values()))


@frozen
class _Product:
    """The factors of what a body adds to its accumulator, and the operations that compute them."""

    factors: Sequence[Value]
    ops: Sequence[Operation]

    @staticmethod
    def of(nest: LoopNest) -> _Product | None:
        body, *others = nest.blocks
        accumulators = body.args[len(nest.operands) + len(nest.positions) :]
        if others or len(accumulators) != 1 or nest.outside is not None:
            return None
        ahead, after = by_dependence(body, accumulators)
        factors = _factors(body, accumulators[0], after)
        if factors is None or not _is_wide(dtype_of(accumulators[0].type).numpy):
            return None
        return _Product(factors, ahead)


def _factors(body: Block, accumulator: Value, after: Sequence[Operation]) -> Sequence[Value] | None:
    """Those of the product that a body adds to its accumulator, which it does nothing else with."""
    if len(after) != 1 or [*body.ops[-1].operands] != [after[0].result]:
        return None
    match after[0]:
        case Fma(operands=(a, b, c)) if c is accumulator and a is not c and b is not c:
            return a, b
        case Add(operands=(a, b)) if a is not b:
            made = (b if a is accumulator else a).defining_op
            return tuple(made.operands) if isinstance(made, Mul) else None
        case _:
            return None


def _is_wide(dtype: np.dtype[np.generic]) -> bool:
    """Sums of less than 32 bits are rounded, or wrap around, after each product."""
    return dtype.kind in "fiu" and dtype.itemsize >= 4


@frozen
class _Factor:
    """A factor over some dims: what `ops` compute from the `read` elements, of each an array with an axis for every
    dim."""

    value: Value
    dims: Sequence[str]
    read: Mapping[Value, Array]
    ops: Sequence[Operation]

    @staticmethod
    def of(nest: LoopNest, value: Value, ahead: Sequence[Operation]) -> _Factor | None:
        """None where it reads something else than elements at linear places."""
        needed, ops = {value}, list[Operation]()
        for op in reversed(ahead):
            if not needed.isdisjoint(op.results):
                ops.insert(0, op)
                needed.update(op.operands)
        formals = nest.blocks[0].args
        if any(formal in needed for formal in formals[len(nest.operands) :]):
            return None
        operands = [held for formal, held in zip(formals, nest.operands, strict=False) if formal in needed]
        reading = {name for _, indexing_map in operands for e in indexing_map for name in map_symbols(e)}
        summed = {it.name for it in nest.iterators if it.is_reduction}
        dims = [name for name in nest.extents if name in reading | summed]
        if not reading <= {*nest.extents}:
            return None
        arrays = [_window(array, indexing_map, dims, nest.extents) for array, indexing_map in operands]
        known = [array for array in arrays if array is not None]
        if len(known) < len(arrays):
            return None
        read = zip((formal for formal in formals if formal in needed), known, strict=True)
        return _Factor(value, dims, dict(read), ops)

    def elements(self, part: Mapping[str, slice], evaluation: Evaluation) -> Array:
        """Those at a part of the dims."""
        index = tuple(part[name] for name in self.dims)
        evaluation.values |= {formal: array[index] for formal, array in self.read.items()}
        with evaluation.batched(tuple(held.stop - held.start for held in index)):
            for op in self.ops:
                evaluation.run(op)
            return np.broadcast_to(evaluation.values[self.value], evaluation.batch)


def _window(
    array: Array, indexing_map: IndexingMap, dims: Sequence[str], extents: Mapping[str, int]
) -> npt.NDArray[np.generic] | None:
    """The array as the iterations see it, with an axis for each dim, over the same memory; None where a place is not
    linear in the dims, or outside."""
    if not all(extents[name] for name in dims):
        return None
    strides, first = dict.fromkeys(dims, 0), list[slice]()
    for expression, extent, stride in zip(indexing_map, array.shape, array.strides, strict=True):
        coefficients = map_coefficients(expression)
        if coefficients is None:
            return None
        start = expression if isinstance(expression, int) else expression.constant
        reach = [c * (extents[name] - 1) for name, c in coefficients.items()]
        if start + sum(min(0, r) for r in reach) < 0 or start + sum(max(0, r) for r in reach) >= extent:
            return None
        first.append(slice(start, None))
        for name, c in coefficients.items():
            strides[name] += c * stride
    shape = [extents[name] for name in dims]
    return np.lib.stride_tricks.as_strided(array[tuple(first)], shape, list(strides.values()), writeable=False)
