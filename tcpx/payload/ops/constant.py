"""Constants: a literal, or a named array that lives beside the text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from math import isfinite, prod
from typing import Protocol, SupportsFloat, cast

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcpx.limits import MOST_WRITTEN_ELEMENTS
from tcpx.payload.diagnostics import Direction, LimitError
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Attribute, Operation, Range, Value, register
from tcpx.payload.sizes import Dim
from tcpx.payload.types import ScalarType, TensorType, Type, VectorType, dtype_of, shape_of
from tcpx.payload.value_ranges import NOTHING, order_of


class _Limits(Protocol):
    """What of `ml_dtypes.finfo` is used here."""

    max: SupportsFloat


@register
class Const(Operation):
    """A constant: `value` is a scalar literal (splat over the shape), or `constant` names a stored array. Elements that
    are written in the text, as nested lists, are the `value` of a stored array."""

    __slots__ = ()
    opcode = "tcp.const"
    attribute_names = ("value", "constant")
    computes_result = True

    @property
    def number(self) -> int | float | None:
        value = self.attributes.get("value")
        return value if isinstance(value, int | float) else None

    @property
    def stored_array(self) -> str | None:
        name = self.attributes.get("constant")
        return name if isinstance(name, str) else None

    @classmethod
    def literal(cls, value: float | int, type_: Type) -> Const:
        """A detached constant of this type, every element `value`."""
        held = float(value) if dtype_of(type_).is_float else int(value)
        return cls([], [type_], {"value": held})

    def verify(self) -> None:
        shape = shape_of(self.result.type)
        value = self.attributes.get("value")
        if ("value" in self.attributes) == ("constant" in self.attributes) and not isinstance(value, tuple):
            raise self.error(
                "a constant has either a `value` or the name of a `constant`",
                required="one of `value` and `constant`",
                found=", ".join(self.attributes) or "no attributes",
            )
        if any(not isinstance(d, int) for d in shape):
            raise self.error(
                "a constant has a static shape",
                required="dims that are numbers",
                found=str(self.result.type),
                fix=Direction("tcp.fill repeats a value in a tensor of any size")
                if "value" in self.attributes
                else None,
            )
        if isinstance(value, tuple):
            _check_lists(self, value, shape, "")
        elif value is not None:
            check_literal(self, value, dtype_of(self.result.type))

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        value, name, func = self.number, self.stored_array, self.func
        if value is not None and isinstance(value, int):
            return int(value), int(value) + 1
        constants = func.module.constants if func is not None and func.module is not None else None
        if name is None or constants is None or not dtype_of(self.result.type).is_integer:
            return None
        array = constants.get(name)
        if array is None or not array.size:
            return NOTHING if array is not None or name in constants.unread else None
        return int(array.min()), int(array.max()) + 1

    def result_order(self, number: int, of: Callable[[Value], Collection[str]]) -> Collection[str]:
        name, func = self.stored_array, self.func
        constants = func.module.constants if func is not None and func.module is not None else None
        array = constants.get(name) if name is not None and constants is not None else None
        return order_of(array) if array is not None and dtype_of(self.result.type).is_integer else ()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype, shape = dtype_of(self.result.type), evaluation.shape(self.result.type)
        name = self.stored_array
        if name is None:
            return (np.full(shape, cast("npt.ArrayLike", self.attributes["value"])).astype(dtype.numpy),)
        array = evaluation.constants.get(name)
        if array is None:
            known = ", ".join(evaluation.constants) or "none"
            raise self.error(f'there is no constant "{name}"', required="a stored array", found=f"stored: {known}")
        if array.dtype != dtype.numpy or array.shape != shape:
            raise self.error(
                f'the constant "{name}" does not fit its type',
                required=str(self.result.type),
                found=f"{array.dtype} of shape {array.shape}",
            )
        return (array,)


def written_array(op: Const) -> Array | None:
    """The elements that the text of a constant lists; None of one that is a number or names an array. Raises
    VerifyError where they do not fit the type, and LimitError where they are too many."""
    value, type_ = op.attributes.get("value"), op.result.type
    if not isinstance(value, tuple):
        return None
    shape = tuple(dim for dim in shape_of(type_) if isinstance(dim, int))
    op.verify()
    if prod(shape) > MOST_WRITTEN_ELEMENTS:
        found = op.error(
            "the constant has too many elements to be written in the text",
            required=f"at most {MOST_WRITTEN_ELEMENTS} elements",
            found=f"{prod(shape)}",
            fix='store the array in an npz file, and name it: {constant = "w"}',
        )
        raise LimitError(found.diagnostic)
    dtype = dtype_of(type_)
    with np.errstate(over="ignore"):
        return np.array(value, np.float64 if dtype.is_float else dtype.numpy).reshape(shape).astype(dtype.numpy)


def _check_lists(op: Operation, value: Attribute, shape: Sequence[Dim], place: str) -> None:
    """Lists within one another have the extents of a shape, and numbers of the dtype of the constant."""
    where = f"element [{place.removeprefix(', ')}]" if place else "the value"
    if not shape:
        if isinstance(value, tuple):
            raise op.error(f"{where} is a list", required=f"a number: {op.result.type}", found=_length(value))
        check_literal(op, value, dtype_of(op.result.type))
        return
    if not isinstance(value, tuple) or len(value) != shape[0]:
        required = f"a list of {shape[0]}: {op.result.type}"
        raise op.error(f"{where} does not have the shape of the type", required=required, found=_length(value))
    for k, element in enumerate(value):
        _check_lists(op, element, shape[1:], f"{place}, {k}")


def _length(value: Attribute) -> str:
    return f"a list of {len(value)}" if isinstance(value, tuple) else f"{value}"


@cache
def least_number(dtype: ScalarType) -> float:
    """The least finite number of a float."""
    return -float(cast("_Limits", ml_dtypes.finfo(dtype.numpy)).max)


def check_literal(op: Operation, value: Attribute, dtype: ScalarType) -> None:
    """Raise VerifyError where a number that an operation holds is none of its dtype."""
    if dtype.is_float:
        most = -least_number(dtype)
        fits = isinstance(value, int | float) and (not isfinite(value) or abs(value) <= most)
        required = f"a number from {-most:g} to {most:g}, inf, -inf or nan"
    else:
        fits = isinstance(value, int) and dtype.minimum <= value <= dtype.maximum
        required = f"an integer from {dtype.minimum} to {dtype.maximum}"
    if not fits:
        found = str(value) if isinstance(value, int | float | str) else "no number"
        raise op.error(f"the value of a constant is one of its type {dtype}", required, found)


def splat(build: Build, number: float, type_: Type) -> Value:
    """A constant `number` in the kind, shape and dtype of `type_`."""
    from tcpx.payload.ops.movement import Broadcast, Fill  # movement builds on constants elsewhere

    if isinstance(type_, TensorType):
        return build(Fill.of(number, type_))
    if isinstance(type_, VectorType):
        scalar = build(Const.literal(number, type_.dtype))
        return build(Broadcast.of(scalar, (), type_))
    return build(Const.literal(number, type_))
