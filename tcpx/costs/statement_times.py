"""How many cycles each statement of a lowered kernel takes, by a model, and how many of them could be spared."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tcpx.costs.dependence import ARGUMENTS, ARRAYS, Dependence
from tcpx.costs.footprint import LINE_CYCLES, Sites, Trip
from tcpx.costs.loop_cycles import LoopCycles
from tcpx.costs.nests import rate_of, times_moved
from tcpx.costs.row_uses import lanes_counted, row_uses
from tcpx.costs.run_cycles import compiled_form, cycles_on_vectors, is_scan, run_cycles
from tcpx.costs.vector_forms import Form
from tcpx.costs.visits import Run, Statement
from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.memory import Copy, memory_of
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.vector import Gather, Insert, Read, Write
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import VectorType, dtype_of
from tcpx.target import Target
from tcpx.target.cores import core_named
from tcpx.transform.vectors.literals import is_splat

_LITERAL: Final = "literal"
_LEAST: Final = 1e-3
"""The least part of an operation in a run."""
QUOTIENT: Final = "a / b"
SLOW: Final = (QUOTIENT, "sqrt(a)")


@dataclass(slots=True)
class StatementTime:
    """`compute` is the time of the instructions of a call if all memory were the first cache, `memory` that in which
    bytes from beyond it arrive. The other times are what `compute` loses: `scalar` on single elements where vectors
    would do, `copies` on single elements that are read and written with nothing between, `constant` on what is computed
    of stored constants alone, `waits` for the result of the instruction before,
    `repeated` on what iterations of a loop compute alike, `divisions` by what is the same in all lanes, `filler` on
    constants beside arguments of the same operation, `combined` on the lanes of vectors that become one element,
    `spills` on vectors that no register has room for."""

    compute: float = 0.0
    memory: float = 0.0
    near: float = 0.0
    """The part of `memory` that is about L2 alone."""
    again: float = 0.0
    """The part of `memory` that is about short rows which L2 no longer has."""
    arithmetic: float = 0.0
    """That of arithmetic alone, on vectors."""
    least_accesses: float = 0.0
    least_memory: float = 0.0
    """Those of reading or writing each byte once."""
    scalar: float = 0.0
    copies: float = 0.0
    constant: float = 0.0
    waits: float = 0.0
    repeated: float = 0.0
    filler: float = 0.0
    combined: float = 0.0
    divisions: float = 0.0
    spills: float = 0.0
    gathers: float = 0.0
    """The time of reads at indices, which take it in any form."""
    copied_bytes: float = 0.0
    lanes: float = 0.0
    """The lanes of accesses that leave some out."""
    begun_lanes: float = 0.0
    """Those in vectors that do not leave out all."""
    used_lanes: float = 0.0
    widest: int = 8
    """The bits of the widest elements that it reads or writes."""
    runs: list[tuple[Run, float]] = field(default_factory=list[tuple[Run, float]])
    """What it runs, and how often on one thread."""
    sites: Sites = field(default_factory=Sites)
    in_place: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """The sites whose elements it reads and writes."""
    stored: set[Value] = field(default_factory=set[Value])
    """The buffers that it writes."""
    loaded: set[Value] = field(default_factory=set[Value])
    """Those that it reads."""
    places: dict[str, dict[Location | None, float]] = field(default_factory=dict[str, dict[Location | None, float]])
    """The losses by where they were written."""

    @property
    def total(self) -> float:
        return max(self.compute, self.memory)

    @property
    def empty(self) -> float:
        """The part of vectors that leave out all lanes."""
        return 1 - self.begun_lanes / self.lanes if self.lanes else 0.0

    @property
    def fill(self) -> float:
        """The part of lanes that is used of vectors that do not leave out all: these cannot be spared."""
        return self.used_lanes / self.begun_lanes if self.used_lanes else 1.0

    def without(self, part: float) -> float:
        """The total if so much of `compute` were spared."""
        return max(self.compute - part, self.memory)

    def is_revisited(self, capacity: int) -> bool:
        """Whether a loop goes again over elements that are changed in place, which a cache of this capacity does not
        hold: its iterations could go over a part of them."""
        return any(
            site.bytes(0) > capacity
            and any(trip.count > 1 and not site.depends_on(k) for k, trip in enumerate(site.trips))
            for key, site in self.sites.found.items()
            if key in self.in_place
        )

    def compute_of(self, part: float, accessed: float) -> float:
        """What `compute` would be if so much were computed, and so much read and written."""
        if part == accessed:
            return self.compute * part
        found = 0.0
        for run, times in self.runs:
            known: dict[Operation, float] = {op: accessed if isinstance(op, OnSubset) else part for op in run.ops}
            found += run_cycles(run, Form(compiled_form(run).lanes, known)).cycles * times
        return found

    def compute_with(self, parts: Mapping[Location | None, float]) -> float:
        """What `compute` would be if so much were done of what is written at these places."""
        found = 0.0
        for run, times in self.runs:
            known = {op: parts[op.written_at] for op in run.ops if op.written_at in parts}
            found += run_cycles(run, Form(compiled_form(run).lanes, known)).cycles * times
        return found

    def read_bytes(self) -> dict[Value, int]:
        """The bytes of each buffer that it reads."""
        found: dict[Value, int] = {}
        for site in self.sites.found.values():
            memory = memory_of(site.buffer) if isinstance(site.buffer, Value) else None
            if memory is not None and memory in self.loaded:
                found[memory] = max(found.get(memory, 0), site.bytes(0))
        return found

    def lose(self, what: str, place: Location | None, time: float) -> None:
        """Count a loss."""
        setattr(self, what, getattr(self, what) + time)
        places = self.places.setdefault(what, {})
        places[place] = places.get(place, 0.0) + time


def statement_times(
    kernel: Iterable[Run], target: Target, threads: int, origins: Dependence
) -> dict[Statement, StatementTime]:
    """The times of the statements of a kernel, in the call of these runs."""
    found: dict[Statement, StatementTime] = {}
    for run in kernel:
        _add(run, found.setdefault(run.statement, StatementTime()), threads, origins)
    for time in found.values():
        time.near = time.sites.traffic(held(target.l1)) / rate_of(target, "l2") / threads
        time.again = time.sites.lines_again(target.l2) * LINE_CYCLES / threads
        time.memory = max(time.near, time.again, _memory_time(time.sites, target, threads))
        touched = time.sites.footprint()
        (load,) = core_named(target.core).cost("load", target.vector_bits).uses
        time.least_accesses = touched / (target.vector_bits // 8) * load.cycles / len(load.ports) / threads
        time.least_memory = min(time.memory, _time_of_bytes(touched, time.sites.once(), target, threads))
    return found


def held(capacity: int) -> int:
    """Bytes of which a cache still has most: where they are a little more than its size, a few of its sets overflow."""
    return capacity + capacity // 8


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


@dataclass(slots=True)
class _Block:
    """The times of the instructions of a run: arithmetic and accesses, on vectors and on single elements."""

    arithmetic: float = 0.0
    accesses: float = 0.0
    single_arithmetic: float = 0.0
    single_accesses: float = 0.0
    reads: float = 0.0
    copied: int = 0
    """Bytes of single elements that are written."""
    single: dict[Location | None, float] = field(default_factory=dict[Location | None, float])
    constant: dict[tuple[Location | None, bool], float] = field(
        default_factory=dict[tuple[Location | None, bool], float]
    )
    """By place, and whether stored arrays are part of it."""
    given: set[Location | None] = field(default_factory=set[Location | None])
    """The places that compute something of arguments."""
    slots: float = 0.0
    repeated: dict[tuple[Location | None, int], float] = field(default_factory=dict[tuple[Location | None, int], float])
    """What operations on elements have of it, by place and origin."""
    has_extracts: bool = False
    """Whether an element is taken, or computed, of a vector."""
    has_inserts: bool = False
    divided: dict[Location | None, float] = field(default_factory=dict[Location | None, float])
    """Divisions by what is in all lanes, of those that are `slow`."""
    slow: int = 0
    origin: int = 0
    """That of all instructions together."""

    @property
    def without_reads(self) -> float:
        """All that is no read."""
        return self.arithmetic + self.single_arithmetic + self.accesses + self.single_accesses - self.reads

    @property
    def is_copy(self) -> bool:
        """Whether single elements are read and written, and nothing else is done."""
        return not (self.arithmetic or self.single_arithmetic or self.accesses)

    def add(self, op: Operation, run: Run, origin: int) -> None:
        """Count an instruction."""
        slots, place = _slots(op, run), op.written_at
        self.slots += slots
        self.has_inserts |= isinstance(op, Insert)
        if op.results and not isinstance(op, OnSubset) and not isinstance(op.results[0].type, VectorType):
            self.has_extracts |= any(isinstance(value.type, VectorType) for value in op.operands)
        is_read = isinstance(op, Read | Gather)
        self.reads += slots if is_read else 0.0
        self.origin |= origin
        if origin & ARGUMENTS and not is_read:
            self.given.add(place)
        elif slots and not is_read and origin > ARRAYS and (origin & ARRAYS or op.results):
            key = place, bool(origin & ARRAYS)
            self.constant[key] = self.constant.get(key, 0.0) + slots
        if isinstance(op, Elementwise):
            self.repeated[place, origin] = self.repeated.get((place, origin), 0.0) + slots
        if isinstance(op, Elementwise) and op.semantics in SLOW:
            self.slow += 1
            if op.semantics == QUOTIENT and _is_splat(op.operands[1]):
                self.divided[place] = self.divided.get(place, 0.0) + 1
        if not _is_single(op):
            self.accesses += slots if isinstance(op, OnSubset) else 0.0
            self.arithmetic += 0.0 if isinstance(op, OnSubset) else slots
            return
        if isinstance(op, OnSubset):
            self.single_accesses += slots
            self.copied += dtype_of(op.operands[0].type).bytes if isinstance(op, Write) else 0
        else:
            self.single_arithmetic += slots
        self.single[place] = self.single.get(place, 0.0) + slots


def _add(run: Run, time: StatementTime, threads: int, origins: Dependence) -> None:
    block, form = _block_of(run, time, origins), compiled_form(run)
    found = run_cycles(run, form)
    times = run.times / _shares(run, threads) * prod(_most_iterations(trip, run) / trip.count for trip in run.trips)
    now, after = found.cycles, found.throughput
    if block.single:
        after = min(now, cycles_on_vectors(run, origins))
        time.copied_bytes += block.copied * run.times if block.is_copy else 0
        total = sum(block.single.values())
        for place, part in block.single.items() if total else ():
            is_combined = block.has_extracts and not block.has_inserts
            what = "copies" if block.is_copy else "combined" if is_combined else "scalar"
            what = "waits" if is_scan(run) and found.latency > found.throughput else what
            time.lose(what, place, (now - after) * times * part / total)
    elif found.latency > found.throughput:
        time.lose("waits", run.ops[0].written_at, (now - after) * times)
    time.compute += now * times
    time.runs.append((run, times))
    _count_lanes(run, time)
    busy = 0.0 if block.is_copy else max(found.compute_cycles, found.divider_cycles)
    time.arithmetic += min(after, busy) * times
    time.gathers += sum(lanes_of(op.result) for op in run.ops if isinstance(op, Gather)) * times
    _lose_parts(block, found, run, time, origins, times)


def _count_lanes(run: Run, time: StatementTime) -> None:
    """Note how many lanes of accesses with masks are used."""
    for op in run.ops:
        value = op.operands[0] if isinstance(op, Write) else op.results[0] if isinstance(op, Read) else None
        if value is None or not str(op.attributes.get("row", "")).startswith("masked"):
            continue
        lanes = lanes_of(value)
        used = min(lanes, max(0, evaluate(lanes_counted(op, "n"), run.sizes)))
        time.lanes += lanes * run.times
        time.begun_lanes += lanes * run.times if used else 0
        time.used_lanes += used * run.times


def _lose_parts(
    block: _Block, found: LoopCycles, run: Run, time: StatementTime, origins: Dependence, times: float
) -> None:
    """What some of its instructions lose."""
    now = found.cycles
    for (place, is_stored), slots in block.constant.items():
        if is_stored or place not in block.given or (place, True) in block.constant:
            time.lose("constant", place, now * times * slots / block.without_reads)
        else:
            time.lose("filler", place, now * times * slots / (block.without_reads + block.reads))
    if found.spilled and run.ops:
        time.lose("spills", run.ops[0].written_at, (now - found.without_spills) * times)
    for place, count in block.divided.items():
        time.lose("divisions", place, (now - found.without_divider(count / block.slow)) * times)
    loops = [(origins.bit(trip.name), _most_iterations(trip, run)) for trip in run.trips if not _is_hoisted(trip, run)]
    repeats = prod(count for bit, count in loops if not block.origin & bit)
    if repeats > 1 and run.ops:
        time.lose("repeated", run.ops[0].written_at, now * times * (1 - 1 / repeats))
        return
    outer = loops[:-1] if run.loop is not None and len(loops) == len(run.trips) else loops
    for (place, origin), slots in block.repeated.items():
        repeats = prod(count for bit, count in outer if not origin & bit)
        if repeats > 1:
            time.lose("repeated", place, found.throughput * times * slots / block.slots * (1 - 1 / repeats))


def _block_of(run: Run, time: StatementTime, origins: Dependence) -> _Block:
    """The instructions of a run; what they read and write is noted."""
    block = _Block()
    for op in run.ops:
        if isinstance(op, StYield):
            continue
        if isinstance(op, OnSubset):
            time.widest = max(time.widest, dtype_of(op.subset_of.type).bits)
            for k, (value, tile) in enumerate(op.accesses if run.is_first else ()):
                time.sites.note(op.parent, value, tile, run.trips, run.sizes, times_moved(op, k))
            if isinstance(op, Write | Copy):
                time.stored.add(memory_of(op.operands[1]))
            if not isinstance(op, Write):
                time.loaded.add(memory_of(op.accesses[0][0]))
        if op.operands and not is_splat(op):
            block.add(op, run, origins.of(op))
    _note_in_place(run, time)
    return block


def _note_in_place(run: Run, time: StatementTime) -> None:
    written = {op.subset_of for op in run.ops if isinstance(op, Write)}
    begins: dict[bool, set[tuple[Value, tuple[int, ...]]]] = {True: set(), False: set()}
    accesses = [op for op in run.ops if isinstance(op, Read | Write) and op.subset_of in written]
    for op in accesses if run.is_first else ():
        first = tuple(evaluate(offset, run.sizes) for offset in op.subset.offsets)
        begins[isinstance(op, Write)].add((op.subset_of, first))
    both = {buffer for buffer, _ in begins[True] & begins[False]}
    time.in_place.update((id(op.parent), id(op.subset_of)) for op in accesses if op.subset_of in both)


def _most_iterations(trip: Trip, run: Run) -> int:
    """The iterations of a loop, as if a condition never ended it."""
    loop = trip.loop
    if not isinstance(loop, Loop) or loop.is_counted:
        return trip.count
    first, end, step = (evaluate(dim, run.sizes) for dim in (loop.var.lower, loop.var.upper, loop.var.step))
    return max(1, len(range(first, end, step)))


def _is_hoisted(trip: Trip, run: Run) -> bool:
    """Whether the C compiler moves what is invariant out of the loop: the innermost one, if it stores nothing."""
    return trip is run.trips[-1] and not any(isinstance(op, Write | Copy) for op in run.ops)


def _is_splat(value: Value) -> bool:
    """Whether all lanes have one number, that is known only at the call."""
    op = value.defining_op
    scalar = op.operands[0].defining_op if op is not None and is_splat(op) else None
    return scalar is not None and bool(scalar.operands)


def _is_single(op: Operation) -> bool:
    """Whether an instruction is about one element, of which vectors could have several: not what is read to be in all
    lanes of a vector."""
    values = [*op.results, *op.operands[:1]] if isinstance(op, Write) else op.results
    if any(isinstance(value.type, VectorType) for value in values):
        return isinstance(op, Insert)
    return not all(isinstance(user, Broadcast) for result in op.results for user in result.users) or not op.results


def _slots(op: Operation, run: Run) -> float:
    """The part that an operation has in the time of a run: cycles, if nothing else were done."""
    row = op.attributes.get("row")
    if row is not None:
        found = 0.0 if row == _LITERAL else row_uses(run.target).weight(run.target.row(str(row)))
        return max(found, _LEAST)
    return evaluate(op.work, run.sizes) / run.target.lanes("f32")


def lanes_of(value: Value) -> int:
    return value.type.shape[-1] if isinstance(value.type, VectorType) else 1


def _shares(run: Run, threads: int) -> int:
    counts = [trip.count for trip in run.trips if isinstance(trip.loop, Loop) and trip.loop.is_parallel]
    return min(threads, counts[0]) if counts else 1
