"""Branches and loops: taken, or unrolled, where what decides is known; else both branches, and a choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tcpx.frontends.onnx.broadcasting import same
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, value_of
from tcpx.frontends.onnx.table import Result, rule
from tcpx.frontends.onnx.values import Tensor, of_array, of_value
from tcpx.payload.types import shape_of

MOST_ITERATIONS: Final = 256
"""Of one loop."""
MOST_UNROLLED: Final = 2048
"""Of all loops of a model, those within loops for each of its iterations."""


@rule("If")
def branch(n: Node) -> Sequence[Result]:
    """The branch that is taken, or a choice between the results of both."""
    condition = n.input(0)
    if condition.array is not None:
        taken = bool(n.number(0))
        return list(n.subgraph(n.graph("then_branch" if taken else "else_branch"), []))
    certain, n.w.is_certain = n.w.is_certain, False
    results = [n.subgraph(n.graph(key), []) for key in ("then_branch", "else_branch")]
    n.w.is_certain = certain
    if len(results[0]) != len(results[1]):
        raise n.error("the branches have as many results", str(len(results[0])), str(len(results[1])))
    holds = n.w.reshape(n.value(0), ())
    made: list[Result] = []
    for a, b in zip(*results, strict=True):
        if a.dtype != b.dtype or a.rank != b.rank or not all(same(x, y) for x, y in zip(a.shape, b.shape, strict=True)):
            raise Unsupported("branches with results of other shapes, and a condition that is not known")
        wide = n.w.expand(holds, a.shape)
        made.append(n.w.op("select", wide, value_of(n.w, a), value_of(n.w, b), dtype=a.dtype))
    return made


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
    """The iterations one after the other, where their number and the conditions are known."""
    body, most = n.graph("body"), n.integer(0, MOST_ITERATIONS + 1)
    going = bool(n.number(1, 1))
    state = [n.input(k) for k in range(2, len(n.inputs))]
    if len(body.output) <= len(state):
        required = f"a condition, then {len(state)} values for the next iteration"
        raise n.error("the results of the body", required, str(len(body.output)))
    columns: list[list[Tensor]] = [[] for _ in range(len(body.output) - 1 - len(state))]
    count = 0
    while going and count < most:
        if count >= MOST_ITERATIONS:
            raise Unsupported(f"a loop of more than {MOST_ITERATIONS} iterations, or of a number that a call decides")
        _unrolled(n)
        at = of_array("iteration", np.array(count, np.int64))
        holds = of_array("condition", np.array(True))
        results = list(n.subgraph(body, [t for t in (at, holds) if t is not None] + state))
        condition = results[0].array
        if condition is None:
            raise Unsupported("a loop that ends where its data say")
        if condition.size != 1:
            raise n.error("the condition of the body is one truth value", "one element", str(condition.size))
        going, state = bool(condition.item()), results[1 : 1 + len(state)]
        for column, result in zip(columns, results[1 + len(state) :], strict=True):
            column.append(result)
        count += 1
    return [*state, *(_stacked(n, column, 0) for column in columns)]


@rule("Scan")
def scan(n: Node) -> Sequence[Result]:
    """The iterations one after the other, of sequences whose length is known."""
    if n.version < 9:
        raise Unsupported("scans over a batch")
    body, count = n.graph("body"), n.int("num_scan_inputs")
    if not 1 <= count <= len(n.inputs):
        raise n.error("the sequences among the operands", f"1 to {len(n.inputs)}", str(count))
    state = [n.input(k) for k in range(len(n.inputs) - count)]
    given = [n.input(k) for k in range(len(n.inputs) - count, len(n.inputs))]
    outputs = len(body.output) - len(state)
    if outputs < 0:
        required = f"{len(state)} values for the next iteration, then parts of results"
        raise n.error("the results of the body", required, str(len(body.output)))
    axes = [n.checked_axis(a, t.rank) for a, t in zip(_for_each(n, "scan_input_axes", count), given, strict=True)]
    back = _for_each(n, "scan_input_directions", count)
    ends, flips = (_for_each(n, f"scan_output_{what}", outputs) for what in ("axes", "directions"))
    length = given[0].shape[axes[0]]
    if not isinstance(length, int):
        raise Unsupported("a scan whose length a call decides: iterations are unrolled", [length])
    if length > MOST_ITERATIONS:
        raise Unsupported(f"a scan of {length} iterations: they are unrolled, {MOST_ITERATIONS} of them at most")
    columns: list[list[Tensor]] = [[] for _ in range(outputs)]
    for step in range(length):
        _unrolled(n)
        slices: list[Tensor] = []
        for tensor, axis, turned in zip(given, axes, back, strict=True):
            part = n.w.part(value_of(n.w, tensor), axis, length - 1 - step if turned else step, 1)
            own = shape_of(part.type)
            slices.append(
                of_value("slice", n.w.reshape(part, [d for k, d in enumerate(own) if k != axis]), tensor.sources)
            )
        results = list(n.subgraph(body, [*state, *slices]))
        state = results[: len(state)]
        for column, result in zip(columns, results[len(state) :], strict=True):
            column.append(result)
    stacked = [
        _stacked(n, column[::-1] if flipped else column, axis)
        for column, axis, flipped in zip(columns, ends, flips, strict=True)
    ]
    return [*state, *stacked]


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
