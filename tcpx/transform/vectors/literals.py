"""Constants that pieces need: splats of literals, and masks of the first lanes."""

from __future__ import annotations

import numpy as np

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.vector import Read
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType, ScalarType, TensorType, Type, VectorType, i1
from tcpx.target import LaneType
from tcpx.transform import new

TRUTHS = "true_lanes"
"""Name of the stored constant of true values; a masked read of it is a mask."""


def lane_type(type_: Type) -> LaneType | None:
    """The target's name of a scalar or 1-D vector type; None for any other."""
    if isinstance(type_, VectorType):
        return LaneType(type_.dtype.name, type_.shape[0]) if len(type_.shape) == 1 else None
    return LaneType(type_.name, 1) if isinstance(type_, ScalarType) else None


def literal_of(op: Operation | None) -> float | int | None:
    """The number that every element of a literal is; None for anything else."""
    return op.number if op is not None else None


def is_splat(op: Operation | None) -> bool:
    """Whether the operation repeats a scalar over the lanes of a 1-D vector."""
    return (
        isinstance(op, Structured)
        and op.is_movement
        and [type(v.type) for v in op.operands] == [ScalarType]
        and isinstance(op.result.type, VectorType)
        and len(op.result.type.shape) == 1
    )


def invariant_block(op: Operation) -> Block | None:
    """The outermost block whose values an operation may use for free: the function's, or that of the innermost
    parallel loop, since what crosses into a parallel region goes through memory."""
    for ancestor in op.ancestors():
        if isinstance(ancestor, FuncOp) or (isinstance(ancestor, Loop) and ancestor.is_parallel):
            return ancestor.regions[0]
    return None


def truths(rewriter: Rewriter, place: Operation) -> Value:
    """The stored constant of true values, at the top of the function of `place`; made on first use.

    A buffer if the function works on buffers, else a tensor.
    """
    func = rewriter.func_of(place)
    for op in func.body.ops:
        if op.stored_array == TRUTHS:
            return op.results[0]
    count = 64
    if TRUTHS not in rewriter.module.constants:
        rewriter.add_constant(TRUTHS, np.ones(count, dtype=np.bool_))
    on_buffers = any(isinstance(a.type, BufferType) for a in func.args)
    type_ = BufferType((count,), i1, (1,), "constant") if on_buffers else TensorType((count,), i1)
    return rewriter.insert(new.stored(TRUTHS, type_), InsertPoint.start(func.body), TRUTHS).result


def mask_read(source: Value, count: Dim, lanes: int) -> Operation:
    """A detached mask of which the first `count` lanes are true; a scalar for one lane."""
    if lanes == 1:
        return Read.of(source, Tile((0,), (count,), dropped=(0,)), i1)
    return Read.of(source, Tile((0,), (count,)), VectorType((lanes,), i1))
