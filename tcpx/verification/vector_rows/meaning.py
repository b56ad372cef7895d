"""What rows of instructions compute, in NumPy.

Arrays have their lanes in the last axis; a scalar is an array of one lane fewer dimension or one that broadcasts.
"""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.ir import Block
from tcpx.payload.types import SCALARS, ScalarType
from tcpx.target.errors import TargetError
from tcpx.target.rows import DTYPE_BITS, InstructionRow, LaneType
from tcpx.target.semantics import (
    COMPARISONS,
    OPERANDS,
    Binary,
    Call,
    Expression,
    Operand,
    function_classes,
    parse_semantics,
)

Array = npt.NDArray[np.generic]


@cache
def numpy_dtype(dtype: str) -> np.dtype[np.generic]:
    """The NumPy dtype of a dtype name; bf16 is that of ml_dtypes."""
    if dtype == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    if dtype == "i1":
        return np.dtype(np.bool_)
    if dtype == "index":
        return np.dtype(np.int64)
    letter = {"f": "f", "si": "i", "ui": "u"}[dtype.rstrip("0123456789")]
    return np.dtype(f"{letter}{DTYPE_BITS[dtype] // 8}")


def evaluate_row(row: InstructionRow, operands: Sequence[Array], lane: int | Sequence[int] = 0) -> Array:
    """The value of a row that reads and writes no memory. `lane` is that of an extract or insert, or all of a permute.

    Raises TargetError for kinds that access memory.
    """
    result = _result(row)
    match row.kind:
        case "compute" | "dot":
            return evaluate(row.semantics or "", operands, result.dtype)
        case "zero":
            return np.zeros(result.lanes, numpy_dtype(result.dtype))
        case "splat":
            given = np.asarray(operands[0])
            return np.tile(
                given if row.operands[0].lanes > 1 else given[..., None], result.lanes // row.operands[0].lanes
            )
        case "extract":
            return np.asarray(operands[0][..., lane])
        case "insert":
            vector = operands[0].copy()
            vector[..., lane] = operands[1]
            return vector
        case "shuffle":
            return np.concatenate(operands, axis=-1)[..., list(row.lanes)]
        case "permute":
            return np.asarray(np.concatenate(operands, axis=-1)[..., lane])
        case "horizontal_add":
            return np.asarray(np.sum(operands[0], axis=-1, dtype=numpy_dtype(result.dtype)))
        case "horizontal_max":
            return np.asarray(np.max(operands[0], axis=-1))
        case "horizontal_min":
            return np.asarray(np.min(operands[0], axis=-1))
        case _:
            raise TargetError(f"row {row.name} accesses memory", required="a row of values", found=row.kind)


def _result(row: InstructionRow) -> LaneType:
    if row.result is None:
        raise TargetError(f"row {row.name} has no result", required="a row of values", found=row.kind)
    return row.result


def evaluate(semantics: str, operands: Sequence[Array], result: str) -> Array:
    """The value of an expression over the operands a, b, c; `result` is its dtype.

    Raises TargetError if operands that must agree differ in dtype, or the value is not of the dtype of the result.
    """
    with np.errstate(all="ignore"):
        value = _value(parse_semantics(semantics), operands, numpy_dtype(result))
    if value.dtype != numpy_dtype(result):
        raise TargetError(
            f"{semantics} is not of the dtype of the result", required=result, found=str(value.dtype), where=semantics
        )
    return value


def _value(expression: Expression, operands: Sequence[Array], result: np.dtype[np.generic]) -> Array:
    match expression:
        case Operand(name):
            return np.asarray(operands[OPERANDS.index(name)])
        case Binary(operator, lhs, rhs):
            x, y = _value(lhs, operands, result), _value(rhs, operands, result)
            _require_equal(operator, x, y)
            value = np.asarray(_OPERATORS[operator](x, y))
            return value if operator in COMPARISONS else value.astype(x.dtype, copy=False)
        case Call("cast", (argument,)):
            return _cast(_value(argument, operands, result), result)
        case Call("bitcast", (argument,)):
            return _value(argument, operands, result).view(result)
        case Call("dot", (lhs, rhs)):
            return _dot(_value(lhs, operands, result), _value(rhs, operands, result), operands[0].shape[-1], result)
        case Call("select", (condition, lhs, rhs)):
            x, y = _value(lhs, operands, result), _value(rhs, operands, result)
            _require_equal("select", x, y)
            return np.where(_value(condition, operands, result), x, y)
        case Call(function, arguments):
            values = [_value(x, operands, result) for x in arguments]
            _require_equal(function, *values)
            return _call(function, values)


def _require_equal(what: str, *values: Array) -> None:
    found = {str(v.dtype) for v in values}
    if len(found) > 1:
        raise TargetError(f"operands of {what} differ in dtype", required="one dtype", found=", ".join(sorted(found)))


def _dot(b: Array, c: Array, lanes: int, result: np.dtype[np.generic]) -> Array:
    """Products of neighbours summed: lane i of the result takes lanes g*i .. g*i + g - 1 of b and c."""
    products = np.multiply(b.astype(result), c.astype(result))
    return np.asarray(np.sum(products.reshape(*b.shape[:-1], lanes, -1), axis=-1, dtype=result))


def _cast(x: Array, result: np.dtype[np.generic]) -> Array:
    if x.dtype.kind not in "fV" or result.kind not in "iu":  # V: bf16
        return x.astype(result)
    limits = np.iinfo(result.name)
    wide = np.trunc(x.astype(np.float64))
    high = wide >= 2.0 ** (limits.bits - (result.kind == "i"))
    low = wide <= float(limits.min)
    inside = np.where(high | low | np.isnan(wide), 0.0, wide).astype(result)
    return np.where(high, result.type(limits.max), np.where(low, result.type(limits.min), inside))


def _call(function: str, values: Sequence[Array]) -> Array:
    """What the evaluator computes for the operation that a function is."""
    lanes = Block([(name, _scalar(v.dtype)) for name, v in zip(OPERANDS, values, strict=False)])
    op = function_classes()[function].of(*lanes.args)
    try:
        op.verify()
    except VerifyError as error:
        said = error.diagnostic
        raise TargetError(said.message, required=said.required or "", found=said.found or "") from error
    return op.evaluate(values, Evaluation(Constants(), {}))[0]


@cache
def _scalar(dtype: np.dtype[np.generic]) -> ScalarType:
    return next(scalar for name, scalar in SCALARS.items() if numpy_dtype(name) == dtype)


_OPERATORS: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
