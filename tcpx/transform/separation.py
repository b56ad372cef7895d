"""How values change when a reduction that they are computed from goes on.

A value f(s, m) of a running result m separates where it is h(s) + e(m) or h(s) * e(m): by e(m') - e(m), or by the
quotient, it changes when m becomes m'. What operations make of such a change they declare (`homomorphism`, `linear`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.indexing_maps import IndexingMap, map_dim, map_dims
from tcpx.payload.interfaces import Elementwise, Group, Structured, Tileable, padded
from tcpx.payload.ir import Block, Operation, Value, operation_classes
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import Tile
from tcpx.payload.types import ScalarType, TensorType, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext
from tcpx.transform.editing import source_name
from tcpx.transform.elementwise import fills


@frozen
class Change:
    """By how much each element of a value changes in an iteration: what `group` combines the old one with. The tensor
    `by` has the shape of the running result."""

    group: Group
    by: Value


@frozen
class Trace:
    """What is known of each element of a value.

    `dims` says where the dims of the running result are: at which positions of the value, or at which dims of an
    iteration. `change` is None of what does not depend on the running result. `start` is what the element is where all
    that has been reduced is neutral and the running result no longer is; None if unknown.
    """

    dims: tuple[int | str, ...]
    change: Change | None = None
    start: float | None = None


Elements = Mapping[Value, tuple[Value, IndexingMap]]
"""By argument of a body: the input whose element it is, and how that is read."""


@frozen
class Body:
    """What one iteration computes without its accumulators, detached: `elements` of inputs, `ops`, `results`."""

    elements: Sequence[Value]
    ops: Sequence[Operation]
    results: Sequence[Value]

    @staticmethod
    def of(op: Structured) -> Body:
        """The body of an operation."""
        elements = Block([(value.name, dtype_of(value.type)) for value in op.inputs]).args
        positions = Block([("at", p.dtype) for p in op.positions()]).args
        made: list[Operation] = []

        def build(inner: Operation) -> Value:
            made.append(inner)
            return inner.result

        return Body(elements, made, op.elements(build, [*elements, *positions], []))


def applied(op: Operation, numbers: Sequence[float]) -> float:
    """What an elementwise operation makes of these numbers in place of its operands."""
    arrays = [np.asarray(number, dtype_of(v.type).numpy) for number, v in zip(numbers, op.operands, strict=True)]
    with np.errstate(all="ignore"):
        return float(op.evaluate(arrays, Evaluation(Constants(), {}))[0])


def absorbs(group: Group, number: float, dtype: ScalarType) -> bool:
    """Whether a number stays what it is when it changes: 0 in products, infinities in sums."""
    op = operation_classes()[group.value](Block([("", dtype), ("", dtype)]).args, [dtype])
    return all(applied(op, (number, by)) == number for by in (0.5, 3.0))


def number_of(op: Operation | None) -> float | int | None:
    """The number that every element of a result is; None of anything else."""
    made = Body.of(op).results[0].defining_op if fills(op) else op
    return made.number if made is not None else None


class Separation:
    """The traces of the values of a block. `cause` says for errors when they change, `required` what they follow."""

    def __init__(self, ctx: TransformContext, traces: Mapping[Value, Trace], cause: str, required: str) -> None:
        self.ctx = ctx
        self.traces = dict(traces)
        self.cause = cause
        self.required = required

    def change(self, value: Value) -> Change | None:
        """How a value changes; None if it does not."""
        trace = self.traces.get(value)
        return None if trace is None else trace.change

    def follow(self, op: Operation) -> None:
        """Note the traces of the results of an operation; where it accumulates, of what it adds.

        Raises ScheduleError where a result changes and nothing says by how much.
        """
        reads = [value for inner in op.walk() for value in inner.operands if value in self.traces]
        made: Sequence[Trace | None] = []
        if isinstance(op, Materialize) and reads:
            made = self._of_subset(op)
        elif isinstance(op, Structured) and reads:
            made = self._of_elements(op)
        elif isinstance(op, Tileable) and padded(op) is not None and reads:
            made = self._of_padded(op)
        if made:
            self.traces |= {value: trace for value, trace in zip(op.results, made, strict=True) if trace is not None}
        elif any(self.change(value) is not None for value in reads):
            raise self.fail(op, op.opcode)

    def fail(self, op: Operation, found: str) -> ScheduleError:
        """The error for an operation whose changes are not known."""
        return self.ctx.fail(
            f"nothing says by how much %{op.name} changes when {self.cause}",
            op=op,
            required=self.required,
            found=found,
        )

    def insert(self, op: Operation, before: Operation, role: str = "change") -> Value:
        """The result of a new operation before another one, for which it stands."""
        op.stand_for(before)
        return self.ctx.rewriter.insert(op, InsertPoint.before(before), f"{source_name(before)}.{role}").result

    def _of_subset(self, op: Materialize) -> Sequence[Trace | None]:
        tile, trace = op.subset, self.traces[op.source]
        places = [dim for dim in trace.dims if isinstance(dim, int)]
        if not set(tile.dropped).isdisjoint(places):
            return []
        offsets, sizes, strides = (tuple(each[k] for k in places) for each in (tile.offsets, tile.sizes, tile.strides))
        part = Tile(offsets, sizes, strides)
        change, kept = trace.change, [k for k in range(tile.rank) if k not in tile.dropped]
        if change is not None and not part.is_full(shape_of(change.by.type)):
            change = Change(change.group, self.insert(Materialize.of(change.by, part), op))
        return [Trace(tuple(map(kept.index, places)), change, trace.start)]

    def _of_padded(self, op: Tileable) -> Sequence[Trace | None]:
        """What is padded with numbers that no change changes."""
        trace = self.traces[op.operands[0]]
        trace = replace(trace, start=trace.start if op.is_free or op.rest == trace.start else None)
        if trace.change is None or op.rest is None:
            return [trace]
        shape = [shape_of(op.result.type)[k] for k in trace.dims if isinstance(k, int)]
        is_kept = op.is_free or absorbs(trace.change.group, op.rest, dtype_of(op.result.type))
        is_kept &= have_equal_extents(shape, shape_of(trace.change.by.type))
        return [trace] if is_kept else []

    def _of_elements(self, op: Structured) -> Sequence[Trace | None]:
        """The traces of what the body makes of elements of the inputs."""
        body = Body.of(op)
        whole = dict(zip(body.elements, zip(op.inputs, op.maps(), strict=True), strict=True))
        known: dict[Value, Trace] = {}
        for element, (value, indexing_map) in whole.items():
            trace = self.traces.get(value)
            names = [map_dim(indexing_map[k]) for k in trace.dims if isinstance(k, int)] if trace is not None else []
            if trace is not None and None not in names:
                known[element] = replace(trace, dims=tuple(name for name in names if name is not None))
            elif trace is not None and trace.change is not None:
                raise self.fail(op, f"%{value.name} read at an index that is no dim")
        for inner in body.ops:
            trace = self._of_scalar(op, inner, known, whole)
            if trace is not None:
                known[inner.result] = trace
        return [self._of_result(op, known.get(value), number) for number, value in enumerate(body.results)]

    def _of_result(self, op: Structured, trace: Trace | None, number: int) -> Trace | None:
        """A trace of an iteration as one of the result."""
        written = [map_dim(entry) for entry in op.result_maps()[number]]
        reduced = [str(name) for name in trace.dims if name not in written] if trace is not None else []
        if trace is None or (reduced and trace.change is None):
            return None
        if reduced:
            raise self.fail(op, f"a reduction of `{reduced[0]}`, with a change for each")
        return replace(trace, dims=tuple(written.index(str(name)) for name in trace.dims))

    def _of_scalar(
        self, op: Structured, inner: Operation, known: Mapping[Value, Trace], whole: Elements
    ) -> Trace | None:
        """The trace of what one operation of the body of `op` makes."""
        traces = [known.get(value) for value in inner.operands]
        changing = [(k, trace.change) for k, trace in enumerate(traces) if trace is not None and trace.change]
        found = [trace for trace in traces if trace is not None]
        places = {trace.dims for trace in found if trace.change} or {trace.dims for trace in found}
        if not places:
            return None
        dims = next(iter(places))
        start = _start(
            inner,
            [
                trace.start if trace is not None and trace.dims == dims else _number(value, whole)
                for value, trace in zip(inner.operands, traces, strict=True)
            ],
        )
        if not changing:
            return Trace(dims, None, start)
        groups = {change.group for _, change in changing}
        if not isinstance(inner, Elementwise) or len(places) > 1 or len(groups) > 1:
            raise self.fail(op, f"`{inner.opcode}` of it")
        position, change = changing[0]
        is_float = all(dtype_of(value.type).is_float for value in (inner.operands[position], inner.result))
        is_linear = is_float and len(changing) == 1 and position in inner.linear
        if is_linear and change.group is Group.PRODUCT:
            return Trace(dims, change, start)
        if inner.homomorphism is not None and inner.homomorphism[0] is change.group:
            others: list[Value | float | None] = [change.group.identity] * len(traces)
            group = inner.homomorphism[1]
        elif is_linear:
            others, group = [_beside(value, dims, whole) for value in inner.operands], change.group
        else:
            raise self.fail(op, f"`{inner.opcode}` of it")
        for k, other in changing:
            others[k] = other.by
        operands: list[Value] = []
        for value, other in zip(inner.operands, others, strict=True):
            if other is None:
                raise self.fail(op, f"`{inner.opcode}` of it and of %{value.name}, which has more dims")
            type_ = TensorType(shape_of(change.by.type), dtype_of(value.type))
            operands.append(other if isinstance(other, Value) else self.insert(new.fill(other, type_), op, "same"))
        type_ = TensorType(shape_of(change.by.type), dtype_of(inner.result.type))
        return Trace(dims, Change(group, self.insert(type(inner)(operands, [type_], inner.attributes), op)), start)


def _beside(value: Value, dims: Sequence[int | str], whole: Elements) -> Value | float | None:
    """An argument of a body as a number, or as a tensor over these dims; None if it is neither."""
    number = _number(value, whole)
    if number is not None:
        return number
    source, indexing_map = whole.get(value, (None, ()))
    return source if source is not None and map_dims(indexing_map) == tuple(dims) else None


def _number(value: Value, whole: Elements) -> float | None:
    """What a value of a body is wherever it is computed, if it is a number."""
    source, _ = whole.get(value, (value, ()))
    return number_of(source.defining_op)


def _start(op: Operation, numbers: Sequence[float | None]) -> float | None:
    """What an operation makes of operands of which some are known, the others finite; None if that is unknown."""
    if not isinstance(op, Elementwise):
        return None
    if any(number == 0 and k in op.linear for k, number in enumerate(numbers)):
        return 0.0
    is_sum = op.homomorphism is not None and op.homomorphism[0] is Group.SUM
    if None not in numbers or (is_sum and any(number is not None and np.isinf(number) for number in numbers)):
        return applied(op, [number or 0.0 for number in numbers])
    return None


def distributing(ctx: TransformContext, op: Structured, group: Group) -> type[Elementwise]:
    """What combines results of a reduction with their changes. Raises ScheduleError where that is not what it makes of
    changed elements."""
    numbers = Block([("", op.acc_type), ("", op.acc_type)]).args
    made: list[Operation] = []

    def build(inner: Operation) -> Value:
        made.append(inner)
        return inner.result

    op.combine(build, numbers[0], numbers[1])
    cls = operation_classes()[group.value]
    if not issubclass(cls, Elementwise) or made[-1].opcode not in cls.distributes_over:
        raise ctx.fail(
            f"what %{op.name} has reduced does not change as what it reduces does",
            op=op,
            required=f"a combiner that `{group.value}` distributes over",
            found=f"`{made[-1].opcode}`",
        )
    return cls
