"""What rows of instructions compute, in NumPy.

Arrays have their lanes in the last axis; a scalar is an array of one lane fewer dimension or one that broadcasts.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from tcpx.payload.fused import fused_multiply_add
from tcpx.target.errors import TargetError
from tcpx.target.rows import DTYPE_BITS, InstructionRow, LaneType
from tcpx.target.semantics import COMPARISONS, OPERANDS, Binary, Call, Expression, Operand, parse_semantics

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


def evaluate_row(row: InstructionRow, operands: Sequence[Array], lane: int = 0) -> Array:
    """The value of a row that reads and writes no memory. `lane` is that of an extract or insert.

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
        case Call(function, arguments):
            values = [_value(x, operands, result) for x in arguments]
            _require_equal(function, *(values[1:] if function == "select" else values))
            return np.asarray(_CALLS[function](*values))


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


def _fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once."""
    if a.dtype.kind not in "fV":  # V: bf16
        raise TargetError("fma is defined on floats", required="f16, bf16, f32 or f64", found=str(a.dtype))
    return fused_multiply_add(a.astype(np.float64), b.astype(np.float64), c.astype(np.float64), a.dtype)


def _scale2(a: Array, b: Array) -> Array:
    exponent = np.clip(np.nan_to_num(b.astype(np.float64)), -4000, 4000).astype(np.int32)
    return np.where(np.isnan(b), b, np.ldexp(a, exponent)).astype(a.dtype)


def _by_element(function: Callable[..., float], *values: Array) -> Array:
    broadcast = np.broadcast_arrays(*values)
    flat = [function(*(float(x) for x in xs)) for xs in zip(*(v.ravel() for v in broadcast), strict=True)]
    return np.array(flat, dtype=values[0].dtype).reshape(broadcast[0].shape)


def _erf(a: Array) -> Array:
    return _by_element(math.erf, a)


def _through_f64(function: Callable[..., Array]) -> Callable[..., Array]:
    """A function of libm in f64, rounded to the dtype of its operands."""

    def call(*values: Array) -> Array:
        return np.asarray(function(*(v.astype(np.float64) for v in values))).astype(values[0].dtype)

    return call


def _pow(a: Array, b: Array) -> Array:
    """Of integers modulo two to the width; of a negative exponent, a fraction towards 0."""
    if a.dtype.kind == "f":
        return _through_f64(np.power)(a, b)
    modulus = 1 << 8 * a.dtype.itemsize
    numbers = [_power(int(x), int(n), modulus) for x, n in zip(a.ravel(), b.ravel(), strict=True)]
    return np.array(numbers, f"u{a.dtype.itemsize}").view(a.dtype).reshape(a.shape)


def _power(x: int, n: int, modulus: int) -> int:
    if n >= 0:
        return pow(x, n, modulus)
    return {1: 1, -1: (-1) ** (n % 2)}.get(x, 0) % modulus


def _round_away(a: Array) -> Array:
    """To nearest, ties away from zero."""
    below_half = np.nextafter(a.dtype.type(0.5), a.dtype.type(0))
    return np.copysign(np.floor(np.abs(a) + below_half), a)


def _left_of(function: Callable[..., Array]) -> Callable[..., Array]:
    """What a division leaves; of integers, all of a where b is 0."""

    def call(a: Array, b: Array) -> Array:
        left = np.asarray(function(a, b))
        return left if a.dtype.kind == "f" else np.where(b == 0, a, left)

    return call


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

_CALLS: dict[str, Callable[..., Array]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "complement": np.logical_not,
    "cos": _through_f64(np.cos),
    "erf": _erf,
    "exp": _through_f64(np.exp),
    "exp2": _through_f64(np.exp2),
    "expm1": _through_f64(np.expm1),
    "floor": np.floor,
    "floordiv": np.floor_divide,
    "fma": _fma,
    "log": _through_f64(np.log),
    "log10": _through_f64(np.log10),
    "log1p": _through_f64(np.log1p),
    "log2": _through_f64(np.log2),
    "max": np.maximum,
    "min": np.minimum,
    "mod": _left_of(np.mod),
    "neg": np.negative,
    "pow": _pow,
    "rem": _left_of(np.fmod),
    "round": np.rint,
    "round_away": _round_away,
    "scale2": _scale2,
    "select": np.where,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "sin": _through_f64(np.sin),
    "sqrt": np.sqrt,
    "tan": _through_f64(np.tan),
    "tanh": _through_f64(np.tanh),
    "trunc": np.trunc,
}
