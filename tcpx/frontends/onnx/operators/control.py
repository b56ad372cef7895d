"""Branches and loops: taken, or unrolled, where what decides is known; else branches and loops of the payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx

from tcpx.frontends.onnx import regions
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, value_of
from tcpx.frontends.onnx.regions import MOST_IN_TURN, Iteration, Output, count, repeat, scalar
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.values import Tensor, of_array, of_value
from tcpx.payload.builder import tile
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.sizes import Dim, Var, maximum
from tcpx.payload.types import shape_of, si64
from tcpx.plurals import counted

MOST_ITERATIONS: Final = 256
"""Of one loop."""
MOST_UNROLLED: Final = 2048
"""Of all loops of a model, those within loops for each of its iterations."""


@rule("If")
def branch(n: Node) -> Sequence[Result]:
    """The branch that is taken, or both, of which a call runs one."""
    graphs = [n.graph(key) for key in ("then_branch", "else_branch")]
    condition = n.input(0)
    if condition.array is not None:
        return list(n.subgraph(graphs[0 if n.number(0) else 1], []))
    holds = scalar(n, n.value(0))
    sides = [lambda graph=graph: n.subgraph(graph, []) for graph in graphs]
    return regions.branch(n, holds, sides, condition.sources)


@rule("OptionalHasElement")
def has_element(n: Node) -> Result:
    """A tensor is there, or none is given."""
    there = of_array(n.outputs[0], np.array(n.has(0)))
    if there is None:
        raise Unsupported("truth values")
    return there


@rule("OptionalGetElement")
def element(n: Node) -> Result:
    """The tensor itself."""
    return n.input(0)


@rule("Loop")
def loop(n: Node) -> Sequence[Result]:
    """A loop; the iterations one after the other where their number and the conditions are known and they are few, or
    need to know their own number."""
    body, going = n.graph("body"), n.input(1) if n.has(1) else None
    state = [n.input(k) for k in range(2, len(n.inputs))]
    if len(body.output) <= len(state):
        required = f"a condition, then {counted(len(state), 'value')} for the next iteration"
        raise n.error("the results of the body", required, str(len(body.output)))
    is_known = going is None or going.array is not None
    most = n.input(0).array if n.has(0) else None
    count = n.integer(0, MOST_ITERATIONS + 1) if most is not None or not n.has(0) else None
    count = 0 if is_known and not n.number(1, 1) else count
    if is_known and count is not None and (count > 0 or len(body.output) == 1 + len(state)):
        found = None
        if MOST_IN_TURN < count <= MOST_ITERATIONS:
            found = n.attempt(lambda: _looped(n, body, state, going, count, is_open=True))
        found = _in_turn(n, body, state, count) if found is None else found
        if found is not None:
            return found
    return _looped(n, body, state, going, count)


def _in_turn(n: Node, body: onnx.GraphProto, state: Sequence[Tensor], most: int) -> Sequence[Result] | None:
    """The results of the iterations one after the other; None where the data say how many there are, or they are too
    many to be written so."""
    columns: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    count, going = 0, True
    while going and count < most:
        if count >= MOST_ITERATIONS:
            return None
        _unrolled(n)
        at = of_array("iteration", np.array(count, np.int64))
        holds = of_array("condition", np.array(True))
        results = list(n.subgraph(body, [t for t in (at, holds) if t is not None] + list(state)))
        condition = results[0].array
        if condition is None:
            return None
        if condition.size != 1:
            raise n.error("the condition of the body is one truth value", "one element", str(condition.size))
        going, state = bool(condition.item()), results[1 : 1 + len(state)]
        for column, result in zip(columns, results[1 + len(state) :], strict=True):
            column.append(result)
        count += 1
    return [*state, *(_stacked(n, column, 0) for column in columns)]


def _looped(
    n: Node,
    body: onnx.GraphProto,
    state: Sequence[Tensor],
    going: Tensor | None,
    count: int | None,
    is_open: bool = False,
) -> Sequence[Result]:
    """The results of a loop of the payload. What a body hands on as it is needs not be carried, and stays known.
    `is_open`: iterations one after the other are the other choice, which is left to those of whose results more is
    known so."""
    w, given = n.w, [i.name for i in body.input]
    kept = [_handed_on(body, 1 + k) == given[2 + k] for k in range(len(state))]
    carried = [t for t, is_kept in zip(state, kept, strict=True) if not is_kept]
    first = scalar(n, n.value(1)) if going is not None and going.array is None else None
    length: Dim = count if count is not None else _length(n)
    count_of_state = len(state)
    deciding = _sources(n.inputs[:2])

    def iterate(var: Var, inside: Sequence[Tensor]) -> Iteration:
        at = of_value("iteration", w.fill(var.size(), (), si64), deciding)
        holds = of_array("condition", np.array(True))
        values = iter(inside)
        known = [t if is_kept else next(values) for t, is_kept in zip(state, kept, strict=True)]
        results = n.subgraph(body, [at, *([holds] if holds is not None else []), *known])
        after = [t for t, is_kept in zip(results[1 : 1 + count_of_state], kept, strict=True) if not is_kept]
        parts = [Output(t, 0, var.size()) for t in results[1 + count_of_state :]]
        if is_open:
            _check_nothing_is_lost([*after, *results[1 + count_of_state :]], results[0])
        return Iteration(results[0], after, parts)

    values = iter(repeat(n, length, first, carried, iterate, deciding))
    return [*(t if is_kept else next(values) for t, is_kept in zip(state, kept, strict=True)), *values]


def _sources(tensors: Sequence[Tensor | None]) -> frozenset[str]:
    """The inputs of the model that tensors depend on."""
    return frozenset[str]().union(*(t.sources for t in tensors if t is not None))


def _check_nothing_is_lost(results: Sequence[Tensor], condition: Tensor | None = None) -> None:
    """Raise Unsupported where the results of iterations one after the other would be known, since they depend on no
    input, or their conditions."""
    if condition is not None and (condition.array is None or not condition.array.all()):
        raise Unsupported("a condition that depends on the iteration")
    if any(not t.sources for t in results):
        raise Unsupported("a result that depends on no input")


def _length(n: Node) -> Dim:
    """The number of iterations that operand 0 gives: a size, or a value."""
    sizes = n.input(0).elements()
    if sizes is None:
        return count(n, n.value(0))
    return maximum(0, sizes.ravel().tolist()[0])


def _handed_on(body: onnx.GraphProto, index: int) -> str:
    """The name of what a result of a graph is, through copies."""
    copies = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    name = body.output[index].name
    while name in copies:
        name = copies[name]
    return name


@rule("Scan")
def scan(n: Node) -> Sequence[Result]:
    """A loop over sequences; the iterations one after the other where they are few."""
    if n.version < 9:
        raise Unsupported("scans over a batch")
    body, count = n.graph("body"), n.int("num_scan_inputs")
    if not 1 <= count <= len(n.inputs):
        raise n.error("the sequences among the operands", f"1 to {len(n.inputs)}", str(count))
    state = [n.input(k) for k in range(len(n.inputs) - count)]
    given = [n.input(k) for k in range(len(n.inputs) - count, len(n.inputs))]
    outputs = len(body.output) - len(state)
    if outputs < 0:
        required = f"{counted(len(state), 'value')} for the next iteration, then parts of results"
        raise n.error("the results of the body", required, str(len(body.output)))
    axes = [n.checked_axis(a, t.rank) for a, t in zip(_for_each(n, "scan_input_axes", count), given, strict=True)]
    back = _for_each(n, "scan_input_directions", count)
    ends, flips = (_for_each(n, f"scan_output_{what}", outputs) for what in ("axes", "directions"))
    length = given[0].shape[axes[0]]
    scan = _Scan(n, body, state, list(zip(given, axes, back, strict=True)), list(zip(ends, flips, strict=True)), length)
    if not isinstance(length, int) or length > MOST_ITERATIONS or length == 0:
        return scan.in_loop()
    found = n.attempt(lambda: scan.in_loop(is_open=True)) if length > MOST_IN_TURN else None
    return scan.in_turn(length) if found is None else found


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan: the first state, the sequences, each with its axis and whether it is read from the end, and of each
    result with a part for an iteration the axis and whether it is written from the end."""

    n: Node
    body: onnx.GraphProto
    state: Sequence[Tensor]
    given: Sequence[tuple[Tensor, int, int]]
    ends: Sequence[tuple[int, int]]
    length: Dim

    def in_loop(self, *, is_open: bool = False) -> Sequence[Result]:
        """The results by a loop; `is_open` as in `_looped`."""
        n, count, length = self.n, len(self.state), self.length

        def iterate(var: Var, inside: Sequence[Tensor]) -> Iteration:
            at, last = var.size(), length - 1 - var.size()
            parts = [_part(n, tensor, axis, last if back else at) for tensor, axis, back in self.given]
            results = n.subgraph(self.body, [*inside, *parts])
            if is_open:
                _check_nothing_is_lost(results)
            pairs = zip(results[count:], self.ends, strict=True)
            made = [Output(t, n.checked_axis(axis, t.rank + 1), last if flip else at) for t, (axis, flip) in pairs]
            return Iteration(None, results[:count], made)

        return repeat(n, length, None, self.state, iterate)

    def in_turn(self, length: int) -> Sequence[Result]:
        """The results of the iterations one after the other."""
        n, state = self.n, self.state
        columns: list[list[Tensor]] = [[] for _ in self.ends]
        for step in range(length):
            _unrolled(n)
            slices: list[Tensor] = []
            for tensor, axis, back in self.given:
                part = n.w.part(value_of(n.w, tensor), axis, length - 1 - step if back else step, 1)
                own = [d for k, d in enumerate(shape_of(part.type)) if k != axis]
                slices.append(of_value("slice", n.w.reshape(part, own), tensor.sources))
            results = list(n.subgraph(self.body, [*state, *slices]))
            state = results[: len(self.state)]
            for column, result in zip(columns, results[len(self.state) :], strict=True):
                column.append(result)
        pairs = zip(columns, self.ends, strict=True)
        return [*state, *(_stacked(n, column[::-1] if flip else column, axis) for column, (axis, flip) in pairs)]


def _part(n: Node, tensor: Tensor, axis: int, at: Dim) -> Tensor:
    """The elements of a tensor at an index of an axis."""
    shape = tensor.shape
    sizes = [1 if k == axis else d for k, d in enumerate(shape)]
    place = tile([at if k == axis else 0 for k in range(len(shape))], sizes, drop=[axis])
    return of_value("slice", n.w.insert(Materialize.of(value_of(n.w, tensor), place)), tensor.sources)


def _unrolled(n: Node) -> None:
    """Count an iteration. Raises OnnxError where there are too many, in all loops."""
    n.w.iterations += 1
    if n.w.iterations > MOST_UNROLLED:
        required = f"{MOST_UNROLLED} iterations of all loops at most: they are unrolled"
        raise n.error("the loops of the model are too long", required, "more")


def _for_each(n: Node, name: str, count: int) -> list[int]:
    """An attribute with a number for each of so many sequences."""
    found = n.ints(name, [0] * count)
    if len(found) != count:
        raise n.error(f"`{name}` has a number for each", str(count), str(len(found)))
    return found


def _stacked(n: Node, column: Sequence[Tensor], axis: int) -> Result:
    """Results of iterations along a new axis."""
    if not column:
        raise Unsupported("results of a loop without iterations")
    rank = column[0].rank
    at = n.checked_axis(axis, rank + 1)
    parts = [value_of(n.w, t) for t in column]
    return n.w.concat([n.w.reshape(p, [*shape_of(p.type)[:at], 1, *shape_of(p.type)[at:]]) for p in parts], at)
