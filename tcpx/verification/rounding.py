"""How far two correct computations of a payload may differ by rounding alone.

Running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 3.3): a sum of
k terms, in any order, with or without FMA, has a relative error of at most gamma(k) = k u / (1 - k u), where u is half
the distance from 1 to the next number. Errors of operations that follow each other add up.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value
from tcpx.payload.ops.gml_st import Loop, trip_count
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import ScalarType, dtype_of

FUNCTION_ROUNDINGS: Final = 4
"""Roundings of a function such as `exp`, which is a sequence of instructions, not libm's."""
COMPUTATIONS: Final = 2
"""The kernel and the evaluator: each has an error of its own."""


def is_float(dtype: npt.DTypeLike) -> bool:
    """True for the dtypes that round, those of `ml_dtypes` included."""
    return np.issubdtype(dtype, np.floating) or np.dtype(dtype).name == "bfloat16"


def unit_roundoff(dtype: npt.DTypeLike) -> float:
    """Half the distance from 1 to the next number; 0 for integers and booleans."""
    return float(np.spacing(np.ones((), dtype))) / 2 if is_float(dtype) else 0.0


def gamma(operations: float, unit: float = unit_roundoff(np.float32)) -> float:
    """The relative error of so many roundings, each of at most `unit`; 1, all of the value, where that says nothing."""
    error = operations * unit
    return error / (1 - error) if error < 0.5 else 1.0


def relative_differences(module: Module, arrays: Sequence[Array]) -> tuple[float, ...]:
    """For each result, by how much two computations of it may differ, as a part of the largest magnitude: from the
    dtypes and the lengths of the reductions on the longest path to it. 0 for what no rounding reaches. Raises
    ArgumentError where the arrays tell no sizes."""
    errors = _of_function(module.main, bind_symbols(module.main, arrays))
    return tuple(COMPUTATIONS * gamma(error, 1.0) for error in errors)


def moved(arrays: Sequence[Array], seed: int = 0) -> tuple[tuple[Array, ...], float]:
    """The arrays with each float changed by about one rounding, up or down, and the relative size of that change: the
    largest of their dtypes; 0 where nothing is a float."""
    step = 2 * max((unit_roundoff(array.dtype) for array in arrays), default=0.0)
    generator = np.random.default_rng(seed)
    changed: list[Array] = []
    for array in arrays:
        if is_float(array.dtype):
            factor = 1 + step * generator.choice((-1.0, 1.0), array.shape)
            changed.append(np.asarray(array.astype(np.float64) * factor).astype(array.dtype))
        else:
            changed.append(array)
    return tuple(changed), step


def _of_function(func: FuncOp, sizes: Mapping[str, int]) -> list[float]:
    errors = _of_block(func.body, sizes)
    return [errors.get(value, 0.0) for value in func.returned]


def _of_block(block: Block, sizes: Mapping[str, int]) -> dict[Value, float]:
    """The relative error of each value, in units of 1; none stands for what comes from outside."""
    errors: dict[Value, float] = {}
    for op in block.ops:
        read = {value for inner in op.walk() for value in inner.operands}
        before = max((errors.get(value, 0.0) for value in read), default=0.0)
        own = _of_call(op, sizes) if Calling(op).callee is not None else [_of_operation(op, sizes)] * len(op.results)
        errors |= {value: before + error for value, error in zip(op.results, own, strict=True)}
    return errors


def _of_call(op: Operation, sizes: Mapping[str, int]) -> list[float]:
    called = Calling(op).callee
    if called is None:
        return []
    return _of_function(called, {symbol.name: evaluate(size, sizes) for symbol, size in Calling(op).binding.items()})


def _of_operation(op: Operation, sizes: Mapping[str, int]) -> float:
    """The error that an operation adds. Every iteration of a loop counts as the first one, which is the largest where
    tiles get shorter."""
    if isinstance(op, Loop):
        inside = {**sizes, op.var.name: evaluate(op.var.lower, sizes)}
        return max(0, evaluate(trip_count(op), inside)) * _largest(op.body, inside)
    if op.regions and not isinstance(op, Structured):
        return max(_largest(region, sizes) for region in op.regions)
    if "subset" in op.attributes or (isinstance(op, Structured) and op.is_movement):
        return 0.0
    steps = max(1, sum(len(region.ops) - 1 for region in op.regions))
    return steps * (_length(op, sizes) + FUNCTION_ROUNDINGS) * max(map(unit_roundoff, _dtypes(op)), default=0.0)


def _largest(block: Block, sizes: Mapping[str, int]) -> float:
    return max(_of_block(block, sizes).values(), default=0.0)


def _length(op: Operation, sizes: Mapping[str, int]) -> int:
    """How many elements one element of the result is computed from, along the dims that are reduced."""
    if not isinstance(op, Tileable):
        return 0
    extents = zip(op.iterators(), op.domain(), strict=True)
    reduced = [evaluate(extent, sizes) for it, extent in extents if it.is_reduction or it.is_whole]
    return prod(reduced) if reduced else 0


def _dtypes(op: Operation) -> list[np.dtype[np.generic]]:
    types: list[ScalarType] = [dtype_of(value.type) for value in op.results]
    return [dtype.numpy for dtype in types]
