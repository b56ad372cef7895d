"""What an iteration of a loop waits for: chains of results that it leaves to the next one, in registers or through
memory, and operands of the same iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tcpx.costs.chains import slowest_cycle
from tcpx.costs.memory_operands import Placed
from tcpx.costs.row_uses import MEMORY, RowUses
from tcpx.costs.vector_forms import LANE_BY_LANE, Form, is_on_elements
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Loop, OnSubset, StYield
from tcpx.payload.ops.memory import At
from tcpx.payload.sizes import evaluate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType
from tcpx.records import frozen
from tcpx.target import InstructionRow
from tcpx.target.c_types import FLOAT_BITS

_REGROUPED: Final = ("a + b", "a & b", "a | b", "a ^ b")
"""Operations on integers that compilers compute in another order, so that a chain of several waits for one."""
_MOST_DISTANT: Final = 4
"""Iterations after which what is written counts as read again."""
Waits = dict[object, tuple[float, tuple[str, ...]]]
"""Cycles since what is carried was there, by what that is, and the names of rows in between."""


@frozen
class _Stored:
    """What a chain through memory leads through: an element of a buffer, by its place in this iteration."""

    buffer: Value
    place: tuple[int, ...]


@dataclass(slots=True)
class Chains:
    """Those of a loop; `repeated` are vectors of one scalar that are loads, and the scalar."""

    uses: RowUses
    loop: Loop | None
    form: Form
    repeated: Mapping[Value, Value]
    waiting: float = 0.0
    """Cycles for which instructions on vectors wait for operands of this iteration, together."""
    depths: dict[Value, float] = field(default_factory=dict[Value, float])
    """Cycles from the start of an iteration to values, if nothing else delays them."""
    waits: dict[Value, Waits] = field(default_factory=dict[Value, Waits])
    edges: dict[tuple[object, object], tuple[float, tuple[str, ...]]] = field(
        default_factory=dict[tuple[object, object], tuple[float, tuple[str, ...]]]
    )
    written: set[Value] = field(default_factory=set[Value])

    def begin(self, value: Value, number: int) -> None:
        """What a loop carries, by its number."""
        self.waits[value] = {number: (0.0, ())}

    def follow(self, value: Value, source: Value) -> None:
        """A value that is another one."""
        self.waits[value] = self.waits.get(source, {})

    def note_written(self, block: Block) -> None:
        """The memory that a block writes."""
        self.written |= {value for op in block.ops for value in _memory_written(op)}

    def is_written(self, value: Value) -> bool:
        """Whether a buffer is one that is written."""
        return _root(value) in self.written

    def longest(self) -> tuple[float, tuple[str, ...], bool]:
        """The cycles of the chain that takes longest, its rows, and whether it leads through memory."""
        latency, cycle = slowest_cycle({pair: held[0] for pair, held in self.edges.items()})
        chain: list[str] = []
        for start, end in zip(cycle, (*cycle[1:], *cycle[:1]), strict=True):
            chain += self.edges[start, end][1]
        return latency, tuple(chain), any(isinstance(start, _Stored) for start in cycle)

    def add(self, op: Operation, row: InstructionRow, placed: Placed, sizes: Mapping[str, int]) -> None:
        """How long its result waits for what the loop carries."""
        if self.loop is None:
            return
        self._deepen(op, row, placed)
        found = self._waits_of(row, placed)
        if not isinstance(op, OnSubset):
            pass
        elif not op.results:
            self._store(op, found, sizes)
        elif _root(op.subset_of) in self.written and not _is_placed_by_values(op.subset_of):
            read = _Stored(_root(op.subset_of), place_of(op.subset, self.loop, sizes, 0))
            found[read] = float(self.uses.core.forward), ()
        if found and op.results:
            self.waits[op.results[0]] = found

    def _deepen(self, op: Operation, row: InstructionRow, placed: Placed) -> None:
        """How long after the start of the iteration its results are there, and its instructions on vectors start."""
        use = self.uses.of(row)
        given = {name: self.depths.get(self.repeated.get(value, value), 0.0) for name, value in placed}
        lanes = self.form.lanes
        if lanes > 1 and row.kind in LANE_BY_LANE:
            self.depths.update(dict.fromkeys(op.results, max(given.values(), default=0.0)))
            return
        part = self.form.parts.get(op, 1.0) / (lanes if is_on_elements(row) else 1)
        loads = [step for step, _ in use.steps if step.name.endswith("load")]
        depth = max((self.uses.core.cost(step.name, step.bits).latency for step in loads), default=0.0)
        results = (given[name] + cycles for name, cycles in use.latencies.items() if name in given)
        self.depths.update(dict.fromkeys(op.results, max(depth, *results, 0.0)))
        for step, starts in use.steps:
            if step.bits >= FLOAT_BITS and step.name not in MEMORY:
                waits = (given[name] + cycles for name, cycles in starts.items() if name in given)
                self.waiting += max(waits, default=0.0) * part

    def _waits_of(self, row: InstructionRow, placed: Placed) -> Waits:
        latencies = self.uses.of(row).latencies
        is_integer = row.result is not None and row.result.dtype[:2] in ("si", "ui")
        is_regrouped = is_integer and row.semantics in _REGROUPED
        found: Waits = {}
        for name, value in placed:
            for start, (cycles, rows) in self.waits.get(value, {}).items():
                is_beside = is_regrouped and set(rows) == {row.name}
                before = 0.0 if is_beside else cycles
                later = before + latencies.get(name, 0.0)
                if start not in found or later > found[start][0]:
                    found[start] = later, (row.name,) if is_beside else (*rows, row.name)
        return found

    def _store(self, op: OnSubset, found: Waits, sizes: Mapping[str, int]) -> None:
        """What the next iterations read of what is written."""
        for distance in range(1, _MOST_DISTANT + 1):
            end = _Stored(_root(op.subset_of), place_of(op.subset, self.loop, sizes, -distance))
            if end in found:
                cycles, rows = found[end]
                self._edge(end, end, cycles / distance, rows)

    def end(self, op: StYield) -> None:
        """What the next iteration begins with."""
        loop, dest = self.loop, op.operands[1]
        if loop is None or dest not in loop.destinations:
            return
        self._leave(op.operands[0], loop.destinations.index(dest))

    def keep(self, op: Operation, place: object) -> None:
        """A read or write of an element that stays in a register: the loop carries it."""
        if op.results:
            self.waits[op.results[0]] = {place: (0.0, ())}
        else:
            self._leave(op.operands[0], place)

    def _leave(self, value: Value, end: object) -> None:
        for start, (cycles, rows) in self.waits.get(value, {}).items():
            self._edge(start, end, cycles, rows)

    def _edge(self, start: object, end: object, cycles: float, rows: tuple[str, ...]) -> None:
        known = self.edges.get((start, end))
        if known is None or cycles > known[0]:
            self.edges[start, end] = cycles, rows


def _memory_written(op: Operation) -> Sequence[Value]:
    """The memory that an operation writes."""
    if isinstance(op, OnSubset) and not op.results:
        return (_root(op.subset_of),)
    return [value for region in op.regions for inner in region.ops for value in _memory_written(inner)]


def _root(value: Value) -> Value:
    """The memory that a buffer is a part of."""
    while value.defining_op is not None and value.defining_op.operands and isinstance(value.type, BufferType):
        value = value.defining_op.operands[0]
    return value


def _is_placed_by_values(buffer: Value) -> bool:
    """Whether elements say where a part of a buffer lies: seldom is it where the iteration before was."""
    made_by = buffer.defining_op
    if made_by is None or not made_by.operands:
        return False
    return isinstance(made_by, At) or _is_placed_by_values(made_by.operands[0])


def place_of(tile: Tile, loop: Loop | None, sizes: Mapping[str, int], moved: int) -> tuple[int, ...]:
    """The first element of a subset in an iteration so many further."""
    if loop is not None and moved:
        sizes = {**sizes, loop.var.name: sizes.get(loop.var.name, 0) + evaluate(loop.var.step, sizes) * moved}
    return tuple(evaluate(offset, sizes) for offset in tile.offsets)
