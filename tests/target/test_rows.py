"""Every row that computes, built and run, against what its semantics say; on random and on special values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import numpy.typing as npt
import pytest

from tcpx.target import InstructionRow, LaneType, load_target
from tests.optional_tools import CLANG
from tests.target.evaluate import evaluate, evaluate_row, numpy_dtype

Array = npt.NDArray[Any]

VALUES = 4096  # lanes per operand; a multiple of every lane count
FLOOR = {"generic": 718, "x86_avx2": 1080, "x86_avx512": 1540}
"""At least this many rows of a target that compute must be exercised."""

FLOATS = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.7, 127.5, -128.5, 1e30, np.inf, -np.inf, np.nan]
COMPUTING = (
    "compute",
    "zero",
    "splat",
    "extract",
    "insert",
    "shuffle",
    "horizontal_add",
    "horizontal_max",
    "horizontal_min",
    "dot",
)


def special_values(dtype: str) -> Array:
    """The values of a dtype where things go wrong: zeros, halves, limits, denormals, infinities, NaN."""
    numpy = numpy_dtype(dtype)
    if dtype == "i1":
        return np.array([False, True])
    if dtype.startswith(("si", "ui", "index")):
        limits = np.iinfo(numpy.name)
        return np.array([0, 1, 2, 3, 7, limits.max // 2, limits.max - 1, limits.max, limits.min, limits.min + 1], numpy)
    bits = {"f64": np.uint64, "f32": np.uint32, "f16": np.uint16, "bf16": np.uint16}[dtype]
    mantissa = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}[dtype]
    width = np.dtype(bits).itemsize * 8
    infinity = ((1 << (width - 1)) - 1) >> mantissa << mantissa
    edges = [1, 3, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity - (1 << mantissa)]
    edges += [edge | 1 << (width - 1) for edge in edges]
    whole = 2.0**mantissa
    around = [whole - 0.5, whole, whole + 1, whole * 2 + 2, 2147483520.0, 2147483648.0, -2147483648.0, 65519.0, 65520.0]
    with np.errstate(all="ignore"):
        plain = np.array([*FLOATS, *around], np.float64).astype(numpy)
    return np.concatenate([plain, np.array(edges, bits).view(numpy)])


def random_values(dtype: str, count: int, seed: int) -> Array:
    """Random bit patterns and, for floats, as many of moderate size."""
    random = np.random.default_rng([seed, *dtype.encode()])
    if dtype == "i1":
        return random.integers(0, 2, count).astype(np.bool_)
    numpy = numpy_dtype(dtype)
    patterns = np.frombuffer(random.bytes(count * numpy.itemsize), numpy)
    if not dtype.startswith(("f", "bf")):
        return patterns
    moderate = random.normal(size=count) * 10.0 ** random.integers(-3, 3, count)
    return np.where(random.integers(0, 2, count) == 0, patterns, moderate.astype(numpy))


@lru_cache(maxsize=256)
def operand_values(dtypes: tuple[str, ...]) -> tuple[Array, ...]:
    """One array per operand: combinations of special values, as many as fit half, then random values."""
    special = [special_values(d) for d in dtypes]
    combinations = list(product(*(range(len(s)) for s in special)))
    chosen = np.random.default_rng(1).permutation(len(combinations))[: VALUES // 2]
    columns = np.array([combinations[i] for i in chosen]).T
    return tuple(
        np.concatenate([s[column], random_values(d, VALUES - len(chosen), seed)])
        for seed, (d, s, column) in enumerate(zip(dtypes, special, columns, strict=True))
    )


def inputs_of(row: InstructionRow) -> list[Array]:
    """Flat operands within what the row is defined on."""
    if row.kind in ("dot", "insert", "shuffle") or row.kind.startswith("horizontal"):
        return [
            tame(random_values(t.dtype, VALUES * t.lanes // row.operands[0].lanes, k), row)
            for k, t in enumerate(row.operands)
        ]
    operands = [x.copy() for x in operand_values(tuple(t.dtype for t in row.operands))]
    if row.semantics == "scale2(a, b)":
        exponents = np.random.default_rng(2).integers(-1200, 1200, VALUES)
        exponents[::3] = np.random.default_rng(3).integers(-160, 160, exponents[::3].size)
        operands[1] = np.where(np.arange(VALUES) % 17 == 0, np.nan, exponents).astype(operands[0].dtype)
    for name, condition in (("a", "a_not_nan"), ("b", "b_not_nan")):
        if row.condition == condition:
            x = operands["ab".index(name)]
            x[np.isnan(x)] = 1
    return operands


def tame(x: Array, row: InstructionRow) -> Array:
    """Floats whose sums neither overflow nor hang on the order; a few NaN where the row keeps them."""
    if x.dtype.kind not in "fV" or row.kind in ("insert", "shuffle"):
        return x
    random = np.random.default_rng(4)
    moderate = random.normal(size=x.shape).astype(x.dtype)
    if row.kind in ("horizontal_max", "horizontal_min"):
        moderate[random.integers(0, 40, x.shape) == 0] = np.nan
        moderate[random.integers(0, 40, x.shape) == 0] = np.inf
    return moderate


def run(rows: Any, row: InstructionRow, operands: Sequence[Array]) -> Array:
    """What the built row gives."""
    result = row.result
    assert result is not None
    count = VALUES // row.operands[0].lanes if row.operands else VALUES // result.lanes
    lanes = len(rows.lanes(row.operands[0].lanes)) if "lane" in row.placeholders else 1
    out = np.zeros((count, lanes, result.lanes), numpy_dtype(result.dtype))
    ffi = cffi.FFI()
    pointers = [ffi.cast("const void *", np.ascontiguousarray(x).ctypes.data) for x in operands]
    pointers += [ffi.NULL] * (3 - len(pointers))
    rows.run(rows.number(row), *pointers, ffi.cast("void *", out.ctypes.data), count, 0, 0)
    return out


@lru_cache(maxsize=512)
def expected_lanes(semantics: str, dtypes: tuple[str, ...], result: str, key: tuple[bytes, ...]) -> Array:
    """The values of a lane-wise expression; rows of different widths share them."""
    return evaluate(semantics, [np.frombuffer(k, numpy_dtype(d)) for k, d in zip(key, dtypes, strict=True)], result)


def expected(rows: Any, row: InstructionRow, operands: Sequence[Array]) -> Array:
    """What the row's semantics say, in the shape of `run`."""
    result = row.result
    assert result is not None
    if row.kind == "compute":
        key = tuple(x.tobytes() for x in operands)
        values = expected_lanes(row.semantics or "", tuple(t.dtype for t in row.operands), result.dtype, key)
        return values.reshape(-1, 1, result.lanes)
    vectors = [x.reshape(-1, t.lanes) if t.lanes > 1 else x for x, t in zip(operands, row.operands, strict=True)]
    lanes = rows.lanes(row.operands[0].lanes) if "lane" in row.placeholders else [0]
    values = np.stack([evaluate_row(row, vectors, lane) for lane in lanes], axis=-1 if result.lanes == 1 else -2)
    return values.reshape(-1, len(lanes), result.lanes)


def agree(row: InstructionRow, got: Array, want: Array, ulps: int, scale: Array | None) -> npt.NDArray[np.bool_]:
    """Where the values agree: equal bits, or both NaN, or within the row's tolerance."""
    if got.dtype.kind not in "fV":
        return got == want
    with np.errstate(invalid="ignore"):  # a signalling NaN
        g, w = got.astype(np.float64), want.astype(np.float64)
    same = (g == w) & (np.signbit(g) == np.signbit(w)) | (np.isnan(g) & np.isnan(w))
    if row.kind in ("horizontal_max", "horizontal_min") or row.semantics in ("max(a, b)", "min(a, b)"):
        return same | (g == w)  # which zero is unspecified
    if scale is not None:
        return same | (np.abs(g - w) <= scale.reshape(g.shape))
    if ulps:
        with np.errstate(all="ignore"):
            return same | (np.abs(g - w) <= ulps * np.spacing(np.abs(want)).astype(np.float64))
    return same


def sum_bound(row: InstructionRow, operands: Sequence[Array]) -> Array | None:
    """For sums of floats, whose order is free: gamma(k) times the sum of the absolute values of the terms."""
    result = row.result
    assert result is not None
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


@pytest.mark.parametrize("kind", COMPUTING)
def test_rows_compute_what_their_semantics_say(rows: Any, kind: str) -> None:
    failures: list[str] = []
    for row in (r for r in rows.target.rows if r.kind == kind):
        operands = inputs_of(row)
        got, want = run(rows, row, operands), expected(rows, row, operands)
        function = (row.semantics or "").partition("(")[0]
        same = agree(row, got, want, rows.target.tolerances.get(function, 0), sum_bound(row, operands))
        if not same.all():
            index = tuple(int(i[0]) for i in np.nonzero(~same))
            lane = index[0] * want.shape[2] + index[2]
            shown = [x.reshape(-1)[min(lane, x.size - 1)] for x in operands]
            failures.append(
                f"{row.name} {index}: {row.semantics or kind} of {shown} is {want[index]!r}, "
                f"the row gives {got[index]!r}; {np.count_nonzero(~same)} of {same.size} differ"
            )
    assert not failures, "\n".join(failures)


def test_rows_without_values_run(rows: Any) -> None:
    ffi = cffi.FFI()
    memory = np.zeros(64)
    for row in rows.target.rows:
        if row.kind in ("prefetch_read", "prefetch_write", "stream_fence"):
            pointer = ffi.cast("void *", memory.ctypes.data)
            rows.run(rows.number(row), pointer, ffi.NULL, ffi.NULL, pointer, 64, 0, 0)


def test_lead_is_the_number_of_elements_before_the_next_cache_line(rows: Any) -> None:
    ffi = cffi.FFI()
    memory, out = np.zeros(64, np.float32), np.full(64, -1, np.int64)
    address = memory.ctypes.data + np.arange(64) * memory.itemsize
    found = [row for row in rows.target.rows if row.kind == "lead"]
    assert found
    for row in found:
        pointer = ffi.cast("void *", memory.ctypes.data)
        rows.run(rows.number(row), pointer, ffi.NULL, ffi.NULL, ffi.cast("void *", out.ctypes.data), 64, 0, 0)
        assert np.array_equal(out * memory.itemsize, -address % 64)


def test_enough_rows_are_exercised(rows: Any) -> None:
    full = load_target(rows.target.name)
    exercised = sum(row.kind in COMPUTING for row in rows.target.rows)
    lacking = sum(row.kind in COMPUTING for row in full.rows) - exercised
    assert exercised + lacking >= FLOOR[rows.target.name]
    assert lacking == sum(row.requires is not None and not rows.target.has(row.requires) for row in full.rows)


@CLANG.needed
def test_every_target_compiles_with_clang(clang_library: Path) -> None:
    assert clang_library.stat().st_size > 0


def test_a_row_of_every_width_is_found() -> None:
    for name in ("generic", "x86_avx2", "x86_avx512"):
        target = load_target(name)
        for dtype in ("f32", "f64", "si32"):
            vector = LaneType(dtype, target.lanes(dtype))
            for kind in ("load", "store", "masked_load", "masked_store", "splat", "zero", "extract", "insert"):
                found = target.find(
                    kind, result=None if "store" in kind else LaneType(dtype, 1) if kind == "extract" else vector
                )
                assert found is not None, f"{name}: {kind} {vector}"
