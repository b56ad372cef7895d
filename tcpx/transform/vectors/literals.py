"""Constants that pieces need: splats of literals, numbers of lanes and truth values."""

from collections.abc import Sequence
from math import isfinite
from typing import Final

import numpy as np

from tcpx.payload.evaluator import Array
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import BufferType, ScalarType, TensorType, Type, VectorType, i1, row_major
from tcpx.target import LaneType
from tcpx.transform import new

MOST_LANES: Final = 64


def lane_type(type_: Type) -> LaneType | None:
    """The target's name of a scalar or 1-D vector type; None for any other."""
    if isinstance(type_, VectorType):
        return LaneType(type_.dtype.name, type_.shape[0]) if len(type_.shape) == 1 else None
    return LaneType(type_.name, 1) if isinstance(type_, ScalarType) else None


def literal_of(op: Operation | None) -> float | int | None:
    """The number that every element of a literal is; None for anything else."""
    return Constant(op).number if op is not None else None


def is_splat(op: Operation | None) -> bool:
    """Whether the operation repeats a scalar over the lanes of a 1-D vector."""
    return (
        isinstance(op, Structured)
        and op.is_movement
        and [type(v.type) for v in op.operands] == [ScalarType]
        and isinstance(op.result.type, VectorType)
        and len(op.result.type.shape) == 1
    )


def is_splat_of_literal(op: Operation | None) -> bool:
    """Whether the operation repeats a literal over the lanes of a 1-D vector."""
    return op is not None and is_splat(op) and literal_of(op.operands[0].defining_op) is not None


def known_element(source: Value, tile: Tile) -> float | int | None:
    """The element of a small stored constant that a tile of known place and size is; None of a larger constant, whose
    elements would fill registers and code, and of anything else."""
    op = source.defining_op
    func = op.func if op is not None else None
    name = Constant(op).stored_array if op is not None else None
    if func is None or func.module is None or name is None:
        return None
    array = func.module.constants.get(name)
    may_be_empty = any(not isinstance(size, int) or size < 1 for size in tile.sizes)
    if array is None or array.size > MOST_LANES or may_be_empty or not all(isinstance(at, int) for at in tile.offsets):
        return None
    number = array[tuple(at for at in tile.offsets if isinstance(at, int))].item()
    return number if isfinite(number) else None


def invariant_block(op: Operation) -> Block | None:
    """The outermost block whose values an operation may use for free: the function's, or that of the innermost
    parallel loop, since what crosses into a parallel region goes through memory."""
    for ancestor in op.ancestors():
        if isinstance(ancestor, FuncOp) or (isinstance(ancestor, Loop) and ancestor.is_parallel):
            return ancestor.regions[0]
    return None


def true_elements(rewriter: Rewriter, place: Operation, shape: Sequence[int]) -> Value:
    """A stored constant of true values in this shape; a part of it, read as a vector, is a mask."""
    return _stored(rewriter, place, f"true_{'x'.join(map(str, shape))}", np.ones(shape, dtype=np.bool_), i1)


def lane_numbers(rewriter: Rewriter, place: Operation, step: int, dtype: ScalarType) -> Value:
    """The stored constant 0, step, 2 * step, ... as integers of a type."""
    numbers = (np.arange(MOST_LANES) * step).astype(dtype.numpy)
    return _stored(rewriter, place, f"lane_numbers_{dtype}_{step}".replace("-", "n"), numbers, dtype)


def is_all_true(op: Operation | None) -> bool:
    """Whether an operation is a stored array of true values."""
    func = op.func if op is not None else None
    name = Constant(op).stored_array if op is not None else None
    if func is None or func.module is None or name is None:
        return False
    array = func.module.constants.get(name)
    return array is not None and array.dtype == np.bool_ and bool(array.all())


def _stored(rewriter: Rewriter, place: Operation, name: str, values: Array, dtype: ScalarType) -> Value:
    """A stored constant at the top of the function of `place`; made on first use.

    A buffer if the function works on buffers, else a tensor.
    """
    func, constants = rewriter.func_of(place), rewriter.module.constants
    known = constants.name_of(values)
    if known is None:
        while name in constants:
            name += "_"
        rewriter.add_constant(name, values)
    name = known or name
    for op in func.body.ops:
        if Constant(op).stored_array == name:
            return op.results[0]
    on_buffers = any(isinstance(a.type, BufferType) for a in func.args)
    shape = values.shape
    type_ = BufferType(shape, dtype, row_major(shape), "constant") if on_buffers else TensorType(shape, dtype)
    return rewriter.insert(new.stored(name, type_), InsertPoint.start(func.body), name).result
