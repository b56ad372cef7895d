"""Which scalar loops a C compiler turns into vectors by itself (gcc -O3, without fast-math)."""

import re
from collections.abc import Mapping
from typing import Final

from tcpx.costs.visits import Run
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import evaluate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import VectorType, dtype_of

_FUNCTION: Final = re.compile(r"([a-z_0-9]+)\(")
INLINE: Final = {
    "abs", "bitcast", "cast", "ceil", "clamp", "complement", "fma", "floor", "isinf", "isnan", "max", "min", "neg",
    "reciprocal", "relu", "round", "round_away", "rsqrt", "scale2", "select", "shift_left", "shift_right", "sign",
    "sqrt", "trunc",
}  # fmt: skip
"""The functions that are instructions."""
FEWEST: Final = 8
"""Iterations below which it does not pay."""


def is_vectorized(run: Run) -> bool:
    """Whether the iterations of the innermost loop of a run are independent, lie side by side and are simple enough."""
    loop = run.trips[-1].loop if run.trips else None
    if not isinstance(loop, Loop) or run.trips[-1].count < FEWEST or run.ops[0].parent is not loop.body:
        return False
    if any(op.regions or isinstance(op, Bind) or op.callee is not None for op in loop.body.ops):
        return False
    accesses: dict[Value, Tile] = {}
    written: set[Value] = set()
    for op in run.ops:
        if isinstance(op, StYield) or not _is_simple(op):
            return False
        if isinstance(op, OnSubset):
            step = _step(op.subset, loop, run.sizes)
            if step not in (0, 1, -1) or (step == 0 and isinstance(op, Write)):
                return False
            if isinstance(op, Write):
                written.add(op.subset_of)
            known = accesses.setdefault(op.subset_of, op.subset)
            if known != op.subset and op.subset_of in written:
                return False
    return bool(written)


def calls_function(op: Operation) -> bool:
    """Whether an operation on single elements is a call of C's library."""
    if not isinstance(op, Elementwise) or not op.operands or not dtype_of(op.operands[0].type).is_float:
        return False
    return not {*_FUNCTION.findall(op.semantics)} <= INLINE


def _is_simple(op: Operation) -> bool:
    if any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results)):
        return False
    if isinstance(op, Elementwise) and op.operands:
        return not calls_function(op) and (dtype_of(op.result.type).is_float or "/" not in op.semantics)
    return not op.operands or isinstance(op, Read | Write)


def _step(tile: Tile, loop: Loop, sizes: Mapping[str, int]) -> int | None:
    """How far the next iteration is in the innermost dim; None where another dim moves."""
    name, first = loop.var.name, sizes[loop.var.name]
    moved = {**sizes, name: first + evaluate(loop.var.step, sizes)}
    steps = [evaluate(offset, moved) - evaluate(offset, sizes) for offset in tile.offsets]
    return None if any(steps[:-1]) else (steps[-1] if steps else 0)
