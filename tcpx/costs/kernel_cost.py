"""What a lowered kernel does at given sizes: instructions, and bytes beyond each cache. A model: nothing is measured.

Loops count as many times as their first iterations, branches as the side that is taken. It looks at loops, subsets and
values that loops carry, at no operation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tcpx.costs.compiler_moves import compiled_trips
from tcpx.costs.footprint import Sites, Trip
from tcpx.costs.operations import sizes_in_callee, taken
from tcpx.costs.visits import Statement
from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.ir import Block, FuncOp, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset, StYield
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import bound, iterations
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import TensorType, VectorType
from tcpx.records import frozen
from tcpx.target import Target, target_at

LATENCY = 4.0
"""Instructions that can start until the result of one is there."""
ACCESS = 0.5
"""Loads and stores in the time of an arithmetic instruction, as a part of it."""


@frozen
class KernelCost:
    """`slots` is the time of a call in arithmetic instructions on full vectors, if all memory were the first cache;
    `l2`, `l3` and `memory` are bytes that come from there. `carried` is the most vectors that a loop without loops
    inside carries: more than there are registers are spilled, which `slots` counts."""

    slots: float
    l2: float
    l3: float
    memory: float
    carried: int


def kernel_cost(func: FuncOp, target: Target, threads: int, arrays: Sequence[Array]) -> KernelCost:
    """The cost of a function that is lowered, called with these arrays: each function counts in vectors of its own
    target. Raises ArgumentError."""
    walk = _Walk(target, target_at(func, target), threads, Sites())
    slots = walk.block(func.body, bind_symbols(func, arrays), ())
    l2, l3, memory = (walk.sites.traffic(size) for size in (target.l1, target.l2, target.l3))
    return KernelCost(slots, l2, l3, memory, walk.carried)


@frozen
class Traffic:
    """Bytes that come from beyond the first and the second cache in one run of a statement."""

    l2: float = 0.0
    l3: float = 0.0


def statement_traffic(
    func: FuncOp, target: Target, threads: int, arrays: Sequence[Array]
) -> Mapping[Statement, Traffic]:
    """The traffic of the nests of a lowered function, and of those that it calls: those that a timed kernel measures.
    Functions that are called with several sizes have that of the last call. Raises ArgumentError."""
    found: dict[Statement, Traffic] = {}

    def visit(block: Block, name: str, own: Target, sizes: Mapping[str, int]) -> None:
        for op in block.ops:
            match op:
                case Bind():
                    sizes = bound(op, sizes)
                case Conditional():
                    visit(taken(op, sizes, own), name, own, sizes)
                case _ if (called := Calling(op).callee) is not None:
                    visit(
                        called.body,
                        called.name,
                        target_at(called, target),
                        sizes_in_callee(op, sizes),
                    )
                case Loop():
                    walk = _Walk(target, own, threads, Sites())
                    walk.loop(op, sizes, ())
                    found[Statement(name, op.name or op.opcode)] = Traffic(
                        walk.sites.traffic(target.l1), walk.sites.traffic(target.l2)
                    )
                case _:
                    continue

    visit(func.body, func.name, target_at(func, target), bind_symbols(func, arrays))
    return found


@dataclass(slots=True)
class _Walk:
    kernel: Target
    target: Target
    threads: int
    sites: Sites
    carried: int = 0

    def block(self, block: Block, sizes: Mapping[str, int], trips: tuple[Trip, ...]) -> float:
        """Slots of one run of a block."""
        arithmetic, accesses, nested = 0, 0, 0.0
        for op in block.ops:
            match op:
                case Bind():  # an index that only the elements tell: as if it were the first
                    sizes = bound(op, sizes)
                case Loop():
                    nested += self.loop(op, sizes, trips)
                case Conditional():
                    nested += self.block(taken(op, sizes, self.target), sizes, trips)
                case StYield():
                    continue
                case OnSubset():
                    for value, tile in op.accesses:
                        self.sites.note(op.parent, value, tile, trips, sizes)
                    accesses += 1 if Calling(op).work == 0 else 0
                    nested += evaluate(Calling(op).work, sizes) * ACCESS / self.target.lanes("f32")
                case _ if (called := Calling(op).callee) is not None:
                    caller, self.target = self.target, target_at(called, self.kernel)
                    nested += self.block(called.body, sizes_in_callee(op, sizes), trips)
                    self.target = caller
                case _ if Calling(op).work != 0:
                    nested += evaluate(Calling(op).work, sizes) / self.target.lanes("f32")
                case _ if op.regions:
                    nested += sum(self.block(region, sizes, trips) for region in op.regions)
                case _:
                    arithmetic += bool(op.operands) and bool(op.results)
        return max(float(arithmetic), ACCESS * accesses) + nested

    def loop(self, loop: Loop, sizes: Mapping[str, int], trips: tuple[Trip, ...]) -> float:
        """Slots of all iterations; what threads share is divided by them."""
        name, values = loop.var.name, iterations(loop, sizes)
        if not values:
            return 0.0
        count = len(values)
        trip = Trip(loop, name, values[0], values[-1], count)
        here = {**sizes, name: values[0]}
        once = self.block(loop.body, here, compiled_trips((*trips, trip), self.target, here))
        if not any(op.regions for op in loop.body.ops):
            vectors = sum(isinstance(dest.type, VectorType) for dest in loop.destinations)
            self.carried = max(self.carried, vectors)
            spilled = max(0, vectors - self.target.vector_registers)
            once = max(once + 2 * spilled * ACCESS, LATENCY * chain_of(loop))
        return once * count / (min(self.threads, count) if loop.is_parallel else 1)


def chain_of(loop: Loop) -> int:
    """The longest chain of instructions from a carried value to what it is in the next iteration."""
    depths: dict[Value, int] = {d: 0 for d in loop.destinations if not isinstance(d.type, TensorType)}
    longest = 0
    for op in loop.body.ops:
        found = [depths[value] for value in op.operands if value in depths]
        if isinstance(op, StYield):
            longest = max([longest, *found[:1]])
        elif found:
            depths.update((result, max(found) + 1) for result in op.results)
    return longest
