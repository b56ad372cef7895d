"""Index expressions as values."""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimAttribute, Operand, VariableAttribute
from tcpx.payload.ir import Operation, Value, register
from tcpx.payload.sizes import Dim, Var
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


@register
class Bind(Operation):
    """Bind a size variable, for the rest of the block, to a value; `var` gives its range."""

    __slots__ = ()
    opcode = "gml_st.bind"
    operand, var = Operand(), VariableAttribute()
    result_count = 0
    has_side_effects = True

    @classmethod
    def of(cls, operand: Value, var: Var) -> Operation:
        """A detached binding."""
        return cls([operand], [], {"var": var}, name=var.name)

    def verify(self) -> None:
        dtype = self.operand.type
        if not isinstance(dtype, ScalarType) or not dtype.is_integer:
            raise self.error("a size is an integer", required="a scalar type of integers", found=str(dtype))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        evaluation.sizes[self.var.name] = int(args[0])
        return ()
