"""What the loops of a kernel compute for each operation of the payload: as much as that asks for, and what is beyond.

Operations of the payload are told apart by where they were written, which every rewrite hands on. What a place asks
for is counted before the schedule runs, what is issued for it in the lowered kernel, both by `costs.operations`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field

from tcpx.costs.operations import Operations, multiplied, operations_of
from tcpx.costs.visits import Run, Statement, runs
from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.gml_st import OnSubset, StYield
from tcpx.payload.types import VectorType
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform.recomputation import RECOMPUTED

NONE = Operations()

Place = Location | None
Asked = Mapping[Place, Operations]
Owners = Mapping[Place, Place]
NO_OWNERS: Owners = {}


@frozen
class PlaceWork:
    """The scalar operations of a statement for one place of the payload: those `asked` for, by the peak that limits
    them, and how many are `issued`. Where a place has several statements, each is asked for its part of what they
    issue. `is_recomputed` says that a loop computes elements more than once; all else that is issued is padding.
    `peaks` are those that limit what is issued."""

    asked: Operations = field(default_factory=Operations)
    issued: float = 0.0
    is_recomputed: bool = False
    peaks: frozenset[str] = frozenset()

    @property
    def excess(self) -> float:
        """Operations issued beyond those asked for."""
        return max(0.0, self.issued - self.asked.total())


Account = Mapping[Statement, Mapping[Place, PlaceWork]]


def asked_for(func: FuncOp, sizes: Mapping[str, int], target: Target) -> Asked:
    """The operations that each place of a payload asks for, however it is scheduled, in a call with these sizes."""
    found: dict[Place, Operations] = defaultdict(Operations)
    counter = _Counter()
    for run in runs(func, sizes, target):
        for op in run.ops:
            once = counter.operations(op, run)
            if once:
                found[op.written_at].update(multiplied(run.times, once))
    return found


def owners_of(funcs: Iterable[FuncOp]) -> Owners:
    """The places of operations in the bodies of others, with the place of the outermost one that is no loop."""
    owners: dict[Place, Place] = {}
    for func in funcs:
        for op in func.walk():
            around = [outer for outer in op.ancestors() if isinstance(outer, Structured)]
            if around and op.location is not None and around[-1].written_at != op.location:
                owners[op.location] = around[-1].written_at
    return owners


@frozen
class Issued:
    """What the loops of a kernel compute for each place: by statement, operations and the peaks that limit them, and in
    all. `recomputed` is where a loop computes elements more than once."""

    counts: Mapping[Statement, Mapping[Place, float]]
    peaks: Mapping[tuple[Statement, Place], set[str]]
    recomputed: set[tuple[Statement, Place]]
    totals: Mapping[Place, float]


def issued_by(kernel: Iterable[Run], owners: Owners = NO_OWNERS) -> Issued:
    """The operations of these runs. What is issued for a place that has an owner is issued for that."""
    counts: dict[Statement, dict[Place, float]] = defaultdict(lambda: defaultdict(float))
    totals: dict[Place, float] = defaultdict(float)
    recomputed: set[tuple[Statement, Place]] = set()
    peaks: dict[tuple[Statement, Place], set[str]] = defaultdict(set)
    counter = _Counter()
    for run in kernel:
        for op in run.ops:
            operations = counter.operations(op, run)
            count = operations.total() * run.times
            if not count:
                continue
            written = op.written_at
            place = owners.get(written, written)
            peaks[run.statement, place].update(operations)
            counts[run.statement][place] += count
            totals[place] += count
            if RECOMPUTED in op.notes:
                recomputed.add((run.statement, place))
    return Issued(counts, peaks, recomputed, totals)


def account(asked: Asked, issued: Issued) -> Account:
    """The work of each statement of a lowered function, and of those that it calls."""
    return {
        statement: {
            place: PlaceWork(
                multiplied(count / issued.totals[place], asked.get(place, NONE)),
                count,
                (statement, place) in issued.recomputed,
                frozenset(issued.peaks[statement, place]),
            )
            for place, count in places.items()
        }
        for statement, places in issued.counts.items()
    }


class _Counter:
    """Counts the operations of one run of an operation, those on equal vectors once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Operations] = {}

    def operations(self, op: Operation, run: Run) -> Operations:
        if isinstance(op, OnSubset | StYield) or not op.results or not op.operands:
            return NONE
        if not (isinstance(op, Elementwise) and isinstance(op.results[0].type, VectorType)):
            return operations_of(op, run.sizes, run.target)
        key = (type(op), op.semantics, run.target.name, *(value.type for value in (*op.operands, op.results[0])))
        if key not in self._known:
            self._known[key] = operations_of(op, run.sizes, run.target)
        return self._known[key]
