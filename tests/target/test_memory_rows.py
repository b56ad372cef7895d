"""Every row that loads or stores, on memory that ends at a page without access, for every number of lanes."""

from __future__ import annotations

from typing import Any

import cffi
import numpy as np
import numpy.typing as npt
import pytest

from tcpx.target import InstructionRow, LaneType
from tests.target.evaluate import numpy_dtype

Array = npt.NDArray[Any]

FLOOR = {"generic": 190, "x86_avx2": 205, "x86_avx512": 315}
"""At least this many rows of a target that access memory must be exercised."""

STRIDES = (1, 2, 7, -3)
FFI = cffi.FFI()


def values(type_: LaneType, count: int) -> Array:
    """Distinct values, none of them zero where the dtype has that many."""
    if type_.dtype == "i1":
        return np.arange(count) % 3 != 1
    return (np.arange(count) % 120 + 1).astype(numpy_dtype(type_.dtype))


def lane_counts(type_: LaneType) -> range:
    """Every valid count, one below and two above."""
    return range(-1, type_.lanes + 3)


def rows_of(rows: Any, *kinds: str) -> list[InstructionRow]:
    """The target's rows of these kinds."""
    return [row for row in rows.target.rows if row.kind in kinds]


def result_of(row: InstructionRow) -> LaneType:
    """The type a load gives."""
    assert row.result is not None
    return row.result


def load(rows: Any, row: InstructionRow, address: int, n: int = 0, s: int = 0) -> Array:
    """What a load from `address` gives."""
    type_ = result_of(row)
    out = np.zeros(type_.lanes, numpy_dtype(type_.dtype))
    pointer = FFI.cast("const void *", address)
    rows.run(rows.number(row), pointer, FFI.NULL, FFI.NULL, FFI.cast("void *", out.ctypes.data), 1, n, s)
    return out


def store(rows: Any, row: InstructionRow, address: int, x: Array, n: int = 0) -> None:
    """Store x at `address`."""
    pointer = FFI.cast("const void *", x.ctypes.data)
    rows.run(rows.number(row), pointer, FFI.NULL, FFI.NULL, FFI.cast("void *", address), 1, n, 0)


def place_at_start(guarded: Any, x: Array) -> int:
    """Put x right behind the forbidden page; its address."""
    guarded.bytes[: x.nbytes] = x.view(np.uint8)
    return int(guarded.end) - int(guarded.bytes.size)


def place_at_end(guarded: Any, x: Array) -> int:
    """Put x right before the forbidden page; its address."""
    if x.size:
        guarded.bytes[-x.nbytes :] = x.view(np.uint8)
    return guarded.end - x.nbytes


def test_loads_touch_no_more_than_their_lanes(rows: Any, guarded: Any) -> None:
    for row in rows_of(rows, "load"):
        x = values(result_of(row), result_of(row).lanes)
        np.testing.assert_array_equal(load(rows, row, place_at_end(guarded, x)), x, row.name)


def test_masked_loads_give_zero_beyond_n_and_touch_nothing_there(rows: Any, guarded: Any) -> None:
    for row in rows_of(rows, "masked_load"):
        type_ = result_of(row)
        for n in lane_counts(type_):
            valid = min(max(n, 0), type_.lanes)
            x = values(type_, valid)
            want = np.concatenate([x, np.zeros(type_.lanes - valid, x.dtype)])
            np.testing.assert_array_equal(load(rows, row, place_at_end(guarded, x), n), want, f"{row.name}, n = {n}")


def test_loads_from_a_lane_on_touch_nothing_before_or_behind(rows: Any, guarded: Any) -> None:
    for row in rows_of(rows, "masked_load_from"):
        type_ = result_of(row)
        for first, n in ((f, n) for f in range(type_.lanes + 1) for n in (0, 1, type_.lanes - f - 1, type_.lanes - f)):
            x = values(type_, max(0, min(n, type_.lanes - first)))
            want = np.concatenate([np.zeros(first, x.dtype), x, np.zeros(type_.lanes - first - x.size, x.dtype)])
            for place in (place_at_start, place_at_end):
                found = load(rows, row, place(guarded, x), x.size, first)
                np.testing.assert_array_equal(found, want, f"{row.name}, f = {first}, n = {n}")


def test_masks_of_lanes(rows: Any, guarded: Any) -> None:
    """They read no memory: they are given the address behind the last that may be read."""
    for row in rows_of(rows, "lane_mask", "lane_mask_from"):
        type_ = result_of(row)
        for first in range(type_.lanes + 1) if row.kind == "lane_mask_from" else [0]:
            for n in (-1, 0, 1, type_.lanes - first - 1, type_.lanes - first, type_.lanes + 1, 2**40):
                want = [first <= lane < first + n for lane in range(type_.lanes)]
                found = load(rows, row, guarded.end, n, first)
                np.testing.assert_array_equal(found, np.array(want), f"{row.name}, f = {first}, n = {n}")


@pytest.mark.parametrize("stride", STRIDES)
def test_strided_loads_take_every_stride(rows: Any, guarded: Any, stride: int) -> None:
    for row in rows_of(rows, "strided_load", "masked_strided_load"):
        type_ = result_of(row)
        for n in lane_counts(type_) if row.kind == "masked_strided_load" else [type_.lanes]:
            valid = min(max(n, 0), type_.lanes)
            x = values(type_, max(0, (valid - 1) * abs(stride) + 1) if valid else 0)
            address = place_at_end(guarded, x)
            first = address if stride > 0 else address + max(0, x.nbytes - x.itemsize)
            want = np.concatenate([x[::stride], np.zeros(type_.lanes - valid, x.dtype)])
            got = load(rows, row, first, n, stride)
            np.testing.assert_array_equal(got, want, f"{row.name}, n = {n}, s = {stride}")


@pytest.mark.parametrize("stride", STRIDES)
def test_gathers_read_where_lanes_say_and_nothing_else(rows: Any, guarded: Any, stride: int) -> None:
    """Of tables of any length, none among them; places outside of it are not read."""
    random = np.random.default_rng(abs(stride))
    for row in rows_of(rows, "gather"):
        type_, (places,) = result_of(row), row.operands
        rest = values(type_, type_.lanes)[::-1].copy()
        held: type[np.signedinteger[Any]] = np.int32 if places.dtype == "si32" else np.int64
        whole = np.iinfo(held)
        outside = (-1, whole.min, whole.max, -(2**31), 2**31 - 1, 2**31, 2**32, 2**63 - 1)
        fitting = [x for x in outside if whole.min <= x <= whole.max]
        for n in (0, 1, 5, 37):
            table = values(type_, max(0, (n - 1) * abs(stride) + 1) if n else 0)
            address = place_at_end(guarded, table)
            first = address if stride > 0 else address + max(0, table.nbytes - table.itemsize)
            for _ in range(6):
                at = random.choice(np.array([*range(n), *range(n), n, *fitting], held), type_.lanes)
                inside = (at >= 0) & (at < n)
                want = rest.copy()
                want[inside] = table[::stride][at[inside]]
                out = np.zeros_like(rest)
                arrays = [FFI.cast("void *", x.ctypes.data) for x in (at, rest, out)]
                rows.run(rows.number(row), FFI.cast("const void *", first), *arrays, 1, n, stride)
                np.testing.assert_array_equal(out, want, f"{row.name}, n = {n}, s = {stride}, {at}")


def test_stores_write_their_lanes_only(rows: Any, guarded: Any) -> None:
    for row in rows_of(rows, "store", "stream_store"):
        x = values(row.operands[0], row.operands[0].lanes)
        guarded.bytes[:] = 0xEE
        store(rows, row, guarded.end - x.nbytes, x)
        written = guarded.bytes[-x.nbytes :].view(x.dtype)
        np.testing.assert_array_equal(written, x, row.name)
        assert (guarded.bytes[: -x.nbytes] == 0xEE).all(), f"{row.name} writes before its first lane"


def test_masked_stores_write_n_lanes_and_touch_nothing_beyond(rows: Any, guarded: Any) -> None:
    for row in rows_of(rows, "masked_store"):
        type_ = row.operands[0]
        x = values(type_, type_.lanes)
        for n in lane_counts(type_):
            valid = min(max(n, 0), type_.lanes)
            guarded.bytes[-1024:] = 0xEE
            size = valid * x.itemsize
            store(rows, row, guarded.end - size, x, n)
            np.testing.assert_array_equal(
                guarded.bytes[guarded.bytes.size - size :], x[:valid].view(np.uint8), f"{row.name}, n = {n}"
            )
            assert (guarded.bytes[-1024 : guarded.bytes.size - size] == 0xEE).all(), (
                f"{row.name}, n = {n}: writes before"
            )


def test_masked_stores_leave_the_lanes_beyond_n_alone(rows: Any) -> None:
    for row in rows_of(rows, "masked_store"):
        type_ = row.operands[0]
        x = values(type_, type_.lanes)
        for n in lane_counts(type_):
            valid = min(max(n, 0), type_.lanes)
            memory = np.full(x.nbytes, 0xEE, np.uint8)
            store(rows, row, memory.ctypes.data, x, n)
            assert (memory[valid * x.itemsize :] == 0xEE).all(), f"{row.name}, n = {n}: writes beyond"


def test_enough_memory_rows_are_exercised(rows: Any) -> None:
    loads = ("load", "masked_load", "strided_load", "masked_strided_load", "gather")
    kinds = (*loads, "store", "masked_store", "stream_store")
    assert len(rows_of(rows, *kinds)) >= FLOOR[rows.target.name]


def test_aligned_rows_say_so(rows: Any) -> None:
    for row in rows_of(rows, "stream_store"):
        vector_bytes = row.operands[0].lanes * numpy_dtype(row.operands[0].dtype).itemsize
        assert row.alignment in (0, vector_bytes), row.name
