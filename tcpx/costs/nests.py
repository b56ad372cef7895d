"""Cycles of the statements of a lowered function, and of each of their innermost loops, with the bytes that come from
beyond each cache. A model: nothing is measured.

Loops count as many times as their first iterations, branches as the side that is taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tcpx.costs.compiler_moves import compiled_trips
from tcpx.costs.footprint import WRITTEN, Sites, Trip
from tcpx.costs.iteration import block_cycles, loop_cycles
from tcpx.costs.loop_cycles import LoopCycles
from tcpx.costs.operations import sizes_in_callee, taken
from tcpx.costs.visits import is_innermost
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset, StYield, trip_count_is_one
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.vector import Write
from tcpx.payload.runs import bound, iterations
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.records import frozen
from tcpx.target import Target, target_at
from tcpx.target.calibration import RATED_VECTORS
from tcpx.target.cores import core_named

LEVELS = ("l2", "l3", "memory")
"""What lies beyond the first cache, the nearest first."""
_UNKNOWN_MEMORY = 3
"""How many times more L3 delivers than memory, where that is not known."""


@frozen
class InnerLoop:
    """A loop without loops inside: the cycles of an iteration, how many iterations a call runs on one thread, and the
    bytes of an iteration that come from each level of the memory."""

    loop: Loop
    target: Target
    iteration: LoopCycles
    iterations: float
    bytes: Mapping[str, float]

    @property
    def transfer(self) -> Mapping[str, float]:
        """Cycles in which the bytes of an iteration come from each level."""
        return {level: count / rate_of(self.target, level) for level, count in self.bytes.items()}

    @property
    def cycles(self) -> float:
        """Cycles of an iteration, with its data where they lie."""
        return max([self.iteration.cycles, *self.transfer.values()])


@frozen
class Nest:
    """A statement of a function outside of loops: `cycles` are those of one run of it on one thread, of which
    `straight` are spent between innermost loops."""

    function: str
    name: str
    op: Operation
    loops: tuple[InnerLoop, ...]
    straight: float

    @property
    def cycles(self) -> float:
        return self.straight + sum(inner.cycles * inner.iterations for inner in self.loops)


def rate_of(target: Target, level: str) -> float:
    """Bytes a cycle that one core reads from a level. The rates of a target are bytes in the time of vectors that are
    multiplied and added."""
    core = core_named(target.core)
    (use,) = core.cost("fma", target.vector_bits).uses
    vector = use.cycles / len(use.ports)
    l3 = max(1, target.l3_rate) / vector
    if level == "l2":
        return float(core.l2)
    if level == "l3":
        return min(l3, float(core.l2))
    return target.memory_rates[0] / RATED_VECTORS / vector or l3 / _UNKNOWN_MEMORY


def times_moved(op: OnSubset, access: int) -> int:
    """How often an access moves a line between caches: one that is written past them does not come first."""
    is_written = not op.results and (isinstance(op, Write) or access == 1)
    return WRITTEN if is_written and not str(op.attributes.get("row", "")).startswith("stream") else 1


def nests_of(func: FuncOp, target: Target, threads: int, sizes: Mapping[str, int]) -> list[Nest]:
    """The nests of a lowered function, and of those that it calls from outside of loops, in order."""
    return list(_nests(func.body, func.name, target, target_at(func, target), threads, sizes))


def _nests(
    block: Block, name: str, kernel: Target, own: Target, threads: int, sizes: Mapping[str, int]
) -> Iterator[Nest]:
    for op in block.ops:
        match op:
            case Bind():
                sizes = bound(op, sizes)
            case Conditional():
                yield from _nests(taken(op, sizes, own), name, kernel, own, threads, sizes)
            case _ if (called := Calling(op).callee) is not None:
                target = target_at(called, kernel)
                inner = sizes_in_callee(op, sizes)
                yield from _nests(called.body, called.name, kernel, target, threads, inner)
            case Loop():
                yield nest_of(op, name, own, threads, sizes, kernel)
            case _:
                continue


def nest_of(
    loop: Loop, function: str, target: Target, threads: int, sizes: Mapping[str, int], kernel: Target | None = None
) -> Nest:
    """The nest of a loop that no loop is round."""
    walk = _Walk(kernel or target, target, threads)
    straight = walk.loop(loop, sizes, (), 1.0)
    traffic = {level: walk.sites.by_loop(size) for level, size in _capacities(kernel or target).items()}
    loops: list[InnerLoop] = []
    for inner, own, iteration, count in walk.inner:
        found = {level: held.get(inner, 0.0) / max(1.0, count) for level, held in traffic.items()}
        beyond = {level: found[level] - sum(found[n] for n in LEVELS[k + 1 : k + 2]) for k, level in enumerate(LEVELS)}
        loops.append(InnerLoop(inner, own, iteration, count, {k: max(0.0, v) for k, v in beyond.items()}))
    return Nest(function, loop.name or loop.opcode, loop, tuple(loops), straight)


def _capacities(target: Target) -> Mapping[str, int]:
    """The level that data come from when the caches before it, of so many bytes, do not hold them."""
    return {"l2": target.l1, "l3": target.l2, "memory": target.l3}


@dataclass(slots=True)
class _Walk:
    kernel: Target
    target: Target
    threads: int
    sites: Sites = field(default_factory=Sites)
    inner: list[tuple[Loop, Target, LoopCycles, float]] = field(
        default_factory=list[tuple[Loop, Target, LoopCycles, float]]
    )

    def loop(self, loop: Loop, sizes: Mapping[str, int], trips: tuple[Trip, ...], times: float) -> float:
        """Note what is inside; the cycles that are spent beside innermost loops."""
        values = iterations(loop, sizes)
        if not values:
            return 0.0
        count = len(values) / (min(self.threads, len(values)) if loop.is_parallel else 1)
        if trip_count_is_one(loop):
            return self.block(loop.body, {**sizes, loop.var.name: values[0]}, trips, times)
        trips = (*trips, Trip(loop, loop.var.name, values[0], values[-1], len(values)))
        here = {**sizes, loop.var.name: values[0]}
        if is_innermost(loop):
            self._note(loop.body, here, compiled_trips(trips, self.target, here))
            self.inner.append((loop, self.target, loop_cycles(loop, here, self.target), times * count))
            return 0.0
        return self.block(loop.body, here, trips, times * count)

    def block(self, block: Block, sizes: Mapping[str, int], trips: tuple[Trip, ...], times: float) -> float:
        """The same of a block that runs so many times."""
        found, alone = 0.0, list[Operation]()
        for op in block.ops:
            match op:
                case Bind():
                    sizes = bound(op, sizes)
                case Loop():
                    found += self.loop(op, sizes, trips, times)
                case Conditional():
                    found += self.block(taken(op, sizes, self.target), sizes, trips, times)
                case StYield():
                    continue
                case _ if (called := Calling(op).callee) is not None:
                    caller, self.target = self.target, target_at(called, self.kernel)
                    found += self.block(called.body, sizes_in_callee(op, sizes), trips, times)
                    self.target = caller
                case _:
                    alone.append(op)
                    self._access(op, sizes, trips)
        return found + (block_cycles(alone, sizes, self.target).cycles * times if alone else 0.0)

    def _note(self, block: Block, sizes: Mapping[str, int], trips: tuple[Trip, ...]) -> None:
        for op in block.ops:
            if isinstance(op, Bind):
                sizes = bound(op, sizes)
            elif isinstance(op, Conditional):
                self._note(taken(op, sizes, self.target), sizes, trips)
            elif isinstance(op, Loop):
                self._note(op.body, {**sizes, op.var.name: evaluate(op.var.lower, sizes)}, trips)
            else:
                self._access(op, sizes, trips)

    def _access(self, op: Operation, sizes: Mapping[str, int], trips: tuple[Trip, ...]) -> None:
        if isinstance(op, OnSubset) and not isinstance(op, StYield):
            for k, (value, tile) in enumerate(op.accesses):
                self.sites.note(op.parent, value, tile, trips, sizes, times_moved(op, k))
