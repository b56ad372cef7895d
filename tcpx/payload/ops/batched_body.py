"""The scalar body of a loop nest on many points of its iteration space at once, with the results of one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.indexing_maps import IndexingMap, map_symbols
from tcpx.payload.interfaces import Elementwise, Iterator
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.elementwise import Arithmetic
from tcpx.payload.sizes import CeilDiv, FloorDiv, Max, Min, Mod, Operand, Size, Symbol
from tcpx.payload.types import dtype_of

Indices = npt.NDArray[np.int64]
ELEMENTS: Final = 1 << 15
"""Of a value of the body that are computed at once, at most: they fit the caches."""


def is_batchable(body: Block) -> bool:
    """Whether every operation of the body computes each element from those at the same place, and from nothing else."""
    inside = {*body.args, *(result for op in body.ops for result in op.results)}
    return all(
        (op.is_terminator or isinstance(op, Elementwise | Const)) and inside.issuperset(op.operands) for op in body.ops
    )


def run_batched(
    body: Block,
    iterators: Sequence[Iterator],
    extents: Mapping[str, int],
    operands: Sequence[tuple[Array, IndexingMap]],
    result: Array,
    result_map: IndexingMap,
    evaluation: Evaluation,
) -> Array:
    """`result` after the body has run on every point; it holds what accumulators start with, and is not changed.

    Parts of the parallel dims are computed at once. The reduction dims go one by one, in the order of the loop nest, so
    that every element is accumulated, and rounded, in that order; what does not depend on the accumulator is computed
    for a block of them at once. `result_map` names each parallel dim once.
    """
    points = prod(extents[it.name] for it in iterators if it.is_reduction)
    if not result.size or not points:
        return result
    result = np.array(result)
    for part in _parts(result.shape):
        index = tuple(slice(r.start, r.stop) for r in part)
        result[index] = _run_part(body, iterators, extents, operands, result[index], part, result_map, evaluation)
    return result


def _parts(shape: Sequence[int]) -> Iterable[tuple[range, ...]]:
    """The parts of the parallel dims, of at most `ELEMENTS` points each: the last dims whole, one cut, the first one
    index each."""
    steps = [max(1, ELEMENTS // prod(shape[k + 1 :])) for k in range(len(shape))]
    cut = [[range(n)[k : k + step] for k in range(0, n, step)] for n, step in zip(shape, steps, strict=True)]
    return product(*cut)


def _run_part(
    body: Block,
    iterators: Sequence[Iterator],
    extents: Mapping[str, int],
    operands: Sequence[tuple[Array, IndexingMap]],
    result: Array,
    part: Sequence[range],
    result_map: IndexingMap,
    evaluation: Evaluation,
) -> Array:
    """The part of the result at these indices of its dims; `result` holds what its accumulators start with."""
    names = [name for expression in result_map for name in map_symbols(expression)]
    parallel = dict(zip(names, part, strict=True))
    reduced = {it.name: extents[it.name] for it in iterators if it.is_reduction}
    accumulator = body.args[len(operands)] if len(body.args) > len(operands) else None
    ahead, after = _by_dependence(body, accumulator)
    last = body.ops[-1].operands[0]
    summand = _summand(after, accumulator, last)
    wanted = {v for op in after for v in op.operands} | {last}
    block, points = max(1, ELEMENTS // result.size), prod(reduced.values())
    for start in range(0, points, block):
        stop = min(start + block, points)
        at = _coordinates(parallel, reduced, range(start, stop))
        with evaluation.batched((stop - start, *result.shape)):
            for formal, (array, indexing_map) in zip(body.args, operands, strict=False):
                evaluation.values[formal] = _gathered(array, indexing_map, at, evaluation.batch)
            for op in ahead:
                evaluation.run(op)
        blocks = {v: evaluation.values[v] for v in wanted if v is not accumulator and v.defining_op not in after}
        if summand is not None and stop - start > 1:
            combiner, value = summand
            values = np.concatenate([np.asarray(result)[np.newaxis], blocks[value]])
            result = combiner.ufunc.accumulate(values, dtype=values.dtype)[-1]
        else:
            with evaluation.batched(result.shape):
                for k in range(stop - start):
                    evaluation.values |= {v: values[k] for v, values in blocks.items()}
                    if accumulator is not None:
                        evaluation.values[accumulator] = result
                    for op in after:
                        evaluation.run(op)
                    result = evaluation.values[last]
        evaluation.note_points((stop - start) * result.size)
    return result


def _summand(
    after: Sequence[Operation], accumulator: Value | None, last: Value
) -> tuple[type[Arithmetic], Value] | None:
    """The combiner and what it adds, where the body does nothing else with the accumulator: then NumPy accumulates, in
    the same order, rounded as often."""
    op = after[0] if len(after) == 1 else None
    if not isinstance(op, Arithmetic) or op.result is not last or op.neutral_of(dtype_of(last.type)) is None:
        return None
    others = [v for v in op.operands if v is not accumulator]
    return (type(op), others[0]) if len(others) == 1 else None


def _by_dependence(body: Block, accumulator: Value | None) -> tuple[list[Operation], list[Operation]]:
    """The operations of a body that do not depend on the accumulator, and those that do."""
    dependent = {accumulator}
    ahead: list[Operation] = []
    after: list[Operation] = []
    for op in body.ops[:-1]:
        if dependent.isdisjoint(op.operands):
            ahead.append(op)
        else:
            after.append(op)
            dependent.update(op.results)
    return ahead, after


def _coordinates(parallel: Mapping[str, range], reduced: Mapping[str, int], points: range) -> dict[str, Indices]:
    """The values of each dim, for some reduction points (by number, the last dim varies fastest) and these indices of
    the parallel dims: arrays that broadcast to [points, *parallel]."""
    rank = 1 + len(parallel)
    found: dict[str, Indices] = {}
    for k, (name, indices) in enumerate(parallel.items()):
        found[name] = np.arange(indices.start, indices.stop).reshape([-1 if d == 1 + k else 1 for d in range(rank)])
    numbers: Indices = np.arange(points.start, points.stop).reshape([-1] + [1] * len(parallel))
    for name, extent in reversed([*reduced.items()]):
        numbers, found[name] = np.divmod(numbers, extent)
    return found


def _gathered(array: Array, indexing_map: IndexingMap, at: Mapping[str, Indices], shape: tuple[int, ...]) -> Array:
    """The elements that the points read, as an array of `shape`, [points, *parallel]."""
    index = tuple(e if isinstance(e, int) else _indices(e, at) for e in indexing_map)
    return np.broadcast_to(np.asarray(array[index]), shape)


def _indices(expression: Operand, at: Mapping[str, Indices]) -> Indices:
    """`evaluate` of an indexing expression, for arrays of values of its dims."""
    match expression:
        case int():
            return np.asarray(expression)
        case Symbol():
            return at[expression.name]
        case Size():
            terms = (c * reduce(mul, (_indices(atom, at) for atom in atoms)) for atoms, c in expression.terms)
            return np.asarray(sum(terms, start=np.asarray(expression.constant)))
        case Min() | Max():
            choose = np.minimum if isinstance(expression, Min) else np.maximum
            return reduce(choose, (_indices(argument, at) for argument in expression.args))
        case FloorDiv() | CeilDiv() | Mod():
            lhs, rhs = _indices(expression.lhs, at), np.maximum(1, _indices(expression.rhs, at))
            if isinstance(expression, Mod):
                return lhs % rhs
            return lhs // rhs if isinstance(expression, FloorDiv) else -(-lhs // rhs)
        case _:
            raise TypeError(type(expression).__name__)
