"""Arithmetic of shapes: operators on integers whose elements are sizes, computed while the model is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np

from tcpx.frontends.onnx.broadcasting import least
from tcpx.frontends.onnx.node import Node, check_length, dtype_of_onnx, product
from tcpx.frontends.onnx.values import MOST_ELEMENTS, Elements, Tensor, of_sizes
from tcpx.payload.sizes import Dim, Size, floordiv, is_less_equal, maximum, minimum, mod
from tcpx.payload.sizes.excess import excess_of_computed
from tcpx.payload.sizes.predicates import Predicate, Relation
from tcpx.payload.types import ScalarType, i1

Fold = Callable[[Node, Sequence[Elements]], "Elements | list[Elements] | None"]
FOLDS: Final[dict[str, Fold]] = {}


def folded(n: Node) -> list[Tensor] | None:
    """The results of a node whose operands are all known but for symbols; None where it is no such node."""
    if n.operator in ("Shape", "Size"):
        return [of_sizes(n.outputs[0], _of_shape(n), dtype_of_onnx(7))]
    fold = FOLDS.get(n.operator)
    if fold is None or all(t is None or t.sizes is None for t in n.inputs):
        return None
    operands = [t.elements() if t is not None else np.empty(0, object) for t in n.inputs]
    held = [o for o in operands if o is not None]
    if len(held) != len(operands):
        return None
    made = fold(n, held)
    if made is None:
        return None
    dtype = _dtype(n)
    if not (dtype.is_integer or dtype == i1):
        return None
    sources = frozenset[str]().union(*(t.sources for t in n.inputs if t is not None))
    found = made if isinstance(made, list) else [made]
    if any(f.size > MOST_ELEMENTS for f in found):
        return None
    for size in (size for f in found for size in f.ravel().tolist() if isinstance(size, Size)):
        check_length(n, excess_of_computed(size))
    return [of_sizes(name, f, dtype, sources) for name, f in zip(n.outputs, found, strict=False)]


def _dtype(n: Node) -> ScalarType:
    """The dtype of the results."""
    if n.operator == "Cast":
        return dtype_of_onnx(n.int("to"))
    return i1 if n.operator in COMPARISONS else n.dtype(1 if n.operator == "Where" else 0)


def _of_shape(n: Node) -> Elements:
    shape = list(n.shape())
    if n.operator == "Size":
        return np.array(product(n, shape), dtype=object)
    start, end = n.int("start", 0), n.int("end", len(shape))
    made = np.empty(len(shape), dtype=object)
    made[:] = shape
    return made[slice(start, end)]


def _fold(*operators: str) -> Callable[[Fold], Fold]:
    def declare(found: Fold) -> Fold:
        for operator in operators:
            FOLDS[operator] = found
        return found

    return declare


def _each(function: Callable[[Any, Any], Any]) -> Fold:
    ufunc = np.frompyfunc(function, 2, 1)

    def fold(n: Node, operands: Sequence[Elements]) -> Elements:
        return np.asarray(reduce(ufunc, operands), dtype=object)

    return fold


def _quotient(a: Dim, b: Dim) -> Dim:
    """Truncated as ONNX has it, which is floor where both are sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return floordiv(a, b)


FOLDS.update({
    "Add": _each(lambda a, b: a + b), "Sub": _each(lambda a, b: a - b), "Max": _each(maximum),
})  # fmt: skip


@_fold("Mul")
def _mul(n: Node, operands: Sequence[Elements]) -> Elements | list[Elements] | None:
    return _each(lambda a, b: product(n, (a, b)))(n, operands)


@_fold("Min")
def _min(n: Node, operands: Sequence[Elements]) -> Elements | list[Elements] | None:
    return _each(lambda a, b: least(a, b, n.w.facts))(n, operands)


@_fold("Div")
def _div(n: Node, operands: Sequence[Elements]) -> Elements | None:
    divisors = operands[1].ravel().tolist()
    if any(is_less_equal(1, d) is not True for d in divisors) or not _not_negative(operands[0]):
        return None
    return np.asarray(np.frompyfunc(_quotient, 2, 1)(*operands[:2]), dtype=object)


@_fold("Mod")
def _mod(n: Node, operands: Sequence[Elements]) -> Elements | None:
    has_sign_of_divisor = not n.int("fmod", 0) or _not_negative(operands[0])
    if not has_sign_of_divisor or any(is_less_equal(1, d) is not True for d in operands[1].ravel().tolist()):
        return None
    return np.asarray(np.frompyfunc(mod, 2, 1)(*operands[:2]), dtype=object)


def _not_negative(elements: Elements) -> bool:
    return all(is_less_equal(0, e) is True for e in elements.ravel().tolist())


def _compare(relation: Relation) -> Fold:
    """A comparison, where it is the same for every value of the symbols that may be."""

    def fold(n: Node, operands: Sequence[Elements]) -> Elements | None:
        facts = n.w.facts
        decide = np.frompyfunc(lambda a, b: facts.decide(Predicate.of(relation, a, b)), 2, 1)
        found = np.asarray(decide(*operands[:2]), dtype=object)
        return None if None in found.ravel().tolist() else np.asarray(found.astype(bool), dtype=object)

    return fold


COMPARISONS: Final[dict[str, Fold]] = {
    "Equal": _compare("=="), "Less": _compare("<"), "Greater": _compare(">"), "LessOrEqual": _compare("<="),
    "GreaterOrEqual": _compare(">="),
}  # fmt: skip
FOLDS.update(COMPARISONS)


@_fold("Where")
def _where(n: Node, operands: Sequence[Elements]) -> Elements | None:
    condition = operands[0]
    if not all(isinstance(e, int) for e in condition.ravel().tolist()):
        return None
    return np.asarray(np.where(condition.astype(bool), *operands[1:3]), dtype=object)


@_fold("Neg")
def _neg(n: Node, operands: Sequence[Elements]) -> Elements:
    return np.asarray(-operands[0], dtype=object)


@_fold("Identity")
def _identity(n: Node, operands: Sequence[Elements]) -> Elements:
    return operands[0]


@_fold("Cast")
def _cast(n: Node, operands: Sequence[Elements]) -> Elements | None:
    """The elements themselves, where the dtype has them: sizes fit in 32 bits."""
    dtype = _dtype(n)
    if not (dtype.is_integer or dtype == i1):
        return None
    fits = [
        dtype.minimum <= e <= dtype.maximum if isinstance(e, int) else dtype.bits >= 32 for e in operands[0].ravel()
    ]
    return operands[0] if all(fits) else None


@_fold("Gather")
def _gather(n: Node, operands: Sequence[Elements]) -> Elements | None:
    table, indices = operands[:2]
    axis = n.axis(table.ndim, default=0)
    places = [i for i in indices.ravel().tolist() if isinstance(i, int)]
    if len(places) != indices.size or any(not -table.shape[axis] <= i < table.shape[axis] for i in places):
        return None
    return np.asarray(np.take(table, np.array(places, np.int64).reshape(indices.shape), axis), dtype=object)


@_fold("Concat")
def _concat(n: Node, operands: Sequence[Elements]) -> Elements:
    axis = n.axis(operands[0].ndim)
    return np.concatenate(list(operands), axis)


@_fold("Unsqueeze", "Squeeze")
def _squeeze(n: Node, operands: Sequence[Elements]) -> Elements | None:
    axes = _axes(n, operands)
    if n.operator == "Unsqueeze":
        return None if axes is None else np.expand_dims(operands[0], tuple(axes))
    held = operands[0]
    chosen = [k for k, size in enumerate(held.shape) if size == 1] if axes is None else n.axes(axes, held.ndim)
    return held.reshape([size for k, size in enumerate(held.shape) if k not in chosen])


def _axes(n: Node, operands: Sequence[Elements]) -> list[int] | None:
    if len(operands) > 1:
        return [int(a) for a in operands[1].ravel().tolist()]
    return n.ints("axes") if n.raw("axes") is not None else None


@_fold("Slice")
def _slice(n: Node, operands: Sequence[Elements]) -> Elements | None:
    table = operands[0]
    if n.version < 10:
        starts, ends = n.ints("starts"), n.ints("ends")
        axes, steps = n.ints("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        held = [[e for e in o.ravel().tolist() if isinstance(e, int)] for o in operands[1:]]
        if any(len(h) != o.size for h, o in zip(held, operands[1:], strict=True)):
            return None
        starts, ends = held[0], held[1]
        axes = held[2] if len(held) > 2 and held[2] else list(range(len(starts)))
        steps = held[3] if len(held) > 3 and held[3] else [1] * len(starts)
    key = [slice(None)] * table.ndim
    for axis, start, end, step in zip(n.axes(axes, table.ndim), starts, ends, steps, strict=True):
        if step == 0:
            raise n.error("a step of a slice is 0", "another number", "0")
        first = max(start, -table.shape[axis]) if step < 0 else start  # as ONNX says, unlike NumPy
        key[axis] = slice(first, None if step < 0 and end < -table.shape[axis] else end, step)
    return table[tuple(key)]


@_fold("Reshape")
def _reshape(n: Node, operands: Sequence[Elements]) -> Elements | None:
    wanted = [e for e in operands[1].ravel().tolist() if isinstance(e, int)]
    if len(wanted) != operands[1].size or wanted.count(-1) > 1 or 0 in wanted:
        return None
    rest = prod(e for e in wanted if e != -1)
    if (-1 in wanted and (rest == 0 or operands[0].size % rest)) or (-1 not in wanted and rest != operands[0].size):
        return None
    return operands[0].reshape(wanted)


@_fold("Transpose")
def _transpose(n: Node, operands: Sequence[Elements]) -> Elements:
    rank = operands[0].ndim
    return operands[0].transpose(n.axes(n.ints("perm", list(range(rank))[::-1]), rank))


@_fold("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def _reduce(n: Node, operands: Sequence[Elements]) -> Elements | None:
    if operands[0].ndim != 1 or not operands[0].size:
        return None
    words: dict[str, Callable[[Any, Any], Any]] = {
        "ReduceProd": lambda a, b: product(n, (a, b)), "ReduceSum": lambda a, b: a + b,
        "ReduceMax": maximum, "ReduceMin": minimum,
    }  # fmt: skip
    made = reduce(words[n.operator], operands[0].tolist())
    return np.array([made] if n.int("keepdims", 1) else made, dtype=object)


@_fold("Split")
def _split(n: Node, operands: Sequence[Elements]) -> list[Elements] | None:
    axis = n.axis(operands[0].ndim, default=0)
    sizes = [int(e) for e in operands[1].ravel().tolist()] if len(operands) > 1 else n.ints("split", [])
    if not sizes:
        count = n.int("num_outputs", len(n.outputs))
        step = -(-operands[0].shape[axis] // max(count, 1))
        sizes = [min(step, operands[0].shape[axis] - step * k) for k in range(count)]
    if sum(sizes) != operands[0].shape[axis] or min(sizes, default=0) < 0:
        return None
    return np.split(operands[0], np.cumsum(sizes)[:-1].tolist(), axis)


@_fold("Expand")
def _expand(n: Node, operands: Sequence[Elements]) -> Elements | None:
    wanted = [e for e in operands[1].ravel().tolist() if isinstance(e, int)]
    if len(wanted) != operands[1].size or prod(wanted) > MOST_ELEMENTS or min(wanted, default=0) < 0:
        return None
    try:
        return np.broadcast_to(operands[0], np.broadcast_shapes(operands[0].shape, tuple(wanted)))
    except ValueError as error:
        raise n.error("shapes that do not broadcast", str(list(operands[0].shape)), str(wanted)) from error
