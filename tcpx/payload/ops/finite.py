"""Which values have no infinity and no NaN among their elements, as far as a payload says it."""

from math import isfinite

import numpy as np

from tcpx.payload.ir import Value
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.ops.movement import Fill, Movement
from tcpx.payload.ops.vector import Read
from tcpx.payload.ops.views import View
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import dtype_of


def is_finite(value: Value) -> bool:
    """Whether each element is known to be finite: those of integers and of finite constants, and of what views and
    movements make of these. A constant whose array has not been read is not known."""
    op = value.defining_op
    if not dtype_of(value.type).is_float:
        return True
    if op is None:
        return False
    stored = Constant(op).stored_array
    if stored is not None:
        func = op.func
        array = func.module.constants.get(stored) if func is not None and func.module is not None else None
        return array is not None and bool(np.isfinite(array).all())
    if isinstance(op, Materialize):
        return is_finite(op.source)
    if isinstance(op, Read):
        return isfinite(op.value) and is_finite(op.source)
    if isinstance(op, View | Movement) and op.operands:
        rest = ViewLike(op).rest
        return (rest is None or isfinite(rest)) and all(map(is_finite, op.operands))
    number = op.literal if isinstance(op, Fill) else Constant(op).number
    return isinstance(number, int | float) and isfinite(number)
