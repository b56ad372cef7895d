"""How far the core overlaps chains of results that begin anew each time that a loop is entered."""

from collections.abc import Iterator, Mapping
from math import inf

from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset
from tcpx.payload.ops.memory import memory_of
from tcpx.payload.runs import iterations
from tcpx.payload.types import BufferType


def part_alone(loop: Loop, number: int, waiting: float, window: int, sizes: Mapping[str, int]) -> float:
    """The part of the cycles of what a loop carries in this place that remains, as chains of its next runs overlap it.

    An iteration has so many `waiting` instructions, and so many wait at once in the window of the core. While a chain
    of n of them takes c cycles, the core takes up as many of those that follow as its window w has places: c is the
    time of n + w of them.
    """
    start, chain = loop.operands[number], waiting * _count(loop, sizes)
    while (around := _carrying(start)) is not None:
        loop, start = around, around.operands[around.destinations.index(start)]
        chain *= _count(loop, sizes)
    runs = _independent_runs(loop, sizes)
    return max(1 / runs, chain / (chain + window)) if 0 < chain < inf else 1.0


def _count(loop: Loop, sizes: Mapping[str, int]) -> float:
    """How many iterations it has; as if it had no end where only the elements tell."""
    return len(iterations(loop, sizes)) if loop.is_counted else inf


def _carrying(value: Value) -> Loop | None:
    """The loop that carries a value that is no memory."""
    around = value.owner.parent if isinstance(value.owner, Block) else None
    return around if isinstance(around, Loop) and not isinstance(value.type, BufferType) else None


def _independent_runs(loop: Loop, sizes: Mapping[str, int]) -> float:
    """How many runs of a loop follow each other of which none needs what another one gives: 1 if that is not known."""
    inside = set(loop.walk())
    pending = [value for op in inside for value in op.operands if _is_outside(value, inside)]
    sources = set[Operation]()
    while pending:
        value = pending.pop()
        op = value.defining_op
        if _carrying(value) is not None or (op is not None and op.regions):
            return 1.0
        if op is not None and op not in sources:
            sources.add(op)
            pending += op.operands
    read = {memory_of(op.subset_of) for op in inside | sources if isinstance(op, OnSubset) and op.results}
    runs = 1.0
    for outer in _loops_round(loop):
        written = {memory_of(op.subset_of) for op in outer.walk() if isinstance(op, OnSubset) and not op.results}
        if read & written:
            break
        runs *= len(iterations(outer, sizes))
    return max(1.0, runs)


def _is_outside(value: Value, inside: set[Operation]) -> bool:
    made_by = value.owner.parent if isinstance(value.owner, Block) else value.owner
    return made_by not in inside


def _loops_round(loop: Loop) -> Iterator[Loop]:
    """The loops round a loop, the innermost first."""
    op = loop.parent_op
    while op is not None:
        if isinstance(op, Loop):
            yield op
        op = op.parent_op
