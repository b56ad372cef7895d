"""How many cycles each statement of a lowered kernel takes, by a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from tcpx.costs.compiler_moves import compiled_trips
from tcpx.costs.footprint import WRITTEN, Sites, Trip, held
from tcpx.costs.loop_cycles import LoopCycles
from tcpx.costs.nests import rate_of, times_moved
from tcpx.costs.run_cycles import compiled_forms, run_cycles
from tcpx.costs.vector_forms import Form
from tcpx.costs.visits import Run, Statement
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import FuncOp, Operation, Value, parent_op, written_at
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.memory import Alloc, Copy, memory_of
from tcpx.payload.ops.vector import Write
from tcpx.payload.sizes import evaluate
from tcpx.target import Target
from tcpx.target.cores import core_named


class TimedRun(NamedTuple):
    """A run, how often one thread runs it, its form in the C, and the cycles of that."""

    run: Run
    times: float
    form: Form
    cycles: LoopCycles


@dataclass(slots=True)
class StatementTime:
    """`compute` is the time of the instructions of a call if all memory were the first cache, `memory` that in which
    bytes from beyond it arrive."""

    compute: float = 0.0
    memory: float = 0.0
    in_turn: float = 0.0
    """The time in which lines come that fall into the same few sets of L1."""
    near: float = 0.0
    """The part of `memory` that is about L2 alone."""
    again: float = 0.0
    """The part of `memory` that is about short rows which L2 no longer has."""
    least_accesses: float = 0.0
    least_memory: float = 0.0
    """Those of reading or writing each byte once."""
    runs: list[TimedRun] = field(default_factory=list[TimedRun])
    sites: Sites = field(default_factory=Sites)
    stored: set[Value] = field(default_factory=set[Value])
    """The buffers that it writes."""
    loaded: set[Value] = field(default_factory=set[Value])
    """Those that it reads."""

    @property
    def total(self) -> float:
        return max(self.compute, self.memory, self.in_turn)

    def without(self, part: float, moved: float = 0.0) -> float:
        """The total if so much of `compute` were spared, and as large a part of the lines that come in turn, and so
        large a part of the bytes that move."""
        left = max(0.0, 1 - part / self.compute) if self.compute else 1.0
        return max(self.compute - part, self.memory * (1 - moved), left * self.in_turn)

    @property
    def changed(self) -> set[Value]:
        """The buffers that it reads and writes, and that are there before or after it."""
        return {memory for memory in self.stored & self.loaded if not _is_temporary(memory)}

    def unread_bytes(self) -> int:
        """The bytes of temporaries inside of it that are written and never read."""
        written: dict[Value, int] = {}
        read: dict[Value, int] = {}
        for site in self.sites.found.values():
            memory = memory_of(site.buffer) if isinstance(site.buffer, Value) else None
            if memory is not None and _is_temporary(memory):
                size = site.bytes(0)
                read[memory] = read.get(memory, 0) + (size if site.is_read else 0)
                written[memory] = max(written.get(memory, 0), size if site.moved == WRITTEN else 0)
        return sum(max(0, size - read[memory]) for memory, size in written.items())

    def compute_of(self, part: float, accessed: float) -> float:
        """What `compute` would be if so much were computed, and so much read and written."""
        if part == accessed:
            return self.compute * part
        found = 0.0
        for run, times, form, _ in self.runs:
            known: dict[Operation, float] = {op: accessed if isinstance(op, OnSubset) else part for op in run.ops}
            found += run_cycles(run, Form(form.lanes, known)).cycles * times
        return found

    def compute_with(self, parts: Mapping[Location | None, float]) -> float:
        """What `compute` would be if so much were done of what is written at these places."""
        found = 0.0
        for run, times, form, _ in self.runs:
            known = {op: parts[written_at(op)] for op in run.ops if written_at(op) in parts}
            found += run_cycles(run, Form(form.lanes, known)).cycles * times
        return found

    def read_bytes(self) -> dict[Value, int]:
        """The bytes of each buffer that it reads."""
        found: dict[Value, int] = {}
        for site in self.sites.found.values():
            memory = memory_of(site.buffer) if isinstance(site.buffer, Value) else None
            if memory is not None and memory in self.loaded:
                found[memory] = max(found.get(memory, 0), site.bytes(0))
        return found


def statement_times(kernel: Iterable[Run], target: Target, threads: int) -> dict[Statement, StatementTime]:
    """The times of the statements of a kernel, in the call of these runs."""
    found: dict[Statement, StatementTime] = {}
    for whole in kernel:
        trips = compiled_trips(whole.trips, target, whole.sizes)
        for run, form in compiled_forms(whole, trips):
            _add(run, form, trips, found.setdefault(run.statement, StatementTime()), threads)
    core = core_named(target.core)
    (load,) = core.cost("load", target.vector_bits).uses
    for time in found.values():
        sites = time.sites
        time.near = sites.traffic(held(target.l1)) / rate_of(target, "l2") / threads
        time.again = sites.lines_again(target.l2) * core.line / threads
        lanes = max(time.runs, key=lambda timed: timed.times * timed.cycles.cycles).form.lanes
        time.in_turn = sites.lines_in_turn(target.l1, core.ways) * core.set / (lanes * threads)
        time.memory = max(time.near, time.again, _memory_time(sites, target, threads))
        touched = sites.footprint()
        time.least_accesses = touched / (target.vector_bits // 8) * load.cycles / len(load.ports) / threads
        time.least_memory = min(time.memory, _time_of_bytes(touched, sites.once(), target, threads))
    return found


def _time_of_bytes(touched: int, moved: int, target: Target, threads: int) -> float:
    """The cycles in which so many bytes are moved from and to the smallest level that has room for what is touched."""
    if touched <= held(target.l1):
        return 0.0
    level = "l2" if touched <= held(target.l2) else "l3" if touched <= held(target.l3) else "memory"
    return moved / (rate_of(target, level) * threads)


def _memory_time(sites: Sites, target: Target, threads: int) -> float:
    """The cycles in which bytes arrive from beyond the second cache."""
    levels = {"l3": target.l2, "memory": target.l3}
    return max(sites.traffic(held(size)) / rate_of(target, level) for level, size in levels.items()) / threads


def _add(run: Run, form: Form, trips: tuple[Trip, ...], time: StatementTime, threads: int) -> None:
    times = run.times / _shares(run, threads) * prod(most_iterations(trip, run) / trip.count for trip in run.trips)
    timed = TimedRun(run, times, form, run_cycles(run, form))
    time.compute += timed.cycles.cycles * times
    time.runs.append(timed)
    for op in run.ops:
        if isinstance(op, OnSubset) and not isinstance(op, StYield):
            for k, (value, tile) in enumerate(op.accesses if run.is_first else ()):
                time.sites.note(op.parent, value, tile, trips, run.sizes, times_moved(op, k))
            if isinstance(op, Write | Copy):
                time.stored.add(memory_of(op.operands[1]))
            if not isinstance(op, Write):
                time.loaded.add(memory_of(op.accesses[0][0]))


def _is_temporary(memory: Value) -> bool:
    """Whether a buffer exists only in a loop: what reads it is there, too."""
    op = memory.defining_op
    return isinstance(op, Alloc) and not isinstance(parent_op(op), FuncOp)


def most_iterations(trip: Trip, run: Run) -> int:
    """The iterations of a loop, as if a condition never ended it."""
    loop = trip.loop
    if not isinstance(loop, Loop) or loop.is_counted:
        return trip.count
    first, end, step = (evaluate(dim, run.sizes) for dim in (loop.var.lower, loop.var.upper, loop.var.step))
    return max(1, len(range(first, end, step)))


def _shares(run: Run, threads: int) -> int:
    counts = [trip.count for trip in run.trips if isinstance(trip.loop, Loop) and trip.loop.is_parallel]
    return min(threads, counts[0]) if counts else 1
