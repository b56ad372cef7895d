"""Which scalar loops a C compiler turns into vectors by itself (gcc -O3, without fast-math)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.costs.compiler_moves import distance, is_known_count
from tcpx.costs.footprint import Trip
from tcpx.costs.visits import Run
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import evaluate
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import VectorType, dtype_of

_FUNCTION: Final = re.compile(r"([a-z_0-9]+)\(")
INLINE: Final = {
    "abs", "bitcast", "cast", "ceil", "clamp", "complement", "fma", "floor", "isinf", "isnan", "max", "min", "neg",
    "reciprocal", "relu", "round", "round_away", "rsqrt", "scale2", "select", "shift_left", "shift_right", "sign",
    "sqrt", "trunc",
}  # fmt: skip
"""The functions that are instructions."""
_INTERLEAVED: Final = (2, 4, 8)
"""How many elements of a vector each it stores in turn."""
_CHOICES: Final = {"clamp", "max", "min", "relu", "select", "sign"}
"""Those of which one of several values is the result."""
_PEELED: Final = 200
"""Instructions of a loop that is unrolled (`max-completely-peeled-insns` of gcc)."""
FEWEST: Final = 8
"""Iterations below which it does not pay."""


def compiled_lanes(run: Run, trips: tuple[Trip, ...]) -> int:
    """How many iterations of the innermost loop of a run, or of the loop round it, the C compiler computes at once;
    `trips` are its loops in the order in which the compiler has them."""
    loop = run.loop
    if loop is None or any(
        op.regions or isinstance(op, Bind) or Calling(op).callee is not None for op in loop.body.ops
    ):
        return 1
    typed = (op for op in run.ops if not isinstance(op, StYield) and (op.results or op.operands))
    lanes = run.target.vector_bits // max(map(_bits, typed), default=run.target.vector_bits)
    if lanes == 1:
        return 1
    inner = trips[-1].loop
    is_vectorized = (
        (isinstance(inner, Loop) and _is_vectorized(run._replace(trips=trips), inner))
        or _is_vectorized_around(run, loop, lanes)
        or _is_interleaved(run, loop, lanes)
    )
    return lanes if is_vectorized else 1


def computed_alone(run: Run, lanes: int, inner: Trip) -> int:
    """How many iterations of a loop that the C compiler computes with so many lanes are left over: after vectors, and
    one of half as many lanes. Few of a known number without choices are unrolled, and share vectors again. `inner` is
    the loop that the compiler has innermost."""
    loop = run.loop
    if loop is None or lanes == 1 or inner.loop is not loop or inner.count < FEWEST:
        return 0
    rest = inner.count % lanes
    rest -= lanes // 2 if rest >= lanes // 2 else 0
    is_unrolled = is_known_count(loop) and rest * len(run.ops) <= _PEELED and not any(map(_chooses, run.ops))
    return 0 if is_unrolled else rest


def _chooses(op: Operation) -> bool:
    """Whether the C compiler makes branches of an operation on single elements."""
    return isinstance(op, Elementwise) and not _CHOICES.isdisjoint(_FUNCTION.findall(op.semantics))


def _bits(op: Operation) -> int:
    return dtype_of((op.results[0] if op.results else op.operands[0]).type).bits


def _is_vectorized(run: Run, loop: Loop) -> bool:
    """Whether the iterations of a loop are independent, lie side by side and are simple enough."""
    return run.trips[-1].count >= FEWEST and all(map(_is_simple, run.ops)) and _lie_side_by_side(run.ops, loop, run)


def _is_vectorized_around(run: Run, loop: Loop, lanes: int) -> bool:
    """The same of the loop round a loop that carries one number and stores nothing."""
    outer = _loop_round(run, loop, lanes)
    if outer is None:
        return False
    beside = [op for op in outer.body.ops if op is not loop]
    inner = [op for op in run.ops if not isinstance(op, StYield)]
    if any(isinstance(op, Write) for op in inner) or len({_bits(op) for op in inner}) > 1:
        return False
    if not all(map(_is_simple, (*inner, *beside))):
        return False
    at = {**run.sizes, loop.var.name: evaluate(loop.var.lower, run.sizes)}
    return _lie_side_by_side((*inner, *beside), outer, run._replace(sizes=at))


def _loop_round(run: Run, loop: Loop, lanes: int) -> Loop | None:
    """The loop that has a loop in its body, if it runs at least as often as a vector has lanes."""
    if len(run.trips) < 2:
        return None
    trip = run.trips[len(run.trips) - 2]
    is_long = isinstance(trip.loop, Loop) and trip.count >= lanes and loop.parent is trip.loop.body
    return trip.loop if isinstance(trip.loop, Loop) and is_long else None


def _is_interleaved(run: Run, loop: Loop, lanes: int) -> bool:
    """Whether a loop of few iterations, which are unrolled, stores elements that the loop round it reads side by
    side."""
    outer = _loop_round(run, loop, lanes)
    count = run.trips[-1].count
    if outer is None or count not in _INTERLEAVED or loop.results:
        return False
    accesses = [op for op in run.ops if isinstance(op, OnSubset) and not isinstance(op, StYield)]
    others = [op for op in run.ops if not isinstance(op, StYield)]
    return all(map(_is_simple, others)) and all(
        step_of(op.subset, loop, run.sizes) == 1 and distance(op, outer, run.sizes) == count
        if isinstance(op, Write)
        else step_of(op.subset, outer, run.sizes) in (0, 1)
        for op in accesses
    )


def _lie_side_by_side(ops: Sequence[Operation], loop: Loop, run: Run) -> bool:
    """Whether what is read in an iteration of a loop is one element, or next to that of the iteration before, and what
    is written next to it, and not read elsewhere."""
    accesses: dict[Value, Tile] = {}
    written: set[Value] = set()
    for op in ops:
        if isinstance(op, OnSubset):
            step = step_of(op.subset, loop, run.sizes)
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
    if (
        isinstance(op, StYield)
        or op.regions
        or any(isinstance(value.type, VectorType) for value in (*op.operands, *op.results))
    ):
        return False
    if isinstance(op, Elementwise) and op.operands:
        return not calls_function(op) and (dtype_of(op.result.type).is_float or "/" not in op.semantics)
    return not op.operands or isinstance(op, Read | Write)


def step_of(tile: Tile, loop: Loop, sizes: Mapping[str, int]) -> int | None:
    """How far the next iteration is in the innermost dim; None where another dim moves."""
    name, first = loop.var.name, sizes[loop.var.name]
    moved = {**sizes, name: first + evaluate(loop.var.step, sizes)}
    steps = [evaluate(offset, moved) - evaluate(offset, sizes) for offset in tile.offsets]
    return None if any(steps[:-1]) else (steps[-1] if steps else 0)
