"""Reductions in the dtype in which they accumulate, before any step of a schedule."""

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Module, Operation, Value
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, TensorType, dtype_of, like, shape_of
from tcpx.transform import new


def widen_accumulators(rewriter: Rewriter, module: Module) -> None:
    """Let each operation on tensors that accumulates in another dtype than that of its result have such a result."""
    for func in module.funcs.values():
        for op in list(func.walk()):
            if isinstance(op, Structured):
                widen_accumulator(rewriter, op)


def widen_accumulator(rewriter: Rewriter, op: Structured) -> None:
    """Let an operation on tensors that accumulates in another dtype than that of its result have such a result, and
    cast that: then no tile rounds what it hands on. What it reads is cast to the dtype of the result first, as before.
    The operation keeps its name and its handles."""
    if Reduction(op).accumulators == op.acc_types or not all(isinstance(r.type, TensorType) for r in op.results):
        return
    name = op.name

    def cast(value: Value, dtype: ScalarType) -> Value:
        made = new.cast(value, dtype) if dtype_of(value.type) != dtype else None
        return value if made is None else rewriter.insert(made, InsertPoint.before(op), value.name).result

    inputs = [cast(value, dtype_of(op.results[0].type)) for value in op.inputs]
    inits = [cast(value, dtype) for value, dtype in zip(op.inits, Reduction(op).accumulators, strict=False)]
    types = [like(r.type, shape_of(r.type), t) for r, t in zip(op.results, Reduction(op).accumulators, strict=True)]
    made: Operation = type(op)([*inputs, *inits], types, op.attributes, location=op.location)
    made.stand_for(op)
    rewriter.insert(made, InsertPoint.before(op), name)
    narrow = [cast(value, dtype_of(old.type)) for value, old in zip(made.results, op.results, strict=True)]
    rewriter.continue_as(op, made)
    rewriter.replace_op(op, narrow)
    rewriter.rename(made, name)
