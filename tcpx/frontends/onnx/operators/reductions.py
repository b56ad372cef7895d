"""Operators that reduce axes, or go along one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcpx.frontends.onnx.node import Node, product
from tcpx.frontends.onnx.operators.movement import given_axes
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.types import accumulator_of, f64, i1, shape_of, si64

_PLAIN: Final = {
    "ReduceSum": "reduce_sum",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
}
_FLOATS: Final = {"ReduceMean": "reduce_mean", "ReduceL2": "reduce_l2", "ReduceLogSumExp": "reduce_logsumexp"}


@rule(*_PLAIN, *_FLOATS, "ReduceL1", "ReduceSumSquare", "ReduceLogSum")
def reduction(n: Node) -> Result:
    """A reduction over axes, over all where none is given."""
    x, rank, axes = n.value(0), n.input(0).rank, given_axes(n, 1)
    if not axes:
        if n.int("noop_with_empty_axes", 0):
            return _of_each(n, x)
        axes = list(range(rank))
    axes, keep = n.axes(axes, rank), bool(n.int("keepdims", 1))
    return _over(n, x, axes, keep)


def _over(n: Node, x: Value, axes: Sequence[int], keep: bool) -> Result:
    w, dtype = n.w, n.dtype()
    if n.operator in _PLAIN:
        return w.reduce(_PLAIN[n.operator], x, axes, keep)
    if n.operator in _FLOATS:
        wide = dtype if dtype.is_float else f64
        return w.cast(w.reduce(_FLOATS[n.operator], x, axes, keep, wide), dtype)
    wide = accumulator_of(dtype)
    x = w.cast(x, wide)
    if n.operator == "ReduceSumSquare":
        x = w.binary("mul", x, x)
    elif n.operator == "ReduceL1":
        x = w.unary("abs", x) if dtype.minimum else x
    made = w.reduce("reduce_sum", x, axes, keep)
    if n.operator == "ReduceLogSum":
        made = w.unary("log", made if wide.is_float else w.cast(made, f64))
    return w.cast(made, dtype)


def _of_each(n: Node, x: Value) -> Result:
    """What remains of a reduction over nothing."""
    w, dtype = n.w, n.dtype()
    match n.operator:
        case "ReduceSumSquare":
            return w.binary("mul", x, x)
        case "ReduceL1" | "ReduceL2":
            return w.unary("abs", x) if dtype.minimum else n.input(0)
        case "ReduceLogSum":
            return w.unary("log", x) if dtype.is_float else w.cast(w.unary("log", w.cast(x, f64)), dtype)
        case _:
            return n.input(0)


@rule("ArgMax", "ArgMin")
def arg_reduction(n: Node) -> Result:
    """The first index of the greatest or least element, or the last one."""
    x, shape = n.value(0), n.shape()
    axis, keep = n.axis(len(shape), default=0), bool(n.int("keepdims", 1))
    last = bool(n.int("select_last_index", 0))
    if last:
        x = n.w.op("reverse", x, dims=(axis,))
    rest = tuple(d for k, d in enumerate(shape) if k != axis)
    word = "reduce_argmax" if n.operator == "ArgMax" else "reduce_argmin"
    at = n.w.several(word, [x], [(rest, None), (rest, si64)], dims=(axis,))[1]
    if last:
        at = n.w.op("sub", n.w.fill(shape[axis] - 1, rest, si64), at)
    return n.w.reshape(at, [1 if k == axis else d for k, d in enumerate(shape)]) if keep else at


@rule("CumSum", "CumProd")
def scan(n: Node) -> Result:
    """Sums or products up to each element, or of those behind it."""
    x, shape = n.value(0), n.shape()
    axis = n.checked_axis(n.integer(1), len(shape))
    back = bool(n.int("reverse", 0))
    if back:
        x = n.w.op("reverse", x, dims=(axis,))
    rest = tuple(d for k, d in enumerate(shape) if k != axis)
    word = "cumsum" if n.operator == "CumSum" else "cumprod"
    flags = {"exclusive": True} if n.int("exclusive", 0) else {}
    made = n.w.several(word, [x], [(shape, None), (rest, None)], dim=axis, **flags)[0]
    return n.w.op("reverse", made, dims=(axis,)) if back else made


@rule("Softmax", "LogSoftmax", "Hardmax")
def softmax(n: Node) -> Result:
    """Along an axis; before opset 13 along all from it on."""
    x, shape = n.value(0), n.shape()
    rank = len(shape)
    if rank == 0:
        return n.w.fill(0 if n.operator == "LogSoftmax" else 1, (), n.dtype())
    axis = n.axis(rank, default=1 if n.version < 13 else -1)
    along = list(range(axis, rank)) if n.version < 13 else [axis]
    if n.operator != "Hardmax":
        word = "softmax" if n.operator == "Softmax" else "log_softmax"
        return n.w.op(word, x, dim=along[0] if len(along) == 1 else tuple(along))
    if len(along) > 1:
        x = n.w.reshape(x, [*shape[:axis], product(n, shape[axis:])])
    own = shape_of(x.type)
    rest = tuple(d for k, d in enumerate(own) if k != axis)
    at = n.w.several("reduce_argmax", [x], [(rest, None), (rest, si64)], dims=(axis,))[1]
    return n.w.reshape(n.w.op("one_hot", at, shape=own, dtype=n.dtype(), dim=axis), shape)


@rule("LpNormalization")
def lp_normalization(n: Node) -> Result:
    """Over the sum of sizes, or the root of the sum of squares, along an axis."""
    x, rank = n.value(0), n.input(0).rank
    axis, p = n.axis(rank, default=-1), n.int("p", 2)
    if p not in (1, 2):
        raise n.error("the power of a norm", "1 or 2", str(p))
    if p == 1:
        norm = n.w.reduce("reduce_sum", n.w.unary("abs", x), [axis], keep=True)
    else:
        norm = n.w.reduce("reduce_l2", x, [axis], keep=True)
    wide = n.w.expand(norm, shape_of(x.type))
    zero = n.w.fill(0, shape_of(x.type), n.dtype())
    return n.w.select(n.w.op("equal", wide, zero, dtype=i1), zero, n.w.op("div", x, wide))
