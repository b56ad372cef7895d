"""How often a kernel runs each block at given sizes: iterations of a loop that run other loops as often count as the
first one, equal calls of a block as one, branches as the side that is taken, the larger one where only the elements
tell."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tcpx.costs.footprint import Trip
from tcpx.costs.operations import sizes_in_callee, taken
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import Conditional, If, Loop, trip_count_is_one
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import bound, iterations
from tcpx.payload.sizes import evaluate
from tcpx.payload.sizes.traversal import variables
from tcpx.payload.traits.call import Calling
from tcpx.target import Target, target_at


class Statement(NamedTuple):
    """A nest or a copy of a function, by the name that it has in the C; "" is all else that is outside of nests."""

    function: str
    name: str


class Run(NamedTuple):
    """Operations of a block that follow each other, without loops, branches and calls: how many `times` a call of the
    kernel runs them, with which sizes, in which loops of the statement, the outermost first."""

    ops: tuple[Operation, ...]
    sizes: Mapping[str, int]
    times: int
    target: Target
    statement: Statement
    trips: tuple[Trip, ...]
    is_first: bool = True
    """Whether it stands for the first iterations of its loops; other runs of the same operations follow it."""
    loop: Loop | None = None
    """The innermost loop of which it is an iteration, with the branches and the loops of one iteration in that."""


def runs(func: FuncOp, sizes: Mapping[str, int], target: Target) -> Iterator[Run]:
    """What a call of a function runs, in functions that it calls, too."""
    visit = _Visit(target)
    yield from visit.block(func.body, sizes, 1, target_at(func, target), Statement(func.name, ""), ())


class _Visit:
    def __init__(self, kernel: Target) -> None:
        self.kernel = kernel

    def block(
        self,
        block: Block,
        sizes: Mapping[str, int],
        times: int,
        own: Target,
        at: Statement,
        trips: tuple[Trip, ...],
        is_first: bool = True,
    ) -> Iterator[Run]:
        straight: list[Operation] = []
        calls: dict[tuple[FuncOp, tuple[tuple[str, int], ...]], int] = {}
        for op in block.ops:
            if isinstance(op, Loop):
                yield from self.loop(op, sizes, times, own, at, trips, is_first)
            elif isinstance(op, Conditional):
                yield from self.block(taken(op, sizes, own), sizes, times, own, at, trips, is_first)
            elif (called := Calling(op).callee) is not None:
                call = called, tuple(sizes_in_callee(op, sizes).items())
                calls[call] = calls.get(call, 0) + 1
            else:
                sizes = bound(op, sizes) if isinstance(op, Bind) else sizes
                if Calling(op).work == 0 or at.name:
                    straight.append(op)
                else:
                    yield Run((op,), sizes, times, own, Statement(at.function, op.name or op.opcode), trips, is_first)
        for (callee, inner), number in calls.items():
            called, inside = target_at(callee, self.kernel), at if at.name else Statement(callee.name, "")
            yield from self.block(callee.body, dict(inner), number * times, called, inside, trips, is_first)
        if straight:
            yield Run(tuple(straight), sizes, times, own, at, trips, is_first)

    def loop(
        self,
        loop: Loop,
        sizes: Mapping[str, int],
        times: int,
        own: Target,
        at: Statement,
        trips: tuple[Trip, ...],
        is_first: bool = True,
    ) -> Iterator[Run]:
        values = iterations(loop, sizes)
        inside = Statement(at.function, at.name or loop.name or loop.opcode)
        for value, number in _alike(loop, values, sizes):
            trip = Trip(loop, loop.var.name, values[0], values[-1], len(values))
            inner = {**sizes, loop.var.name: value}
            first = is_first and value == values[0]
            if is_innermost(loop):
                ops, inner = _in_line(loop.body, inner, own)
                yield Run(ops, inner, times * number, own, inside, (*trips, trip), first, loop)
            else:
                yield from self.block(loop.body, inner, times * number, own, inside, (*trips, trip), first)


def is_innermost(loop: Loop) -> bool:
    """Whether a loop of several iterations has no such loop in it, and no call."""
    return not trip_count_is_one(loop) and not _has_loops(loop.body)


def _has_loops(block: Block) -> bool:
    return any(
        (isinstance(op, Loop) and not trip_count_is_one(op))
        or Calling(op).callee is not None
        or any(_has_loops(region) for region in op.regions)
        for op in block.ops
    )


def _in_line(block: Block, sizes: Mapping[str, int], target: Target) -> tuple[tuple[Operation, ...], Mapping[str, int]]:
    """The operations of one run of a block, with those of branches that are taken and of loops of one iteration, and
    the sizes that all of them see."""
    found: list[Operation] = []
    for op in block.ops:
        if isinstance(op, Loop):
            ops, sizes = _in_line(op.body, {**sizes, op.var.name: evaluate(op.var.lower, sizes)}, target)
            found += ops
        elif isinstance(op, Conditional):
            ops, sizes = _in_line(taken(op, sizes, target), sizes, target)
            found += ops
        else:
            sizes = bound(op, sizes) if isinstance(op, Bind) else sizes
            found.append(op)
    return tuple(found), sizes


def _alike(loop: Loop, values: range, sizes: Mapping[str, int]) -> list[tuple[int, int]]:
    """Iterations of a loop and how many are like each: the first, the one in the middle and the last, where loops
    inside run another number of times."""
    if len(values) <= 1:
        return [(value, 1) for value in values]
    inner = [op for op in loop.body.ops if isinstance(op, Loop | Conditional)]
    name = loop.var.name
    if not any(_depends_on(op, name) for op in inner):
        return [(values[0], len(values))]
    middle = values[len(values) // 2]
    extents = [_extents(loop.body.ops, {**sizes, name: value}) for value in (values[0], middle, values[-1])]
    if extents[0] == extents[1] == extents[2]:
        return [(values[0], len(values))]
    if extents[0] == extents[1]:
        return [(values[0], len(values) - 1), (values[-1], 1)]
    found = [(values[0], 1), (middle, len(values) - 2), (values[-1], 1)]
    return [(value, number) for value, number in found if number]


def _depends_on(op: Operation, name: str) -> bool:
    """Whether how often a loop runs, or which side of a branch, depends on a loop variable."""
    for inner in op.walk():
        if isinstance(inner, Loop):
            sizes = inner.var.lower, inner.var.upper, inner.var.step
            if any(name == var.name for size in sizes for var in variables(size)):
                return True
        elif isinstance(inner, If) and any(name == var.name for var in inner.predicate.variables()):
            return True
    return False


def _extents(ops: Sequence[Operation], sizes: Mapping[str, int]) -> list[int]:
    """How often loops run, and which branches are taken, as far as these sizes say."""
    found: list[int] = []
    for op in ops:
        for inner in op.walk():
            if isinstance(inner, Loop):
                found.append(len(iterations(inner, sizes)))
                sizes = {**sizes, inner.var.name: evaluate(inner.var.lower, sizes)}
            elif isinstance(inner, If):
                found.append(inner.predicate.evaluate(sizes))
            elif isinstance(inner, Bind):
                sizes = bound(inner, sizes)
    return found
