"""Rows that compute, beside what their semantics say: on special values, on random bits and on moderate numbers."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from tcpx.target import InstructionRow, LaneType
from tcpx.verification.vector_rows.library import RowLibrary
from tcpx.verification.vector_rows.meaning import Array, evaluate, evaluate_row, numpy_dtype
from tcpx.verification.vector_rows.source import tested_lanes

VALUES: Final = 4096
"""Lanes of an operand; a multiple of every lane count."""
KINDS_OF_VALUES: Final = (
    "compute",
    "zero",
    "splat",
    "extract",
    "insert",
    "shuffle",
    "permute",
    "horizontal_add",
    "horizontal_max",
    "horizontal_min",
    "dot",
)
_FLOATS: Final = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, 127.5, -128.5, 1e30, np.inf, -np.inf, np.nan)
_MANTISSA_BITS: Final = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}


def wrong_value(library: RowLibrary, row: InstructionRow) -> str | None:
    """What a row of `KINDS_OF_VALUES` gives that its semantics do not say; None where it is right. Raises TargetError
    for semantics that the types of the row do not have."""
    operands = _operands_of(row)
    with np.errstate(all="ignore"):
        found, wanted = _run(library, row, operands), _expected(row, operands)
        ulps = library.tolerances.get((row.semantics or "").partition("(")[0], 0)
        same = _agree(row, found, wanted, ulps, _bound_of_sums(row, operands))
    if same.all():
        return None
    index = tuple(int(axis[0]) for axis in np.nonzero(~same))
    lane = index[0] * wanted.shape[2] + index[2]
    given = ", ".join(f"{'abc'[k]} = {x.reshape(-1)[min(lane, x.size - 1)]}" for k, x in enumerate(operands))
    where = f" for {given}" if given else ""
    return f"{found[index]} instead of {wanted[index]}{where}; {np.count_nonzero(~same)} of {same.size} values differ"


def _special_values(dtype: str) -> Array:
    """The values of a dtype where things go wrong: zeros, halves, limits, denormals, infinities, NaN."""
    numpy = numpy_dtype(dtype)
    if dtype == "i1":
        return np.array([False, True])
    if dtype not in _MANTISSA_BITS:
        limits = np.iinfo(numpy.name)
        return np.array([0, 1, 2, 3, 7, limits.max // 2, limits.max - 1, limits.max, limits.min, limits.min + 1], numpy)
    mantissa, width = _MANTISSA_BITS[dtype], 8 * numpy.itemsize
    infinity = ((1 << (width - 1)) - 1) >> mantissa << mantissa
    edges = [1, 3, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity - (1 << mantissa)]
    edges += [edge | 1 << (width - 1) for edge in edges]
    whole = 2.0**mantissa
    around = [whole - 0.5, whole, whole + 1, whole * 2 + 2, 2147483520.0, 2147483648.0, -2147483648.0, 65519.0, 65520.0]
    with np.errstate(all="ignore"):
        plain = np.array([*_FLOATS, *around], np.float64).astype(numpy)
    return np.concatenate([plain, np.array(edges, f"u{numpy.itemsize}").view(numpy)])


def _random_values(dtype: str, count: int, seed: int) -> Array:
    """Random bit patterns and, for floats, as many of moderate size."""
    random = np.random.default_rng([seed, *dtype.encode()])
    if dtype == "i1":
        return random.integers(0, 2, count).astype(np.bool_)
    numpy = numpy_dtype(dtype)
    patterns: Array = np.frombuffer(random.bytes(count * numpy.itemsize), numpy)
    if dtype not in _MANTISSA_BITS:
        return patterns
    moderate = random.normal(size=count) * 10.0 ** random.integers(-3, 3, count)
    return np.where(random.integers(0, 2, count) == 0, patterns, moderate.astype(numpy))


@lru_cache(maxsize=256)
def _combined_values(dtypes: tuple[str, ...]) -> tuple[Array, ...]:
    """One array per operand: combinations of special values, as many as fit half, then random values."""
    special = [_special_values(d) for d in dtypes]
    combinations = list(product(*(range(len(s)) for s in special)))
    chosen = np.random.default_rng(1).permutation(len(combinations))[: VALUES // 2]
    columns = np.array([combinations[i] for i in chosen], np.int64).T
    return tuple(
        np.concatenate([s[column], _random_values(d, VALUES - len(chosen), seed)])
        for seed, (d, s, column) in enumerate(zip(dtypes, special, columns, strict=True))
    )


def _operands_of(row: InstructionRow) -> list[Array]:
    """Flat operands within what the row is defined on."""
    if row.kind in ("dot", "insert", "shuffle", "permute") or row.kind.startswith("horizontal"):
        return [
            _tamed(_random_values(t.dtype, VALUES * t.lanes // row.operands[0].lanes, k), row)
            for k, t in enumerate(row.operands)
        ]
    operands = [x.copy() for x in _combined_values(tuple(t.dtype for t in row.operands))]
    if row.semantics == "scale2(a, b)":
        exponents = np.random.default_rng(2).integers(-1200, 1200, VALUES)
        exponents[::3] = np.random.default_rng(3).integers(-160, 160, exponents[::3].size)
        operands[1] = np.where(np.arange(VALUES) % 17 == 0, np.nan, exponents).astype(operands[0].dtype)
    for k, condition in enumerate(("a_not_nan", "b_not_nan")):
        if row.condition == condition:
            operands[k][np.isnan(operands[k])] = 1
    return operands


def _tamed(x: Array, row: InstructionRow) -> Array:
    """Floats whose sums neither overflow nor hang on the order; a few NaN where the row keeps them."""
    if x.dtype.kind not in "fV" or row.kind in ("insert", "shuffle", "permute"):
        return x
    random = np.random.default_rng(4)
    moderate = random.normal(size=x.shape).astype(x.dtype)
    if row.kind in ("horizontal_max", "horizontal_min"):
        moderate[random.integers(0, 40, x.shape) == 0] = np.nan
        moderate[random.integers(0, 40, x.shape) == 0] = np.inf
    return moderate


def _run(library: RowLibrary, row: InstructionRow, operands: Sequence[Array]) -> Array:
    """What the built row gives: vectors x tried lanes x lanes of the result."""
    result = _result_of(row)
    count = VALUES // row.operands[0].lanes if row.operands else VALUES // result.lanes
    out = np.zeros((count, len(tested_lanes(row)), result.lanes), numpy_dtype(result.dtype))
    given = [np.ascontiguousarray(x) for x in operands]
    library.run(row, [x.ctypes.data for x in given], out.ctypes.data, count)
    return out


def _expected(row: InstructionRow, operands: Sequence[Array]) -> Array:
    """What the row's semantics say, in the shape of `_run`."""
    result = _result_of(row)
    if row.kind == "compute":
        values = _evaluated(
            row.semantics or "",
            tuple(t.dtype for t in row.operands),
            result.dtype,
            tuple(x.tobytes() for x in operands),
        )
        return values.reshape(-1, 1, result.lanes)
    vectors = [x.reshape(-1, t.lanes) if t.lanes > 1 else x for x, t in zip(operands, row.operands, strict=True)]
    lanes = tested_lanes(row)
    values = np.stack([evaluate_row(row, vectors, lane) for lane in lanes], axis=-1 if result.lanes == 1 else -2)
    return values.reshape(-1, len(lanes), result.lanes)


@lru_cache(maxsize=512)
def _evaluated(semantics: str, dtypes: tuple[str, ...], result: str, operands: tuple[bytes, ...]) -> Array:
    """The values of an expression lane by lane; rows of different widths share them."""
    values: list[Array] = [np.frombuffer(x, numpy_dtype(d)) for x, d in zip(operands, dtypes, strict=True)]
    return evaluate(semantics, values, result)


def _result_of(row: InstructionRow) -> LaneType:
    if row.result is None:
        raise ValueError(f"{row.name} has no result")
    return row.result


def _agree(row: InstructionRow, found: Array, wanted: Array, ulps: int, bound: Array | None) -> npt.NDArray[np.bool_]:
    """Where the values agree: equal bits, or both NaN, or within the row's tolerance."""
    if found.dtype.kind not in "fV":
        return np.asarray(found == wanted)
    f, w = found.astype(np.float64), wanted.astype(np.float64)
    same = (f == w) & (np.signbit(f) == np.signbit(w)) | (np.isnan(f) & np.isnan(w))
    if row.kind in ("horizontal_max", "horizontal_min") or row.semantics in ("max(a, b)", "min(a, b)"):
        return same | (f == w)  # which zero is unspecified
    if bound is not None:
        return same | (np.abs(f - w) <= bound.reshape(f.shape))
    if ulps:
        return same | (np.abs(f - w) <= ulps * np.spacing(np.abs(wanted)).astype(np.float64))
    return same


def _bound_of_sums(row: InstructionRow, operands: Sequence[Array]) -> Array | None:
    """For sums of floats, whose order is free: gamma(k) times the sum of the absolute values of the terms."""
    result = _result_of(row)
    if result.dtype not in ("f32", "f64"):
        return None
    epsilon = np.finfo(numpy_dtype(result.dtype).name).eps
    if row.kind == "horizontal_add":
        return np.sum(np.abs(operands[0].astype(np.float64)).reshape(-1, row.operands[0].lanes), axis=1) * epsilon * 64
    if row.kind == "dot":
        a, b, c = (np.abs(x.astype(np.float64)) for x in operands)
        terms = np.sum((b * c).reshape(-1, result.lanes, row.operands[1].lanes // result.lanes), axis=2)
        return (terms + a.reshape(-1, result.lanes)) * epsilon * 8
    return None
