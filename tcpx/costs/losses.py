"""How many cycles of a statement of a lowered kernel could be spared, and where they were written, by a model."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tcpx.costs.compiler_moves import is_in_branch, stores_anywhere
from tcpx.costs.dependence import ARGUMENTS, ARRAYS, Dependence
from tcpx.costs.footprint import Trip
from tcpx.costs.row_uses import lanes_counted, row_uses
from tcpx.costs.run_cycles import cycles_on_vectors, is_scan
from tcpx.costs.statement_times import StatementTime, TimedRun, most_iterations
from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value, written_at
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.memory import Copy
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.vector import Gather, Insert, Read, Write
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import VectorType, dtype_of
from tcpx.transform.vectors.literals import is_splat

_LITERAL: Final = "literal"
_LEAST: Final = 1e-3
"""The least part of an operation in a run."""
QUOTIENT: Final = "a / b"
SLOW: Final = (QUOTIENT, "sqrt(a)")


@dataclass(slots=True)
class Losses:
    """What the instructions of a statement lose, in cycles of a call: `scalar` on single elements where vectors
    would do, `copies` on single elements that are read and written with nothing between, `constant` on what is computed
    of stored constants alone, `waits` for the result of the instruction before,
    `repeated` on what iterations of a loop compute alike, `divisions` by what is the same in all lanes, `filler` on
    constants beside arguments of the same operation, `combined` on the lanes of vectors that become one element,
    `spills` on vectors that no register has room for."""

    scalar: float = 0.0
    copies: float = 0.0
    constant: float = 0.0
    waits: float = 0.0
    repeated: float = 0.0
    filler: float = 0.0
    combined: float = 0.0
    divisions: float = 0.0
    spills: float = 0.0
    arithmetic: float = 0.0
    """The time of arithmetic alone, on vectors."""
    gathers: float = 0.0
    """The time of reads at indices, which take it in any form."""
    copied_bytes: float = 0.0
    constant_bytes: float = 0.0
    """Those of what is computed of constants alone, and used with arguments: as they would be stored."""
    lanes: float = 0.0
    """The lanes of accesses that leave some out."""
    begun_lanes: float = 0.0
    """Those in vectors that do not leave out all."""
    used_lanes: float = 0.0
    widest: int = 8
    """The bits of the widest elements that are read or written."""
    in_place: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """The sites whose elements are read and written."""
    places: dict[str, dict[Location | None, float]] = field(default_factory=dict[str, dict[Location | None, float]])
    """The losses by where they were written."""

    @property
    def empty(self) -> float:
        """The part of vectors that leave out all lanes."""
        return 1 - self.begun_lanes / self.lanes if self.lanes else 0.0

    @property
    def fill(self) -> float:
        """The part of lanes that is used of vectors that do not leave out all: these cannot be spared."""
        return self.used_lanes / self.begun_lanes if self.used_lanes else 1.0

    def lose(self, what: str, place: Location | None, time: float) -> None:
        """Count a loss."""
        setattr(self, what, getattr(self, what) + time)
        places = self.places.setdefault(what, {})
        places[place] = places.get(place, 0.0) + time


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
    repeated: dict[tuple[Location | None, int, bool], float] = field(
        default_factory=dict[tuple[Location | None, int, bool], float]
    )
    """What operations on elements have of it, by place, origin, and whether the C compiler moves them out of the
    innermost loop that does not change them."""
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

    def add(self, op: Operation, run: Run, origin: int, *, is_moved: bool) -> None:
        """Count an instruction; `is_moved` says that the C compiler moves it out of the innermost loop, whose cycles do
        not have it."""
        slots, place = _slots(op, run), written_at(op)
        self.slots += slots
        self.has_inserts |= isinstance(op, Insert)
        if op.results and not isinstance(op, OnSubset) and not isinstance(op.results[0].type, VectorType):
            self.has_extracts |= any(isinstance(value.type, VectorType) for value in op.operands)
        is_read = isinstance(op, Read | Gather)
        self.reads += slots if is_read else 0.0
        self.origin |= origin
        if origin & ARGUMENTS and not is_read:
            self.given.add(place)
        elif slots and not is_moved and not is_read and origin > ARRAYS and (origin & ARRAYS or op.results):
            key = place, bool(origin & ARRAYS)
            self.constant[key] = self.constant.get(key, 0.0) + slots
        if isinstance(op, Elementwise):
            key = place, origin, run.loop is not None and not is_in_branch(op, run.loop)
            self.repeated[key] = self.repeated.get(key, 0.0) + slots
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


def losses_of(time: StatementTime, origins: Dependence) -> Losses:
    """What the instructions of a statement lose."""
    losses = Losses()
    for timed in time.runs:
        _add(timed, losses, origins)
    return losses


def is_revisited(time: StatementTime, losses: Losses, capacity: int) -> bool:
    """Whether a loop goes again over elements that are changed in place, which a cache of this capacity does not hold:
    its iterations could go over a part of them."""
    return any(
        site.bytes(0) > capacity and any(trip.count > 1 and not site.depends_on(k) for k, trip in enumerate(site.trips))
        for key, site in time.sites.found.items()
        if key in losses.in_place
    )


def is_read_again(time: StatementTime, capacity: int) -> bool:
    """Whether iterations of a loop of the payload, none of which needs what another one writes, read what it does not
    move and a cache of this capacity does not hold."""
    return not time.changed and any(
        site.is_read
        and site.bytes(0) > capacity
        and any(trip.count > 1 and is_written(trip) and not site.depends_on(k) for k, trip in enumerate(site.trips))
        for site in time.sites.found.values()
    )


def is_written(trip: Trip) -> bool:
    """Whether no step of a schedule made a loop: the payload has it."""
    return isinstance(trip.loop, Loop) and not trip.loop.steps


def _add(timed: TimedRun, losses: Losses, origins: Dependence) -> None:
    run, times, _, found = timed
    block = _block_of(run, losses, origins)
    now, after = found.cycles, found.throughput
    if block.single:
        after = min(now, cycles_on_vectors(run, origins))
        losses.copied_bytes += block.copied * run.times if block.is_copy else 0
        total = sum(block.single.values())
        for place, part in block.single.items() if total else ():
            is_combined = block.has_extracts and not block.has_inserts
            what = "copies" if block.is_copy and not found.startup else "combined" if is_combined else "scalar"
            what = "waits" if is_scan(run) and found.latency > found.throughput else what
            losses.lose(what, place, (now - after) * times * part / total)
    elif found.latency > found.throughput:
        losses.lose("waits", written_at(run.ops[0]), (now - after) * times)
    _count_lanes(run, losses)
    busy = 0.0 if block.is_copy else max(found.compute_cycles, found.divider_cycles)
    losses.arithmetic += min(after, busy) * times
    losses.gathers += sum(lanes_of(op.result) for op in run.ops if isinstance(op, Gather)) * times
    _lose_parts(block, timed, losses, origins)


def _count_lanes(run: Run, losses: Losses) -> None:
    """Note how many lanes of accesses with masks are used."""
    for lanes, used in masked_lanes(run):
        losses.lanes += lanes * run.times
        losses.begun_lanes += lanes * run.times if used else 0
        losses.used_lanes += used * run.times


def masked_lanes(run: Run) -> Iterator[tuple[int, int]]:
    """The lanes of each access that a mask leaves some of out, and how many of them are used."""
    for op in run.ops:
        value = op.operands[0] if isinstance(op, Write) else op.results[0] if isinstance(op, Read) else None
        if value is not None and str(op.attributes.get("row", "")).startswith("masked"):
            lanes = lanes_of(value)
            yield lanes, min(lanes, max(0, evaluate(lanes_counted(op, "n"), run.sizes)))


def _lose_parts(block: _Block, timed: TimedRun, losses: Losses, origins: Dependence) -> None:
    """What some of its instructions lose."""
    run, times, _, found = timed
    now = found.cycles
    for (place, is_stored), slots in block.constant.items():
        if is_stored or place not in block.given or (place, True) in block.constant:
            losses.lose("constant", place, now * times * slots / block.without_reads)
        else:
            losses.lose("filler", place, now * times * slots / (block.without_reads + block.reads))
    if found.spilled and run.ops:
        losses.lose("spills", written_at(run.ops[0]), (now - found.without_spills) * times)
    for place, count in block.divided.items():
        losses.lose("divisions", place, (now - found.without_divider(count / block.slow)) * times)
    loops = [(origins.bit(trip.name), most_iterations(trip, run)) for trip in run.trips if not _is_hoisted(trip, run)]
    repeats = prod(count for bit, count in loops if not block.origin & bit)
    if repeats > 1 and run.ops:
        losses.lose("repeated", written_at(run.ops[0]), now * times * (1 - 1 / repeats))
        return
    is_moved = run.loop is not None and len(loops) == len(run.trips) and not stores_anywhere(run.loop, run.target)
    for (place, origin, is_always_run), slots in block.repeated.items():
        around = loops[:-1] if is_moved and is_always_run else loops
        repeats = prod(count for bit, count in around if not origin & bit)
        if repeats > 1:
            losses.lose("repeated", place, found.throughput * times * slots / block.slots * (1 - 1 / repeats))


def _block_of(run: Run, losses: Losses, origins: Dependence) -> _Block:
    """The instructions of a run."""
    block = _Block()
    for op in run.ops:
        if isinstance(op, StYield):
            continue
        if isinstance(op, OnSubset):
            losses.widest = max(losses.widest, dtype_of(op.subset_of.type).bits)
        if op.operands and not is_splat(op):
            origin = origins.of(op)
            block.add(op, run, origin, is_moved=_is_moved(op, run, origin, origins))
            losses.constant_bytes += _constant_bytes(op, run, origins) if run.is_first else 0.0
    _note_in_place(run, losses)
    return block


def _is_moved(op: Operation, run: Run, origin: int, origins: Dependence) -> bool:
    """Whether an instruction computes the same in each iteration of the innermost loop, and no branch has it."""
    if run.loop is None or not op.results or isinstance(op, OnSubset) or is_in_branch(op, run.loop):
        return False
    return not origin & origins.bit(run.trips[-1].name)


def _constant_bytes(op: Operation, run: Run, origins: Dependence) -> float:
    """The bytes of the results of an operation in all loops, if constants alone give them, and arguments use them."""
    origin = origins.of(op)
    if not op.results or isinstance(op, OnSubset) or origin & ARGUMENTS or origin <= ARRAYS:
        return 0.0
    if not any(user.results and origins.of(user) & ARGUMENTS for user in op.result.users):
        return 0.0
    count = prod(trip.count for trip in run.trips if origin & origins.bit(trip.name))
    return count * lanes_of(op.result) * dtype_of(op.result.type).bytes


def _note_in_place(run: Run, losses: Losses) -> None:
    written = {op.subset_of for op in run.ops if isinstance(op, Write)}
    begins: dict[bool, set[tuple[Value, tuple[int, ...]]]] = {True: set(), False: set()}
    accesses = [op for op in run.ops if isinstance(op, Read | Write) and op.subset_of in written]
    for op in accesses if run.is_first else ():
        first = tuple(evaluate(offset, run.sizes) for offset in op.subset.offsets)
        begins[isinstance(op, Write)].add((op.subset_of, first))
    both = {buffer for buffer, _ in begins[True] & begins[False]}
    losses.in_place.update((id(op.parent), id(op.subset_of)) for op in accesses if op.subset_of in both)


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
    return evaluate(Calling(op).work, run.sizes) / run.target.lanes("f32")


def lanes_of(value: Value) -> int:
    """How many lanes a vector has; a scalar has one."""
    return value.type.shape[-1] if isinstance(value.type, VectorType) else 1
