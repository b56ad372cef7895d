"""Cycles of a run of operations, as compilers make it, and in the form that vectors would give it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import log2, prod
from typing import Final

from tcpx.costs.compiler_moves import only_copies
from tcpx.costs.compiler_vectors import compiled_lanes, computed_alone, step_of
from tcpx.costs.dependence import Dependence
from tcpx.costs.footprint import Trip
from tcpx.costs.iteration import block_cycles, loop_cycles
from tcpx.costs.loop_cycles import LoopCycles
from tcpx.costs.vector_forms import AS_IT_IS, Form
from tcpx.costs.visits import Run
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.types import dtype_of
from tcpx.target.cores import core_named

_WORD: Final = 32
_COPY: Final = 20.0
"""Cycles before a copy begins whose length the C compiler does not know, as measured on a Zen 4."""
REUSED: Final = 8
"""Multiply-adds of a register tile that use one load."""


def run_cycles(run: Run, form: Form = AS_IT_IS) -> LoopCycles:
    """One run, in this form."""
    if run.loop is not None:
        found = loop_cycles(run.loop, run.sizes, run.target, form)
        is_call = form.lanes > 1 and only_copies(run.loop)
        return replace(found, startup=_COPY / run.trips[-1].count) if is_call else found
    return block_cycles(run.ops, run.sizes, run.target, form)


def compiled_forms(run: Run, trips: tuple[Trip, ...]) -> Iterator[tuple[Run, Form]]:
    """The forms that the C compiler gives it: vectors, and the iterations that are left over. `trips` are its loops in
    the order in which the compiler has them."""
    lanes = compiled_lanes(run, trips)
    alone = run.times * computed_alone(run, lanes, trips[-1]) // run.trips[-1].count if trips else 0
    yield run._replace(times=run.times - alone), Form(lanes)
    if alone:
        yield run._replace(times=alone, is_first=False), AS_IT_IS


def cycles_on_vectors(run: Run, origins: Dependence) -> float:
    """Cycles of a run on single elements if vectors had several of them, side by side in the loop round it where most
    accesses are; what lies otherwise is transposed. Reads that a loop round it repeats serve several results."""
    lanes = max(1, run.target.vector_bits // _widest(run))
    parts: dict[Operation, float] = {op: 1 / _repeats(op, run, origins) for op in run.ops if isinstance(op, Read)}
    cycles = run_cycles(run, Form(lanes, parts))
    (use,) = core_named(run.target.core).cost("shuffle", run.target.vector_bits).uses
    shuffles = _apart(run) * log2(lanes) / lanes * use.cycles / len(use.ports)
    waits = cycles.latency if is_scan(run) else 0.0
    return max(cycles.throughput, cycles.compute_cycles + shuffles + waits)


def _widest(run: Run) -> int:
    """The bits of the widest elements. Positions fit into 32, where nothing else has more."""
    accessed = max((_bits(op) for op in run.ops if isinstance(op, OnSubset)), default=_WORD)
    computed = max((_bits(op) for op in run.ops if op.operands and not isinstance(op, OnSubset)), default=0)
    return max(accessed, min(computed, max(accessed, _WORD)))


def _bits(op: Operation) -> int:
    return dtype_of((op.results[0] if op.results else op.operands[0]).type).bits


def is_scan(run: Run) -> bool:
    """Whether a loop stores what it carries on the way."""
    return run.loop is not None and bool(run.loop.results) and any(isinstance(op, Write) for op in run.ops)


def _repeats(op: Operation, run: Run, origins: Dependence) -> float:
    """How often loops round an operation repeat it, as far as registers keep what it gives."""
    origin = origins.of(op)
    return min(REUSED, prod(trip.count for trip in run.trips if not origin & origins.bit(trip.name)))


def _apart(run: Run) -> int:
    """How many accesses of a run do not lie side by side in the loop whose iterations would be lanes."""
    accesses = [op for op in run.ops if isinstance(op, OnSubset) and not isinstance(op, StYield)]
    loops = [trip for trip in run.trips if isinstance(trip.loop, Loop) and trip.count > 1]
    if is_scan(run):
        loops = [trip for trip in loops if trip.loop is not run.loop]
    return min((_apart_in(trip, accesses, run.sizes) for trip in loops), default=len(accesses))


def _apart_in(trip: Trip, accesses: list[OnSubset], sizes: Mapping[str, int]) -> int:
    loop = trip.loop
    return sum(isinstance(loop, Loop) and step_of(op.subset, loop, sizes) not in (0, 1, -1) for op in accesses)
