"""Constants: a literal, or a named array that lives beside the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import Operation, Value, register
from tcpx.payload.types import Type, VectorType, dtype_of, shape_of


@register
class Const(Operation):
    """A constant: `value` is a scalar literal (splat over the shape), or `constant` names a stored array."""

    __slots__ = ()
    opcode = "tcp.const"

    @classmethod
    def literal(cls, value: float | int, type_: Type) -> Const:
        """A detached constant of this type, every element `value`."""
        held = float(value) if dtype_of(type_).is_float else int(value)
        return cls([], [type_], {"value": held})

    def verify(self) -> None:
        shape = shape_of(self.result.type)
        if ("value" in self.attributes) == ("constant" in self.attributes):
            raise self.error("a constant has either a `value` or the name of a `constant`")
        if any(not isinstance(d, int) for d in shape):
            raise self.error("a constant has a static shape", required="int dims", found=str(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        dtype, shape = dtype_of(self.result.type), evaluation.shape(self.result.type)
        name = self.attributes.get("constant")
        if not isinstance(name, str):
            literal = self.attributes["value"]
            if not isinstance(literal, int | float):
                raise self.error("the value of a constant is a number", found=str(literal))
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


def splat(build: Build, number: float, type_: Type) -> Value:
    """A constant `number` in the kind, shape and dtype of `type_`."""
    if isinstance(type_, VectorType):
        from tcpx.payload.ops.movement import Broadcast  # movement builds on constants elsewhere

        scalar = build(Const.literal(number, type_.dtype))
        return build(Broadcast.of(scalar, (), type_))
    return build(Const.literal(number, type_))
