"""Constants: a literal, or a named array that lives beside the text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from math import isfinite
from typing import Protocol, SupportsFloat, cast

import ml_dtypes
import numpy as np

from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Attribute, Operation, Range, Value, register
from tcpx.payload.types import ScalarType, TensorType, Type, VectorType, dtype_of, shape_of
from tcpx.payload.value_ranges import NOTHING, order_of


class _Limits(Protocol):
    """What of `ml_dtypes.finfo` is used here."""

    max: SupportsFloat


@register
class Const(Operation):
    """A constant: `value` is a scalar literal (splat over the shape), or `constant` names a stored array."""

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
        if ("value" in self.attributes) == ("constant" in self.attributes):
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
        if "value" in self.attributes:
            check_literal(self, self.attributes["value"], dtype_of(self.result.type))

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
        name, literal = self.stored_array, self.number
        if name is None:
            if literal is None:
                raise self.error(
                    "the value of a constant is a number",
                    required="an int, a float or a truth value",
                    found=str(self.attributes["value"]),
                )
            return (np.full(shape, literal).astype(dtype.numpy),)
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
