"""The scalar body of a loop nest on many points of its iteration space at once, with the results of one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
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
from tcpx.payload.sizes import CeilDiv, FloorDiv, Max, Min, Mod, Operand, Size, Symbol

Indices = npt.NDArray[np.int64]
ELEMENTS: Final = 1 << 15
"""Of a value of the body that are computed at once, where one index of the first parallel dim has no more: they fit
the caches."""


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
    rows = max(1, ELEMENTS * len(result) // result.size) if result.ndim else 1
    for first in range(0, len(result) if result.ndim else 1, rows):
        part = (slice(first, first + rows),) if result.ndim else ()
        result[part] = _run_part(body, iterators, extents, operands, result[part], first, result_map, evaluation)
    return result


def _run_part(
    body: Block,
    iterators: Sequence[Iterator],
    extents: Mapping[str, int],
    operands: Sequence[tuple[Array, IndexingMap]],
    result: Array,
    first: int,
    result_map: IndexingMap,
    evaluation: Evaluation,
) -> Array:
    """A part of the result, from index `first` of its first dim on."""
    parallel = [name for expression in result_map for name in map_symbols(expression)]
    reduced = {it.name: extents[it.name] for it in iterators if it.is_reduction}
    accumulator = body.args[len(operands)] if len(body.args) > len(operands) else None
    ahead, after = _by_dependence(body, accumulator)
    last = body.ops[-1].operands[0]
    wanted = {v for op in after for v in op.operands} | {last}
    block, points = max(1, ELEMENTS // result.size), prod(reduced.values())
    for start in range(0, points, block):
        stop = min(start + block, points)
        at = _coordinates(parallel, result.shape, first, reduced, range(start, stop))
        with evaluation.batched((stop - start, *result.shape)):
            for formal, (array, indexing_map) in zip(body.args, operands, strict=False):
                evaluation.values[formal] = _gathered(array, indexing_map, at, evaluation.batch)
            for op in ahead:
                evaluation.run(op)
        blocks = {v: evaluation.values[v] for v in wanted if v is not accumulator and v.defining_op not in after}
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


def _coordinates(
    parallel: Sequence[str], shape: tuple[int, ...], first: int, reduced: Mapping[str, int], points: range
) -> dict[str, Indices]:
    """The values of each dim, for some reduction points (by number, the last dim varies fastest) and a part of the
    result of this shape, from `first` of its first dim on: arrays that broadcast to [points, *shape]."""
    rank = 1 + len(parallel)
    found: dict[str, Indices] = {}
    for k, (name, extent) in enumerate(zip(parallel, shape, strict=True)):
        values = np.arange(extent) + (first if k == 0 else 0)
        found[name] = values.reshape([-1 if d == 1 + k else 1 for d in range(rank)])
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
