"""Scaling, and linear models, of the domain `ai.onnx.ml`; scores and labels of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
import numpy.typing as npt

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.types import dtype_of, f32, f64, i1, shape_of, si64


def real(n: Node) -> Value:
    """The operand as real numbers: f64 where it is, else f32."""
    return n.w.cast(n.value(0), f64 if n.dtype() == f64 else f32)


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of classes."""

    numbers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def of(self, n: Node, scores: Value) -> Value:
        """The label of the highest score of each row."""
        rows = shape_of(scores.type)[:1]
        at = n.w.several("reduce_argmax", [scores], [(rows, None), (rows, si64)], dims=(1,))[1]
        if self.numbers == tuple(range(len(self.numbers))):
            return at
        table = n.w.constant(f"{n.w.prefix}.labels", np.array(self.numbers, np.int64))
        return n.w.op("gather", table, at, shape=rows, dim=0, out_of_range="fill")


def labelled(n: Node, name: str) -> Labels:
    """The labels of a classifier. Raises Unsupported for those that are strings."""
    if n.raw("classlabels_strings"):
        raise Unsupported("labels that are strings")
    numbers = n.ints(name, [])
    if len(numbers) < 2:
        raise Unsupported(f"{len(numbers)} labels: a classifier has two or more")
    return Labels(tuple(numbers))


def transformed(n: Node, scores: Value, word: str) -> Value:
    """Scores [rows, classes] as probabilities."""
    w, shape = n.w, shape_of(scores.type)
    match word:
        case "NONE":
            return scores
        case "LOGISTIC":
            return w.unary("sigmoid", scores)
        case "SOFTMAX":
            return w.op("softmax", scores, dim=1)
        case "SOFTMAX_ZERO":  # what is 0 stays 0
            top = w.op("broadcast", w.reduce("reduce_max", scores, (1,)), shape=shape, dims=(0,))
            size = w.unary("abs", scores)
            near = w.op("mul", scores, w.unary("exp", w.unary("neg", top)))
            powers = w.unary("exp", w.op("sub", scores, top))
            parts = w.select(w.with_number("greater", size, 1e-7, dtype=i1), powers, near)
            total = w.op("broadcast", w.reduce("reduce_sum", parts, (1,)), shape=shape, dims=(0,))
            is_empty = w.with_number("equal", total, 0, dtype=i1)
            return w.select(is_empty, w.fill(0.5, (), dtype_of(scores.type)), w.op("div", parts, total))
        case "PROBIT":
            return w.cast(_quantile(n, w.cast(scores, f64)), dtype_of(scores.type))
        case _:
            raise Unsupported(f"the transform {word} of scores")


def _quantile(n: Node, scores: Value) -> Value:
    """The quantiles of the normal distribution of probabilities, by the approximation that the standard writes: S.
    Winitzki, "A handy approximation for the error function and its inverse", 2008."""
    w, factor = n.w, 0.147
    centred = w.with_number("sub", w.with_number("mul", scores, 2), 1)
    size = w.op("mul", w.with_number("sub", centred, 1, first=True), w.with_number("add", centred, 1))
    power = w.unary("log", size)
    half = w.with_number("add", w.with_number("mul", power, 0.5), 2 / (pi * factor))
    root = w.unary("sqrt", w.op("sub", w.op("mul", half, half), w.with_number("div", power, factor)))
    found = w.unary("sqrt", w.op("sub", root, half))
    signed = w.select(w.with_number("less", centred, 0, dtype=i1), w.unary("neg", found), found)
    none = w.fill(0, (), f64)  # of 0 and 1, as the standard has it
    return w.with_number("mul", w.select(w.with_number("equal", size, 0, dtype=i1), none, signed), 1.41421356)


def _factors(n: Node, name: str) -> npt.NDArray[np.float32]:
    held: Sequence[float] = n.raw(name) or ()
    return np.array([*held], np.float32)


@rule("ai.onnx.ml.Scaler")
def scaler(n: Node) -> Result:
    """(x - offset) * scale, of each column."""
    x, made = n.ranked(0, 1), real(n)
    for word, name in (("sub", "offset"), ("mul", "scale")):
        factors = _factors(n, name)
        if factors.size not in (1, x.shape[-1]) or factors.size == 0:
            raise n.error(f"`{name}` has a number, or one for each column", f"1 or {x.shape[-1]}", str(factors.size))
        value = n.w.cast(n.w.constant(f"{n.w.prefix}.{name}", factors), dtype_of(made.type))
        made = n.w.op(word, made, n.w.expand(value, x.shape))
    return n.w.cast(made, f32)


def _linear(n: Node, targets: int) -> Value:
    """Each row times coefficients, a list for each target, and intercepts: [rows, targets]."""
    x, (rows, columns) = real(n), n.ranked(0, 2, 2).shape
    factors, offsets = _factors(n, "coefficients"), _factors(n, "intercepts")
    if not isinstance(columns, int) or targets < 1 or factors.size != targets * columns:
        required = f"{targets} times {columns}"
        raise n.error("coefficients of each column for each target", required, str(factors.size), [columns])
    if offsets.size not in (0, targets):
        raise n.error("an intercept for each target", str(targets), str(offsets.size))
    dtype = dtype_of(x.type)
    matrix = np.ascontiguousarray(factors.reshape(targets, columns).T, dtype.numpy)
    held = n.w.constant(f"{n.w.prefix}.coefficients", matrix)
    made = n.w.op("matmul", x, held, shape=(rows, targets), dtype=dtype)
    if offsets.size:
        value = n.w.constant(f"{n.w.prefix}.intercepts", offsets.astype(dtype.numpy))
        made = n.w.op("add", made, n.w.op("broadcast", value, shape=(rows, targets), dims=(1,)))
    return made


@rule("ai.onnx.ml.LinearRegressor")
def linear_regressor(n: Node) -> Result:
    """A sum of columns times coefficients, for each target."""
    return n.w.cast(transformed(n, _linear(n, n.int("targets", 1)), n.text("post_transform", "NONE")), f32)


@rule("ai.onnx.ml.LinearClassifier")
def linear_classifier(n: Node) -> Sequence[Result]:
    """The label with the highest score, and the scores: a sum of columns for each class, of two classes also for the
    second alone."""
    labels, columns = labelled(n, "classlabels_ints"), n.ranked(0, 2, 2).shape[1]
    n.int("multi_class", 0)  # which the scores do not depend on
    size = _factors(n, "coefficients").size
    is_binary = len(labels) == 2 and size == columns
    scores = _linear(n, 1 if is_binary else len(labels))
    if is_binary:
        scores = n.w.concat([n.w.unary("neg", scores), scores], 1)
    scores = n.w.cast(transformed(n, scores, n.text("post_transform", "NONE")), f32)
    return labels.of(n, scores), scores
