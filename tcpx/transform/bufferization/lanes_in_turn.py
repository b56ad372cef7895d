"""Lanes that take turns: of an operation that writes where elements say, lanes compute what no accumulator has to do
with; each is then combined on its own, since two may write one element.

This is loop fission (R. Allen, K. Kennedy, Optimizing Compilers for Modern Architectures, 2001) strip by strip, so the
order of what is combined is that of the iterations. Why not conflict detection: ADR 0034.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tcpx.payload.indexing_maps import index_operands, map_element
from tcpx.payload.interfaces import Build, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.generic import build_again
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import ScalarType, dtype_of
from tcpx.records import frozen
from tcpx.transform.vectors.lanes_in_memory import takes_turns

Elements = Callable[[Build, Sequence[Value], Sequence[Value]], tuple[Value, ...]]
"""What builds a body: of arguments and accumulators, an element of each result."""


@frozen
class Turns:
    """The body of an operation, cut in two: `ops` are those of it, on the stand-ins `arguments` and `accumulators`,
    with `results`; of these, `at_once` are computed in lanes, `width` of them along `dim`. `kept` are the values, of
    those and of elements that are gathered, which each lane needs in its turn; without them there are no vectors."""

    op: Structured
    dim: str
    width: int
    arguments: Sequence[Value]
    accumulators: Sequence[Value]
    ops: Sequence[Operation]
    results: Sequence[Value]
    at_once: Sequence[Operation]
    kept: Sequence[Value]

    @staticmethod
    def of(op: Structured) -> Turns | None:
        """The body of an operation whose lanes take turns; None if they do not."""
        lanes = Lanes(op).lanes
        if lanes is None or not takes_turns(op, lanes[0]):
            return None
        dim, width = lanes
        arguments = Block(
            [("", t) for t in (*map(_element_type, op.inputs), *(p.dtype for p in positions_read(op)))]
        ).args
        accumulators = Block([("", dtype) for dtype in op.acc_types]).args
        ops: list[Operation] = []

        def build(made: Operation) -> Value:
            ops.append(made)
            return made.result

        results = op.elements(build, arguments, accumulators)
        late = set[Value](accumulators)
        for inner in ops:
            if not late.isdisjoint(inner.operands):
                late.update(inner.results)
        at_once = [inner for inner in ops if late.isdisjoint(inner.results) and inner.operands]
        gathered = {a for a, m in zip(arguments, op.maps(), strict=False) if index_operands([m])}
        candidates = [*(a for a in arguments if a in gathered), *(inner.result for inner in at_once)]
        used = {value for inner in ops if not late.isdisjoint(inner.results) for value in inner.operands} | {*results}
        kept = [value for value in candidates if value in used]
        return Turns(op, dim, width, arguments, accumulators, ops, results, at_once, kept)

    @property
    def inputs(self) -> Sequence[int]:
        """The inputs that lanes need."""
        used = {value for inner in self.at_once for value in inner.operands} | {*self.kept}
        return self._with_indices(k for k in range(len(self.op.inputs)) if self.arguments[k] in used)

    @property
    def inputs_in_turn(self) -> Sequence[int]:
        """The inputs that each lane needs in its turn, of which it reads an element; indices of results are some."""
        used = {value for inner in self._late for value in inner.operands} | {*self.results}
        indices = index_operands(self.op.result_maps())
        read = used.difference(self.kept)
        return self._with_indices([*(k for k in range(len(self.op.inputs)) if self.arguments[k] in read), *indices])

    @property
    def _late(self) -> Sequence[Operation]:
        return [inner for inner in self.ops if inner.operands and inner not in self.at_once]

    @property
    def _numbers(self) -> Sequence[Operation]:
        return [inner for inner in self.ops if not inner.operands]

    def _with_indices(self, inputs: Iterable[int]) -> Sequence[int]:
        """Inputs, with those whose elements say where these are read."""
        maps, found = self.op.maps(), set(inputs)
        return sorted(found | {k for held in found for k in map(map_element, maps[held]) if k is not None})

    def on_lanes(self, build: Build, args: Sequence[Value]) -> Sequence[Value]:
        """What lanes compute of arguments, to be kept."""
        values = dict(zip(self.arguments, args, strict=True))
        build_again([*self._numbers, *self.at_once], values, build)
        return [values[value] for value in self.kept]

    def combined(self, kept: Sequence[Value]) -> Elements:
        """What each lane does in its turn, with what was kept of it."""

        def elements(build: Build, args: Sequence[Value], before: Sequence[Value]) -> tuple[Value, ...]:
            values = dict(zip(self.arguments, args, strict=True))
            values |= zip(self.accumulators, before, strict=False)
            values |= zip(self.kept, kept, strict=True)
            build_again([*self._numbers, *self._late], values, build)
            return tuple(values[value] for value in self.results)

        return elements


def _element_type(value: Value) -> ScalarType:
    return dtype_of(value.type)
