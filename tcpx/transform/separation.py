"""How values change when a reduction that they depend on continues.

A value f(s, m) of a running result m is separable if it is h(s) + e(m) or h(s) * e(m): when m becomes m', it changes by
e(m') - e(m), or by the quotient. Operations declare how they propagate such a change (`homomorphism`, `linear`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.indexing_maps import IndexingMap, index_operands, map_dim, map_dims
from tcpx.payload.interfaces import Elementwise, Structured, Tileable, padded
from tcpx.payload.ir import Block, Operation, Value, operation_classes
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import ScalarType, TensorType, dtype_of, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.bodies import Body, applied, combiner_of
from tcpx.transform.editing import source_name


@frozen
class Change:
    """The change of each element of a value in an iteration, which `group` combines with the old element. The tensors
    `by` and `before`, the running result before the iteration, have its shape. `sign` is that of all additive changes,
    0 if unknown. Factors are at most 1, so that no underflowed term would have to come back."""

    group: Group
    by: Value
    before: Value | None = None
    sign: int = 0


@frozen
class Trace:
    """What is known of each element of a value.

    `dims` locates the dims of the running result: positions of the value, or dims of an iteration. `change` is None for
    a value that does not depend on the running result. `start` is the element while everything reduced so far is
    neutral and the running result is no longer; None if unknown.
    """

    dims: tuple[int | str, ...]
    change: Change | None = None
    start: float | None = None


Elements = Mapping[Value, tuple[Value, IndexingMap]]
"""By argument of a body: the input that it is an element of, and the indexing map."""


def absorbs(group: Group, number: float, dtype: ScalarType) -> bool:
    """Whether a change leaves a number as it is: 0 in products, infinities in sums."""
    op = operation_classes()[group.value](Block([("", dtype), ("", dtype)]).args, [dtype])
    return all(applied(op, (number, by)) == number for by in (0.5, 3.0))


class Separation:
    """The traces of the values of a block. For errors, `cause` says when they change, `required` what they follow."""

    def __init__(self, ctx: TransformContext, traces: Mapping[Value, Trace], cause: str, required: str) -> None:
        self.ctx = ctx
        self.traces = dict(traces)
        self.cause = cause
        self.required = required

    def change(self, value: Value) -> Change | None:
        """How a value changes; None if it does not."""
        trace = self.traces.get(value)
        return None if trace is None else trace.change

    def follow(self, op: Operation, accumulates: bool = False) -> None:
        """Record the traces of the results of an operation; for an accumulating one, those of its addends.

        Raises ScheduleError if a result changes in an unknown way.
        """
        reads = [value for inner in op.walk() for value in inner.operands if value in self.traces]
        made: Sequence[Trace | None] = []
        if isinstance(op, Materialize) and reads:
            made = self._of_subset(op)
        elif isinstance(op, Structured) and reads:
            made = self._of_elements(op, accumulates)
        elif isinstance(op, Tileable) and padded(op) is not None and reads:
            made = self._of_padded(op)
        if made:
            self.traces |= {value: trace for value, trace in zip(op.results, made, strict=True) if trace is not None}
        elif any(self.change(value) is not None for value in reads):
            raise self.fail(op, op.opcode)

    def fail(self, op: Operation, found: str) -> ScheduleError:
        """The error for an operation with an unknown change."""
        return self.ctx.fail(
            f"nothing says by how much %{op.name} changes when {self.cause}",
            op=op,
            required=self.required,
            found=found,
        )

    def insert(self, op: Operation, before: Operation, role: str = "change") -> Value:
        """The result of a new operation, inserted before another one whose history it inherits."""
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
        if change is not None and not part.is_full(shape_of(change.by.type), context_at(op).names):
            by, before = (
                self.insert(Materialize.of(value, part), op) if value is not None else None
                for value in (change.by, change.before)
            )
            change = replace(change, by=by or change.by, before=before)
        return [Trace(tuple(map(kept.index, places)), change, trace.start)]

    def _of_padded(self, op: Tileable) -> Sequence[Trace | None]:
        """The traces of a padding with numbers that no change affects."""
        trace = self.traces[op.operands[0]]
        trace = replace(trace, start=trace.start if ViewLike(op).is_free or ViewLike(op).rest == trace.start else None)
        rest = ViewLike(op).rest
        if trace.change is None or rest is None:
            return [trace]
        shape = [shape_of(op.result.type)[k] for k in trace.dims if isinstance(k, int)]
        is_kept = ViewLike(op).is_free or absorbs(trace.change.group, rest, dtype_of(op.result.type))
        is_kept &= have_equal_extents(shape, shape_of(trace.change.by.type))
        return [trace] if is_kept else []

    def _of_elements(self, op: Structured, accumulates: bool) -> Sequence[Trace | None]:
        """The traces of the body's results, computed from elements of the inputs."""
        if Scan.of(op) is not None or Scatter.of(op) is not None:
            return []
        places = (
            *Indices(op).operands,
            *(k for bounds in ragged_dims(op).values() for k in (bounds.first, bounds.end)),
        )
        if any(self.change(value) is not None for value in (*(op.inputs[k] for k in places), *op.inits)):
            return []
        body = Body.of(op)
        whole = dict(zip(body.elements, zip(op.inputs, op.maps(), strict=True), strict=True))
        known: dict[Value, Trace] = {}
        for element, (value, indexing_map) in whole.items():
            trace = self._of_element(op, value, indexing_map)
            if trace is not None:
                known[element] = trace
        for inner in body.ops:
            trace = self._of_scalar(op, inner, known, whole)
            if trace is not None:
                known[inner.result] = trace
        traces = [self._of_result(op, known.get(value), number) for number, value in enumerate(body.results)]
        changes = [trace.change for trace in traces if trace is not None and trace.change is not None]
        if changes and op.inits and not accumulates:
            raise self.fail(op, f"`{op.opcode}`, which begins with %{op.inits[0].name}")
        for change in changes if Reduction.of(op) is not None else ():
            distributing(self.ctx, op, change.group)
        return traces

    def _of_element(self, op: Structured, value: Value, indexing_map: IndexingMap) -> Trace | None:
        """The trace of an element of an input, in terms of the dims of the iteration."""
        trace = self.traces.get(value)
        if trace is None:
            return None
        names = [map_dim(indexing_map[k]) for k in trace.dims if isinstance(k, int)]
        dtype, outside = dtype_of(value.type), Indices(op).outside if index_operands([indexing_map]) else None
        is_kept = outside is None or trace.change is None or absorbs(trace.change.group, outside, dtype)
        if None in names or not is_kept:
            if trace.change is not None:
                raise self.fail(op, f"%{value.name} read at an index that is no dim")
            return None
        start = trace.start if outside is None or outside == trace.start else None
        return replace(trace, dims=tuple(name for name in names if name is not None), start=start)

    def _of_result(self, op: Structured, trace: Trace | None, number: int) -> Trace | None:
        """A trace of an iteration, in terms of the dims of the result."""
        written = [map_dim(entry) for entry in op.result_maps()[number]]
        reduced = [str(name) for name in trace.dims if name not in written] if trace is not None else []
        if trace is None or (reduced and trace.change is None):
            return None
        if reduced:
            raise self.fail(op, f"a reduction of `{reduced[0]}`, with a change for each")
        places = [written.index(str(name)) for name in trace.dims]
        shape = [shape_of(op.results[number].type)[k] for k in places]
        if trace.change is not None and not have_equal_extents(shape, shape_of(trace.change.by.type)):
            raise self.fail(op, f"`{op.opcode}` of a part of it")
        return replace(trace, dims=tuple(places))

    def _of_scalar(
        self, op: Structured, inner: Operation, known: Mapping[Value, Trace], whole: Elements
    ) -> Trace | None:
        """The trace of the result of one operation in the body of `op`."""
        traces = [known.get(value) for value in inner.operands]
        changing = [(k, trace.change) for k, trace in enumerate(traces) if trace is not None and trace.change]
        present = [trace for trace in traces if trace is not None]
        places = {trace.dims for trace in present if trace.change} or {trace.dims for trace in present}
        if not places:
            return None
        dims = next(iter(places))
        start = start_of(
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
        (position, change), dtypes = changing[0], [dtype_of(value.type) for value in (*inner.operands, inner.result)]
        is_linear = (
            len(changing) == 1
            and position in algebra(inner).linear
            and dtypes[position].is_float
            and dtypes[-1].is_float
        )
        if is_linear and change.group is Group.PRODUCT:
            return Trace(dims, change, start)
        is_exact = dtypes[position] == dtypes[-1] or dtypes[position].bytes < dtypes[-1].bytes
        groups = algebra(inner).homomorphism
        if groups is not None and groups[0] is change.group:
            others: list[Value | float | None] = [change.group.identity] * len(traces)
            group = groups[1]
        elif is_linear and is_exact:
            others, group = [_beside(value, dims, whole) for value in inner.operands], change.group
        else:
            raise self.fail(op, f"`{inner.opcode}` of it")
        if group is not change.group and change.sign >= 0:
            raise self.fail(op, f"`{inner.opcode}` of what may rise: what was lost to 0 would be missing")
        sign = _sign(inner, [other if k not in dict(changing) else None for k, other in enumerate(others)], changing)
        for k, other in changing:
            others[k] = other.by
        operands: list[Value] = []
        for value, other in zip(inner.operands, others, strict=True):
            if other is None:
                raise self.fail(op, f"`{inner.opcode}` of it and of %{value.name}, which has more dims")
            operands.append(self._of_dtype(op, other, TensorType(shape_of(change.by.type), dtype_of(value.type))))
        type_ = TensorType(shape_of(change.by.type), dtypes[-1])
        by = self.insert(type(inner)(operands, [type_], inner.attributes), op)
        return Trace(dims, Change(group, by, change.before, sign if group is Group.SUM else 0), start)

    def _of_dtype(self, op: Operation, given: Value | float, type_: TensorType) -> Value:
        """A number or a tensor, cast to this type."""
        if not isinstance(given, Value):
            return self.insert(new.fill(given, type_), op, "same")
        return given if dtype_of(given.type) == type_.dtype else self.insert(new.cast(given, type_.dtype), op)


def _sign(op: Operation, others: Sequence[Value | float | None], changing: Sequence[tuple[int, Change]]) -> int:
    """The sign of the result change of a linear operation, from the signs of its operands' changes."""
    signs = set[float]()
    for sizes in ((1.0, 3.0), (3.0, 1.0)):
        numbers = [other if isinstance(other, float | int) else None for other in others]
        for (k, change), size in zip(changing, sizes, strict=False):
            numbers[k] = change.sign * size if change.sign else None
        signs.add(float(np.sign(applied(op, [n for n in numbers if n is not None]))) if None not in numbers else 0.0)
    return int(signs.pop()) if len(signs) == 1 else 0


def _beside(value: Value, dims: Sequence[int | str], whole: Elements) -> Value | float | None:
    """An argument of a body as a number, or as a tensor over these dims; None if it is neither."""
    number = _number(value, whole)
    if number is not None:
        return number
    source, indexing_map = whole.get(value, (None, ()))
    return source if source is not None and map_dims(indexing_map) == tuple(dims) else None


def _number(value: Value, whole: Elements) -> float | None:
    """The value in a body, if it is the same number for all elements."""
    source, _ = whole.get(value, (value, ()))
    return number_of(source)


def start_of(op: Operation, numbers: Sequence[float | None]) -> float | None:
    """The result for operands of which some are known and the others finite; None if it is unknown."""
    if not isinstance(op, Elementwise):
        return None
    if None in numbers and any(number == 0 and k in algebra(op).linear for k, number in enumerate(numbers)):
        return 0.0
    groups = algebra(op).homomorphism
    is_sum = groups is not None and groups[0] is Group.SUM
    if None not in numbers or (is_sum and any(number is not None and np.isinf(number) for number in numbers)):
        return applied(op, [number or 0.0 for number in numbers])
    return None


def distributing(ctx: TransformContext, op: Structured, group: Group) -> type[Elementwise]:
    """The operation that combines results of a reduction with their changes. Raises ScheduleError if combining results
    differs from reducing changed elements."""
    combiner, cls = combiner_of(op), operation_classes()[group.value]
    if combiner is None or not issubclass(cls, Elementwise) or combiner.opcode not in algebra(cls).distributes_over:
        raise ctx.fail(
            f"what %{op.name} has reduced does not change as what it reduces does",
            op=op,
            required=f"a combiner that `{group.value}` distributes over",
            found=f"`{combiner.opcode}`" if combiner is not None else "a combiner of several operations",
        )
    return cls
