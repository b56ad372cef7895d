"""Index expressions as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimAttribute
from tcpx.payload.ir import Operation, register
from tcpx.payload.sizes import Dim
from tcpx.payload.types import ScalarType, dtype_of, index


@register
class IndexValue(Operation):
    """The value of an expression of sizes and loop variables, as an integer."""

    __slots__ = ()
    opcode = "tcp.index_value"
    value = DimAttribute()
    """The expression."""

    @classmethod
    def of(cls, value: Dim, dtype: ScalarType) -> Operation:
        """A detached scalar of this type."""
        return cls([], [dtype], {"value": value})

    def verify(self) -> None:
        dtype = self.result.type
        if not isinstance(dtype, ScalarType) or not (dtype.is_integer or dtype == index):
            raise self.error("an index is an integer", required="a scalar type of integers", found=str(dtype))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.full(evaluation.batch, evaluation.size(self.value)).astype(dtype_of(self.result.type).numpy),)
