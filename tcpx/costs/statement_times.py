"""How long each statement of a lowered kernel takes, by a model, and what of that could be spared.

The unit is the time in which a core multiplies and adds a vector of 32-bit floats, in which targets give their rates.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tcpx.costs.compiler_vectors import calls_function, is_vectorized
from tcpx.costs.dependence import ARGUMENTS, ARRAYS, Dependence
from tcpx.costs.footprint import Sites, Trip
from tcpx.costs.kernel_cost import ACCESS, chain_of
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
from tcpx.target.calibration import RATED_VECTORS
from tcpx.transform.vectors.literals import is_splat

LATENCY: Final = 8.0
"""The time until the result of an instruction is there."""
L2_RATE: Final = 24.0
"""Bytes that a core reads from L2 in the time of a vector."""
DIVISION: Final = {64: 32.0, 32: 20.0}
"""The time of a division or root of the widest vectors, by the bits of an element."""
COMPILED: Final = 8.0
"""Elements of a vector where the C compiler makes them."""
CALL: Final = 40.0
"""The time of a function of C's library."""
QUOTIENT: Final = "a / b"
SLOW: Final = (QUOTIENT, "sqrt(a)")


@dataclass(slots=True)
class StatementTime:
    """`compute` is the time of the instructions of a call if all memory were the first cache, `memory` that in which
    bytes from beyond it arrive. The other times are what `compute` loses: `scalar` on single elements where vectors
    would do, `copies` on single elements that are read and written with nothing between, `constant` on what is computed
    of stored constants alone, `waits` for the result of the instruction before,
    `repeated` on what iterations of a loop compute alike, `divisions` by what is the
    same in all lanes, `filler` on constants beside arguments of the same operation."""

    compute: float = 0.0
    memory: float = 0.0
    near: float = 0.0
    """The part of `memory` that is about L2 alone."""
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
    divisions: float = 0.0
    gathers: float = 0.0
    """The time of reads at indices, which take it in any form."""
    copied_bytes: float = 0.0
    sites: Sites = field(default_factory=Sites)
    stored: set[Value] = field(default_factory=set[Value])
    """The buffers that it writes."""
    loaded: set[Value] = field(default_factory=set[Value])
    """Those that it reads."""
    places: dict[str, dict[Location | None, float]] = field(default_factory=dict[str, dict[Location | None, float]])
    """The losses by where they were written."""

    @property
    def total(self) -> float:
        return max(self.compute, self.memory)

    def without(self, part: float) -> float:
        """The total if so much of `compute` were spared."""
        return max(self.compute - part, self.memory)

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
        time.near, far = _memory_times(time.sites, target, threads)
        time.memory = max(time.near, far)
        touched = time.sites.footprint()
        time.least_accesses = ACCESS * touched / (target.vector_bits // 8) / threads
        time.least_memory = min(time.memory, _time_of_bytes(touched, target, threads))
    return found


def _time_of_bytes(touched: int, target: Target, threads: int) -> float:
    """The time in which so many bytes arrive from the smallest level that has room for them."""
    if touched <= target.l1:
        return 0.0
    if touched <= target.l2:
        return touched / (L2_RATE * threads)
    return touched / (target.l3_rate * threads if touched <= target.l3 else _memory_rate(target, threads))


def _memory_rate(target: Target, threads: int) -> float:
    known = target.memory_rates[min(threads, 2) - 1]
    return known / RATED_VECTORS if known else float(target.l3_rate)


def _memory_times(sites: Sites, target: Target, threads: int) -> tuple[float, float]:
    """The times in which bytes arrive from L2, and from beyond."""
    l2, l3, memory = (sites.traffic(size) for size in (target.l1, target.l2, target.l3))
    return l2 / (L2_RATE * threads), max(l3 / (target.l3_rate * threads), memory / _memory_rate(target, threads))


@dataclass(slots=True)
class _Block:
    """The times of the instructions of a run: arithmetic and accesses, on vectors and on single elements."""

    arithmetic: float = 0.0
    accesses: float = 0.0
    single_arithmetic: float = 0.0
    single_accesses: float = 0.0
    reads: float = 0.0
    spared: float = 0.0
    """What vectors would spare of arithmetic."""
    spared_accesses: float = 0.0
    copied: int = 0
    """Bytes of single elements that are written."""
    single: dict[Location | None, float] = field(default_factory=dict[Location | None, float])
    constant: dict[tuple[Location | None, bool], float] = field(
        default_factory=dict[tuple[Location | None, bool], float]
    )
    """By place, and whether stored arrays are part of it."""
    given: set[Location | None] = field(default_factory=set[Location | None])
    """The places that compute something of arguments."""
    divided: dict[Location | None, float] = field(default_factory=dict[Location | None, float])
    origin: int = 0
    """That of all instructions together."""

    @property
    def now(self) -> float:
        return max(self.arithmetic + self.single_arithmetic, self.accesses + self.single_accesses)

    @property
    def without_reads(self) -> float:
        """All that is no read."""
        return self.arithmetic + self.single_arithmetic + self.accesses + self.single_accesses - self.reads

    @property
    def in_vectors(self) -> float:
        return max(
            self.arithmetic + self.single_arithmetic - self.spared,
            self.accesses + self.single_accesses - self.spared_accesses,
        )

    @property
    def is_copy(self) -> bool:
        """Whether single elements are read and written, and nothing else is done."""
        return not (self.arithmetic or self.single_arithmetic or self.accesses)

    def add(self, op: Operation, run: Run, origin: int) -> None:
        """Count an instruction."""
        slots, place = _slots(op, run), op.written_at
        is_read = isinstance(op, Read | Gather)
        self.reads += slots if is_read else 0.0
        self.origin |= origin
        if origin & ARGUMENTS and not is_read:
            self.given.add(place)
        elif not is_read and origin > ARRAYS and (origin & ARRAYS or op.results):
            key = place, bool(origin & ARRAYS)
            self.constant[key] = self.constant.get(key, 0.0) + slots
        if isinstance(op, Elementwise) and op.semantics == QUOTIENT and _is_splat(op.operands[1]):
            self.divided[place] = self.divided.get(place, 0.0) + slots - 1
        if not _is_single(op):
            self.accesses += slots if isinstance(op, OnSubset) else 0.0
            self.arithmetic += 0.0 if isinstance(op, OnSubset) else slots
            return
        spared = slots * (1 - 1 / run.target.lanes(_dtype(op)))
        if isinstance(op, OnSubset):
            self.single_accesses += slots
            self.spared_accesses += spared
            self.copied += dtype_of(op.operands[0].type).bytes if isinstance(op, Write) else 0
        else:
            self.single_arithmetic += slots
            self.spared += spared
        self.single[place] = self.single.get(place, 0.0) + spared

    def vectorize(self, factor: float) -> None:
        """Count all single elements as the compiler computes them, so many at once."""
        self.arithmetic += self.single_arithmetic / factor
        self.accesses += self.single_accesses / factor
        self.single_arithmetic = self.single_accesses = self.spared = self.spared_accesses = 0.0
        self.reads /= factor
        self.single.clear()
        self.constant = {key: slots / factor for key, slots in self.constant.items()}


def _add(run: Run, time: StatementTime, threads: int, origins: Dependence) -> None:
    block = _block_of(run, time, origins)
    times = run.times / _shares(run, threads)
    time.compute += block.now * times
    time.gathers += sum(_slots(op, run) for op in run.ops if isinstance(op, Gather)) * times
    time.arithmetic += (block.arithmetic + block.single_arithmetic - block.spared) * times
    for (place, is_stored), slots in block.constant.items():
        if is_stored or place not in block.given:
            time.lose("constant", place, block.now * times * slots / block.without_reads)
        else:
            time.lose("filler", place, block.now * times * slots / (block.without_reads + block.reads))
    for place, slots in block.divided.items():
        time.lose("divisions", place, slots * times)
    _lose_on_single_elements(block, run, time, times)
    place = run.ops[0].written_at
    repeats = prod(
        _most_iterations(trip, run)
        for trip in run.trips
        if not block.origin & origins.bit(trip.name) and not _is_hoisted(trip, run)
    )
    if repeats > 1:
        time.lose("repeated", place, block.now * times * (1 - 1 / repeats))
    waits = LATENCY * _chain(run) * times - block.now * times
    if waits > 0:
        time.lose("scalar" if _is_scalar_sum(block, run) else "waits", place, waits)
        time.compute += waits


def _block_of(run: Run, time: StatementTime, origins: Dependence) -> _Block:
    """The instructions of a run; what they read and write is noted."""
    block = _Block()
    for op in run.ops:
        if isinstance(op, StYield):
            continue
        if isinstance(op, OnSubset):
            for value, tile in op.accesses if run.is_first else ():
                time.sites.note(op.parent, value, tile, run.trips, run.sizes)
            if isinstance(op, Write | Copy):
                time.stored.add(memory_of(op.operands[1]))
            if not isinstance(op, Write):
                time.loaded.add(memory_of(op.accesses[0][0]))
        if op.operands and not is_splat(op):
            block.add(op, run, origins.of(op))
    if block.single and is_vectorized(run):
        block.vectorize(COMPILED)
    return block


def _lose_on_single_elements(block: _Block, run: Run, time: StatementTime, times: float) -> None:
    loss = (block.now - block.in_vectors) * times
    if loss:
        time.copied_bytes += block.copied * run.times if block.is_copy else 0
        total = sum(block.single.values())
        for place, part in block.single.items():
            time.lose("copies" if block.is_copy else "scalar", place, loss * part / total)


def _is_scalar_sum(block: _Block, run: Run) -> bool:
    """Whether a loop combines single elements into one that only its end reads: vectors would combine them, too."""
    return not (block.arithmetic or any(isinstance(op, Write | Copy) for op in run.ops))


def _most_iterations(trip: Trip, run: Run) -> int:
    """The iterations of a loop, as if a condition never ended it."""
    loop = trip.loop
    if not isinstance(loop, Loop) or loop.is_counted:
        return trip.count
    first, end, step = (evaluate(dim, run.sizes) for dim in (loop.var.lower, loop.var.upper, loop.var.step))
    return max(1, len(range(first, end, step)))


def _is_hoisted(trip: Trip, run: Run) -> bool:
    """Whether the C compiler takes what is the same in all iterations out of the loop: the innermost one, that stores
    nothing."""
    return trip is run.trips[-1] and not any(isinstance(op, Write | Copy) for op in run.ops)


def _is_splat(value: Value) -> bool:
    """Whether all lanes have one number, that is known only at the call."""
    op = value.defining_op
    scalar = op.operands[0].defining_op if op is not None and is_splat(op) else None
    return scalar is not None and bool(scalar.operands)


def _dtype(op: Operation) -> str:
    return dtype_of((op.results[0] if op.results else op.operands[0]).type).name


def _is_single(op: Operation) -> bool:
    """Whether an instruction is about one element, of which vectors could have several: not what is read to be in all
    lanes of a vector."""
    values = [*op.results, *op.operands[:1]] if isinstance(op, Write) else op.results
    if any(isinstance(value.type, VectorType) for value in values):
        return isinstance(op, Insert)
    return not all(isinstance(user, Broadcast) for result in op.results for user in result.users) or not op.results


def _slots(op: Operation, run: Run) -> float:
    if isinstance(op, Gather):
        return float(lanes_of(op.result))
    if isinstance(op, OnSubset):
        return ACCESS + evaluate(op.work, run.sizes) * ACCESS / run.target.lanes("f32")
    if op.work != 0:
        return evaluate(op.work, run.sizes) / run.target.lanes("f32")
    if isinstance(op, Elementwise) and op.semantics in SLOW:
        bits = dtype_of(op.result.type).bits
        share = lanes_of(op.result) / run.target.lanes(dtype_of(op.result.type).name)
        return max(0.25, share) * DIVISION[64 if bits > 32 else 32]
    if _is_single(op) and calls_function(op):
        return CALL
    return 1.0


def lanes_of(value: Value) -> int:
    return value.type.shape[-1] if isinstance(value.type, VectorType) else 1


def _shares(run: Run, threads: int) -> int:
    counts = [trip.count for trip in run.trips if isinstance(trip.loop, Loop) and trip.loop.is_parallel]
    return min(threads, counts[0]) if counts else 1


def _chain(run: Run) -> int:
    loop = run.trips[-1].loop if run.trips else None
    is_innermost = isinstance(loop, Loop) and not any(op.regions for op in loop.body.ops)
    return chain_of(loop) if isinstance(loop, Loop) and is_innermost and run.ops[0].parent is loop.body else 0
