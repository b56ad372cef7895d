"""What the loops of a kernel compute for each operation of the payload: as much as that asks for, and what is beyond.

Operations of the payload are told apart by where they were written, which every rewrite hands on. What a place asks
for is counted before the schedule runs, what is issued for it in the lowered kernel, both by `costs.operations`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from math import ceil

from tcpx.costs.needs import needed_parts
from tcpx.costs.operations import Operations, operations_of
from tcpx.costs.visits import Run, Statement, runs
from tcpx.payload.diagnostics import Location
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import FuncOp, Operation, Value, written_at
from tcpx.payload.ops.gml_st import OnSubset, StYield
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import VectorType, shape_of
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform.editing import is_pure
from tcpx.transform.recomputation import ADDED, RECOMPUTED

NONE = Operations()

Place = Location | None
Asked = Mapping[Place, Operations]
Owners = Mapping[Place, Place]
NO_OWNERS: Owners = {}


@frozen
class PlaceWork:
    """The scalar operations of a statement for one place of the payload: those `asked` for, by the peak that limits
    them, and how many are `issued`. Where a place has several statements, each is asked for its part of what they
    issue. `added` are those that no operation of the payload is: of constants, and of what transforms insert, such as
    sums that correct a product. `is_recomputed` says that a loop computes elements more than once; all else that is
    issued beyond is padding. `peaks` are those that limit what is issued."""

    asked: Operations = field(default_factory=Operations)
    issued: int = 0
    added: int = 0
    is_recomputed: bool = False
    peaks: frozenset[str] = frozenset()

    @property
    def excess(self) -> int:
        """Operations of the payload that are issued beyond those asked for."""
        return max(0, self.issued - self.added - self.asked.total())


Account = Mapping[Statement, Mapping[Place, PlaceWork]]


def asked_for(
    func: FuncOp, sizes: Mapping[str, int], target: Target, parts: Mapping[Operation, Fraction] | None = None
) -> Asked:
    """The operations that each place of a payload asks for, however it is scheduled, in a call with these sizes: those
    for elements that results need (`parts`, if `needed_parts` was asked before), and that depend on arguments, their
    sizes or positions. All others are computed at compile time.
    """
    found: dict[Place, Operations] = defaultdict(Operations)
    counter, needed, parts = _Counter(), _needed(func), needed_parts(func, sizes) if parts is None else parts
    for run in runs(func, sizes, target):
        for op in run.ops:
            once = counter.operations(op, run) if op in needed else NONE
            if once.total():
                times = run.times * parts.get(op, 1)
                found[written_at(op)].update({peak: ceil(times * number) for peak, number in once.items() if number})
    return found


def _needed(func: FuncOp) -> set[Operation]:
    """The operations of a function, and of those that it calls, that results need and that depend on what a call
    gives."""
    needed: set[Operation] = set()
    pending = [func]
    for at in pending:
        depending: set[Value] = set(at.args)
        for op in at.body.ops:
            if not depending.isdisjoint(_read(op)) or _depends_on_the_call(op):
                depending.update(op.results)
        live = set(at.returned)
        for op in reversed(at.body.ops):
            if not live.isdisjoint(op.results) or not is_pure(op):
                live.update(_read(op))
                needed.update(op.walk() if not depending.isdisjoint((*op.results, *_read(op))) else ())
        pending += dict.fromkeys(
            called for op in at.walk() if (called := Calling(op).callee) is not None and called not in pending
        )
    return needed


def _read(op: Operation) -> list[Value]:
    """The operands of an operation and of those inside."""
    return [value for inner in op.walk() for value in inner.operands]


def _depends_on_the_call(op: Operation) -> bool:
    """Whether it depends on sizes, or on positions, which no constant is stored for."""
    has_positions = isinstance(op, Structured) and bool(positions_read(op))
    return has_positions or not all(isinstance(dim, int) for value in op.results for dim in shape_of(value.type))


def owners_of(funcs: Iterable[FuncOp]) -> Owners:
    """The places of operations in the bodies of others, with the place of the outermost one that is no loop."""
    owners: dict[Place, Place] = {}
    for func in funcs:
        for op in func.walk():
            around = [outer for outer in op.ancestors() if isinstance(outer, Structured)]
            if around and op.location is not None and written_at(around[-1]) != op.location:
                owners[op.location] = written_at(around[-1])
    return owners


@frozen
class Issued:
    """What the loops of a kernel compute for each place, by statement: operations, those of them that are `added`, and
    the peaks that limit them. Statements that only move elements have none. `recomputed` is where a loop computes
    elements more than once."""

    counts: Mapping[Place, Mapping[Statement, int]]
    added: Mapping[tuple[Statement, Place], int]
    peaks: Mapping[tuple[Statement, Place], set[str]]
    recomputed: set[tuple[Statement, Place]]

    def room(self) -> dict[Place, int]:
        """What is issued for operations of the payload at each place that has any."""
        found = {
            place: sum(count - self.added.get((statement, place), 0) for statement, count in counts.items())
            for place, counts in self.counts.items()
        }
        return {place: count for place, count in found.items() if count}


def issued_by(kernel: Iterable[Run], owners: Owners = NO_OWNERS) -> Issued:
    """The operations of these runs. What is issued for a place that has an owner is issued for that."""
    counts: dict[Place, dict[Statement, int]] = defaultdict(lambda: defaultdict(int))
    added: dict[tuple[Statement, Place], int] = defaultdict(int)
    recomputed: set[tuple[Statement, Place]] = set()
    peaks: dict[tuple[Statement, Place], set[str]] = defaultdict(set)
    counter = _Counter()
    for run in kernel:
        for op in run.ops:
            operations = counter.operations(op, run)
            count = operations.total() * run.times
            written = written_at(op)
            place = owners.get(written, written)
            counts[place][run.statement] += count
            if not count:
                continue
            key = run.statement, place
            peaks[key].update(operations)
            added[key] += count if ADDED in op.notes else 0
            if RECOMPUTED in op.notes:
                recomputed.add(key)
    return Issued(counts, added, peaks, recomputed)


def account(asked: Asked, issued: Issued) -> Account:
    """The work of each statement of a lowered function, and of those that it calls, of which places ask for so much."""
    found: dict[Statement, dict[Place, PlaceWork]] = defaultdict(dict)
    for place, counts in issued.counts.items():
        keys = {statement: (statement, place) for statement in counts}
        own = [count - issued.added.get(keys[statement], 0) for statement, count in counts.items()]
        wanted = asked.get(place, NONE)
        for (statement, count), part in zip(counts.items(), _shared(wanted, own), strict=True):
            if count or part:
                key = keys[statement]
                found[statement][place] = PlaceWork(
                    part,
                    count,
                    issued.added.get(key, 0) if wanted else count,
                    key in issued.recomputed,
                    frozenset(issued.peaks.get(key, ())),
                )
    return found


def _shared(operations: Operations, weights: Sequence[int]) -> list[Operations]:
    """Operations in whole numbers that add up, as these weights are; all in the first place if there are none."""
    weights = weights if any(weights) else [1, *weights[1:]]
    total, before = sum(weights), 0
    parts: list[Operations] = []
    for weight in weights:
        after = before + weight
        shares = {peak: n * after // total - n * before // total for peak, n in operations.items()}
        parts.append(Operations({peak: share for peak, share in shares.items() if share}))
        before = after
    return parts


class _Counter:
    """Counts the operations of one run of an operation, those on equal vectors once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Operations] = {}

    def operations(self, op: Operation, run: Run) -> Operations:
        if isinstance(op, OnSubset | StYield) or not op.results or not op.operands:
            return NONE
        if not (isinstance(op, Elementwise) and isinstance(op.results[0].type, VectorType)):
            return operations_of(op, run.sizes, run.target)
        row = op.attributes.get("row")
        types = (row,) if isinstance(row, str) else tuple(value.type for value in (*op.operands, op.results[0]))
        key = (type(op), run.target.name, *types)
        if key not in self._known:
            self._known[key] = operations_of(op, run.sizes, run.target)
        return self._known[key]
