"""How often a kernel runs each block at given sizes: loops count as many times as their middle iterations, which have
the mean length where inner loops go over a triangle; branches as the side that is taken, the larger one where only the
elements tell."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tcpx.costs.footprint import Trip
from tcpx.costs.operations import sizes_in_callee, taken
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import bound, iterations
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
    ) -> Iterator[Run]:
        straight: list[Operation] = []
        for op in block.ops:
            inner = isinstance(op, Loop | Conditional) or op.callee is not None
            if not inner:
                sizes = bound(op, sizes) if isinstance(op, Bind) else sizes
                if op.work == 0 or at.name:
                    straight.append(op)
                else:
                    yield Run((op,), sizes, times, own, Statement(at.function, op.name or op.opcode), trips)
                continue
            if isinstance(op, Loop):
                yield from self.loop(op, sizes, times, own, at, trips)
            elif isinstance(op, Conditional):
                yield from self.block(taken(op, sizes, own), sizes, times, own, at, trips)
            elif op.callee is not None:
                called = target_at(op.callee, self.kernel)
                inside = at if at.name else Statement(op.callee.name, "")
                yield from self.block(op.callee.body, sizes_in_callee(op, sizes), times, called, inside, trips)
        if straight:
            yield Run(tuple(straight), sizes, times, own, at, trips)

    def loop(
        self,
        loop: Loop,
        sizes: Mapping[str, int],
        times: int,
        own: Target,
        at: Statement,
        trips: tuple[Trip, ...],
    ) -> Iterator[Run]:
        values = iterations(loop, sizes)
        if not values:
            return
        inside = Statement(at.function, at.name or loop.name or loop.opcode)
        trip = Trip(loop, loop.var.name, values[0], values[-1], len(values))
        inner = {**sizes, loop.var.name: values[(len(values) - 1) // 2]}
        yield from self.block(loop.body, inner, times * len(values), own, inside, (*trips, trip))
