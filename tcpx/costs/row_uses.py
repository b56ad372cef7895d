"""What a row is made of, on the core of its target: ports, places, and how long a result waits for each operand."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from tcpx.payload.ir import Operation
from tcpx.payload.sizes import Dim, Size
from tcpx.payload.subsets import Tile
from tcpx.records import frozen
from tcpx.target import InstructionRow, Target
from tcpx.target.cores import Core, core_named
from tcpx.target.tracer import Instruction, Trace
from tcpx.target.traces import Traces

MEMORY: Final = ("load", "store", "masked_load", "masked_store", "stream_store", "gather", "prefetch", "fence")
"""Classes of instructions that access memory."""
CALLS: Final = ("call", "long_call")
"""Those of functions of C's library."""
VALUES: Final = ("a", "b", "c", "v")
"""Placeholders of values."""
COUNTS: Final = frozenset({"n", "f"})
"""Placeholders of numbers of lanes."""


@frozen
class RowUse:
    """The instructions of a row, without its sources: `steps` are each with the placeholders that it waits for, and the
    cycles from these until its operands are there. `latencies` are the cycles from a placeholder to the result, or
    to what is stored."""

    trace: Trace
    steps: tuple[tuple[Instruction, Mapping[str, float]], ...]
    latencies: Mapping[str, float]


class RowUses:
    """Those of the rows of a target, each found once."""

    def __init__(self, target: Target) -> None:
        self.core: Core = core_named(target.core)
        self._traces = Traces(target)
        self._known: dict[str, RowUse] = {}
        self._weights: dict[str, float] = {}

    def of(self, row: InstructionRow) -> RowUse:
        """What a row is made of."""
        known = self._known.get(row.name)
        if known is None:
            known = self._known[row.name] = self._use(self._traces.of(row))
        return known

    def weight(self, row: InstructionRow) -> float:
        """The cycles in which all ports that can do its instructions do them."""
        known = self._weights.get(row.name)
        if known is None:
            costs = ((step, self.core.cost(step.name, step.bits)) for step, _ in self.of(row).steps)
            known = sum(use.cycles * step.lanes / len(use.ports) for step, cost in costs for use in cost.uses)
            self._weights[row.name] = known
        return known

    def _use(self, trace: Trace) -> RowUse:
        names = {number: name for name, number in trace.sources.items()}
        waits: list[dict[str, float]] = []
        starts: list[dict[str, float]] = []
        last: dict[str, float] = {}
        for number, op in enumerate(trace.instructions):
            start = {names[number]: 0.0} if number in names else {}
            for operand in op.operands:
                for name, cycles in waits[operand].items():
                    start[name] = max(start.get(name, 0.0), cycles)
            starts.append(start)
            latency = self.core.cost(op.name, op.bits).latency if op.name else 0.0
            found = {name: cycles + latency for name, cycles in start.items()}
            waits.append(found)
            if number == trace.result or "store" in op.name:
                last |= {name: max(cycles, last.get(name, 0.0)) for name, cycles in found.items()}
        steps = tuple((op, start) for op, start in zip(trace.instructions, starts, strict=True) if op.name)
        return RowUse(trace, steps, last)


@lru_cache(maxsize=16)
def row_uses(target: Target) -> RowUses:
    """What the rows of a target are made of."""
    return RowUses(target)


def lanes_counted(op: Operation, placeholder: str) -> Dim:
    """The number of lanes, or the first one, that a row with a mask is given."""
    if placeholder == "f":
        held = op.attributes.get("first", 0)
        first = held[0] if isinstance(held, tuple) and held else held
        return first if isinstance(first, int | Size) else 0
    count = op.attributes.get("count")
    if isinstance(count, int | Size):
        return count
    tile = op.attributes.get("subset")
    return tile.sizes[tile.kept[-1]] if isinstance(tile, Tile) and tile.kept else 1
