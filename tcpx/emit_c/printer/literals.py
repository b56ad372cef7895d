"""Numbers as C literals."""

import math

import numpy as np

from tcpx.payload.types import ScalarKind, ScalarType


def literal(value: float | int, dtype: ScalarType) -> str:
    """`value` in the C type of a scalar of this type; never needs parentheses. f16 and bf16 are stored as bits."""
    match dtype.kind:
        case ScalarKind.BOOL:
            return "1" if value else "0"
        case ScalarKind.FLOAT if dtype.bits == 16:
            with np.errstate(over="ignore"):
                return f"0x{int(np.asarray(value).astype(dtype.numpy).view(np.uint16)):04x}"
        case ScalarKind.FLOAT:
            return _float_literal(float(value), dtype)
        case ScalarKind.UNSIGNED:
            return f"{int(value)}u" if dtype.bits <= 32 else f"UINT64_C({int(value)})"
        case _:
            return _signed_literal(int(value), dtype.bits)


def _float_literal(value: float, dtype: ScalarType) -> str:
    single = dtype.bits == 32
    suffix = "f" if single else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    with np.errstate(over="ignore"):
        rounded = np.float32(abs(value)) if single else np.float64(abs(value))
    text = f"__builtin_inf{suffix}()" if np.isinf(rounded) else str(rounded) + suffix
    return f"(-{text})" if math.copysign(1.0, value) < 0 else text


def _signed_literal(value: int, bits: int) -> str:
    if value == -(1 << (bits - 1)) and bits >= 32:
        return f"INT{bits}_MIN"
    text = f"INT64_C({abs(value)})" if bits == 64 and abs(value) > 0x7FFFFFFF else str(abs(value))
    return f"(-{text})" if value < 0 else text
