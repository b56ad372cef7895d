"""Losses of labels: the negated log probability of the class that each label names."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Final

from tcpx.frontends.onnx.broadcasting import shown, unequal
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, maximum
from tcpx.payload.types import dtype_of, i1, shape_of

_REDUCTIONS: Final = ("none", "sum", "mean")


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(n: Node) -> Result:
    """Of log probabilities."""
    return _loss(n, n.value(0))


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(n: Node) -> Sequence[Result]:
    """Of scores; with their log probabilities, where they are asked for."""
    n.ranked(0, 2)
    logarithms = n.w.op("log_softmax", n.value(0), dim=1)
    return [_loss(n, logarithms), *([logarithms] if n.wants(1) else [])]


def _loss(n: Node, logarithms: Value) -> Value:
    """A label that is neither a class nor ignored is an error where it can be declared, and else makes the loss NaN."""
    w, shape, dtype = n.w, n.ranked(0, 2).shape, n.dtype()
    classes, rest = shape[1], (shape[0], *shape[2:])
    other = unequal(n.shape(1), rest, equal=n.equal)
    if n.input(1).rank != len(rest) or other is not None:
        raise n.error("the labels of classes", shown(rest), shown(n.shape(1)), equal=other)
    reduction, ignored = n.text("reduction", "mean"), n.raw("ignore_index") is not None
    if reduction not in _REDUCTIONS:
        raise n.error("the reduction", ", ".join(_REDUCTIONS), reduction)
    labels = w.as_equal(n.value(1), rest)
    places, is_ignored = labels, None
    if ignored:
        is_ignored = w.with_number("equal", labels, n.int("ignore_index"), dtype=i1)
        places = w.op("select", is_ignored, w.fill(0, rest, dtype_of(labels.type)), labels, dtype=dtype_of(labels.type))
    _check_labels(n, labels, classes)
    zero = w.fill(0, rest, dtype)
    at = w.reshape(places, (shape[0], 1, *shape[2:]))
    chosen = w.op("gather_elements", logarithms, at, shape=shape_of(at.type), dim=1, out_of_range="fill", fill=nan)
    loss = w.unary("neg", w.reshape(chosen, rest))
    factors: Value | None = None
    if n.has(2):
        weights = n.ranked(2, 1, 1)
        if not n.equal(weights.shape[0], classes):
            raise n.error("a weight for each class", shown([classes]), str(weights), equal=(classes, weights.shape[0]))
        factors = w.op("gather", n.value(2), places, shape=rest, dim=0, out_of_range="fill", fill=nan)
        loss = w.op("mul", loss, factors)
    if is_ignored is not None:
        loss = w.select(is_ignored, zero, loss)
        factors = w.select(is_ignored, zero, factors if factors is not None else w.fill(1, rest, dtype))
    if reduction == "none":
        return loss
    axes = range(len(rest))
    if reduction == "mean" and factors is None:
        return w.reduce("reduce_mean", loss, axes)
    total = w.reduce("reduce_sum", loss, axes)
    return total if reduction == "sum" or factors is None else w.op("div", total, w.reduce("reduce_sum", factors, axes))


def _check_labels(n: Node, labels: Value, classes: Dim) -> None:
    """Raise an error for labels that are known, and declare the range of an argument."""
    ignored = [n.int("ignore_index")] if n.raw("ignore_index") is not None else []
    known = n.input(1).array
    if known is not None and isinstance(classes, int):
        wrong = [k for k in known.ravel().tolist() if not 0 <= k < classes and k not in ignored]
        if wrong:
            required = " or ".join([f"0 to {classes - 1}", *map(str, ignored)])
            raise n.error("a label is no class", required, str(wrong[0]))
    n.w.confine(labels, min([0, *ignored]), maximum(classes, *(k + 1 for k in ignored)))
