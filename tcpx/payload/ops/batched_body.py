"""The scalar body of a loop nest on many points of its iteration space at once, with the results of one by one."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import mul
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.indexing_maps import IndexingMap, map_element, map_symbols
from tcpx.payload.interfaces import Elementwise, Iterator, Position
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.elementwise import Arithmetic
from tcpx.payload.sizes import Division, Extremum, FloorDiv, Min, Mod, Operand, Size, Symbol
from tcpx.payload.types import dtype_of
from tcpx.records import frozen

Indices = npt.NDArray[np.int64]
ELEMENTS: Final = 1 << 15
"""Of a value of the body that are computed at once, at most: they fit the caches."""


def is_batchable(body: Block) -> bool:
    """Whether every operation of the body computes each element from those at the same place, and from nothing else."""
    inside = {*body.args, *(result for op in body.ops for result in op.results)}
    return all(
        (op.is_terminator or isinstance(op, Elementwise | Const)) and inside.issuperset(op.operands) for op in body.ops
    )


@frozen
class LoopNest:
    """The blocks that run on each point, the body and what combines its results with accumulators if that is another;
    the extents of the dims; what the body reads of each operand, and of where it is."""

    blocks: Sequence[Block]
    iterators: Sequence[Iterator]
    extents: Mapping[str, int]
    operands: Sequence[tuple[Array, IndexingMap]]
    positions: Sequence[Position]
    evaluation: Evaluation
    clamps_indices: bool = False
    outside: float | int | None = None

    def run(self, results: Sequence[Array], result_maps: Sequence[IndexingMap]) -> tuple[Array, ...]:
        """`results` after the body has run on every point; they hold what accumulators start with, and are not changed.

        Parts of the parallel dims are computed at once. The reduction dims go one by one, in the order of the loop
        nest, so that every element is accumulated, and rounded, in that order; what does not depend on accumulators is
        computed for a block of them at once. Each of `result_maps` names each parallel dim once.
        """
        points = prod(self.extents[it.name] for it in self.iterators if it.is_reduction)
        if not results[0].size or not points:
            return tuple(results)
        names = [name for expression in result_maps[0] for name in map_symbols(expression)]
        orders = [[result_map.index(expression) for expression in result_maps[0]] for result_map in result_maps]
        copies = [np.array(result) for result in results]
        held = [np.transpose(copy, order) for copy, order in zip(copies, orders, strict=True)]  # in one order of dims
        for part in _parts(held[0].shape):
            index = tuple(slice(r.start, r.stop) for r in part)
            made = self._run_part([array[index] for array in held], dict(zip(names, part, strict=True)))
            for array, values in zip(held, made, strict=True):
                array[index] = values
        return tuple(copies)

    def _run_part(self, results: Sequence[Array], parallel: Mapping[str, range]) -> Sequence[Array]:
        """The part of the results at these indices of the parallel dims; `results` holds what accumulators start
        with."""
        evaluation, body, joining = self.evaluation, self.blocks[0], self.blocks[-1]
        shape, last, first = results[0].shape, joining.ops[-1].operands, list[Operation]()
        accumulators, lifted = body.args[len(self.operands) + len(self.positions) :], dict[Value, Value]()
        if joining is not body:
            first, accumulators = body.ops[:-1], joining.args[: len(results)]
            lifted = dict(zip(joining.args[len(results) :], body.ops[-1].operands, strict=True))
        ahead, after = by_dependence(joining, accumulators)
        summand = _summand(after, accumulators, last)
        wanted = {v for op in after for v in op.operands} | set(last)
        reduced = {it.name: self.extents[it.name] for it in self.iterators if it.is_reduction}
        block, points = max(1, ELEMENTS // results[0].size), prod(reduced.values())
        for start in range(0, points, block):
            stop = min(start + block, points)
            with evaluation.batched((stop - start, *shape)):
                self._enter(_coordinates(parallel, reduced, range(start, stop)))
                for op in first:
                    evaluation.run(op)
                evaluation.values |= {formal: evaluation.values[v] for formal, v in lifted.items()}
                for op in ahead:
                    evaluation.run(op)
            blocks = {v: evaluation.values[v] for v in wanted if v not in accumulators and v.defining_op not in after}
            if summand is not None and stop - start > 1:
                combiner, value = summand
                values = np.concatenate([np.asarray(results[0])[np.newaxis], blocks[value]])
                results = [combiner.ufunc.accumulate(values, dtype=values.dtype)[-1]]
            else:
                with evaluation.batched(shape):
                    for k in range(stop - start):
                        evaluation.values |= {v: values[k] for v, values in blocks.items()}
                        evaluation.values |= dict(zip(accumulators, results, strict=False))
                        for op in after:
                            evaluation.run(op)
                        results = tuple(evaluation.values[v] for v in last)
            evaluation.note_points((stop - start) * results[0].size)
        return results

    def _enter(self, at: Mapping[str, Indices]) -> None:
        """Give the body what it reads in the points at these values of the dims."""
        evaluation, formals = self.evaluation, self.blocks[0].args
        for formal, (array, indexing_map) in zip(formals, self.operands, strict=False):
            evaluation.values[formal] = np.broadcast_to(self._read(array, indexing_map, at), evaluation.batch)
        for formal, position in zip(formals[len(self.operands) :], self.positions, strict=False):
            index = _indices(position.expression, at) + evaluation.size(position.origin)
            evaluation.values[formal] = np.broadcast_to(index, evaluation.batch).astype(position.dtype.numpy)

    def _read(self, array: Array, indexing_map: IndexingMap, at: Mapping[str, Indices]) -> Array:
        """The elements that the points read."""
        index: list[Indices] = []
        for expression, extent in zip(indexing_map, array.shape, strict=True):
            operand = map_element(expression)
            if operand is None:
                index.append(_indices(expression, at))
            else:
                found = self._read(*self.operands[operand], at).astype(np.int64)
                index.append(checked_indices(found, extent, self.clamps_indices, self.outside is not None))
                if self.outside is not None and extent in index[-1]:
                    array = beyond(array, indexing_map, self.outside)
        return np.asarray(array[tuple(index)])


def _parts(shape: Sequence[int]) -> Iterable[tuple[range, ...]]:
    """The parts of the parallel dims, of at most `ELEMENTS` points each: the last dims whole, one cut, the first one
    index each."""
    steps = [max(1, ELEMENTS // prod(shape[k + 1 :])) for k in range(len(shape))]
    cut = [[range(n)[k : k + step] for k in range(0, n, step)] for n, step in zip(shape, steps, strict=True)]
    return product(*cut)


def _summand(
    after: Sequence[Operation], accumulators: Sequence[Value], last: Sequence[Value]
) -> tuple[type[Arithmetic], Value] | None:
    """The combiner and what it adds, where the body does nothing else with the only accumulator: then NumPy
    accumulates, in the same order, rounded as often."""
    op = after[0] if len(after) == 1 else None
    if not isinstance(op, Arithmetic) or [op.result] != list(last) or op.neutral_of(dtype_of(op.result.type)) is None:
        return None
    others = [v for v in op.operands if v not in accumulators]
    return (type(op), others[0]) if len(others) == 1 else None


def by_dependence(body: Block, accumulators: Sequence[Value]) -> tuple[list[Operation], list[Operation]]:
    """The operations of a block that do not depend on accumulators, and those that do."""
    dependent = set(accumulators)
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


def beyond(array: Array, indexing_map: IndexingMap, number: float | int) -> Array:
    """An array with a number behind its end, where elements are indices."""
    behind = [(0, 0 if map_element(expression) is None else 1) for expression in indexing_map]
    return np.pad(array, behind, constant_values=np.asarray(number).astype(array.dtype))


def checked_indices(indices: Indices, extent: int, clamps: bool, fills: bool = False) -> Indices:
    """Elements that are indices of a dim; the nearest ones there are, where they are clamped, or the extent for those
    outside, where that is allowed. Raises IndexError."""
    if fills:
        return np.where((indices < 0) | (indices >= extent), extent, indices)
    if clamps:
        return np.clip(indices, 0, extent - 1)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < extent:
        raise IndexError(f"{indices.min()} to {indices.max()} are no indices of a dim of extent {extent}")
    return indices


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
        case Extremum():
            choose = np.minimum if isinstance(expression, Min) else np.maximum
            return reduce(choose, (_indices(argument, at) for argument in expression.args))
        case Division():
            lhs, rhs = _indices(expression.lhs, at), np.maximum(1, _indices(expression.rhs, at))
            if isinstance(expression, Mod):
                return lhs % rhs
            return lhs // rhs if isinstance(expression, FloorDiv) else -(-lhs // rhs)
        case _:
            raise TypeError(type(expression).__name__)
