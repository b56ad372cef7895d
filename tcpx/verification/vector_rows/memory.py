"""Rows that load and store, for every number of lanes, on memory that ends at a page without access: a row that touches
more than it may ends the process."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from tcpx.target import InstructionRow, LaneType
from tcpx.target.rows import EVERY_SECOND
from tcpx.verification.vector_rows.library import GuardedMemory, RowLibrary, guarded_memory
from tcpx.verification.vector_rows.meaning import Array, numpy_dtype

_STRIDES: Final = (1, 2, 7, -3)
_UNTOUCHED: Final = 0xEE
Place = Callable[[Array], int]


def wrong_access(library: RowLibrary, row: InstructionRow) -> str | None:
    """What a row of `source.MEMORY_KINDS` reads or writes that it should not; None where it is right."""
    check = _CHECKS[row.kind]
    return next(check(library, row, guarded_memory()), None)


def _distinct(type_: LaneType, count: int) -> Array:
    """Distinct values, none of them zero where the dtype has that many."""
    if type_.dtype == "i1":
        return np.arange(count) % 3 != 1
    return (np.arange(count) % 120 + 1).astype(numpy_dtype(type_.dtype))


def _zeros(type_: LaneType, count: int) -> Array:
    return np.zeros(count, numpy_dtype(type_.dtype))


def _accessed(row: InstructionRow) -> LaneType:
    return row.result or row.operands[0]


def _loaded(library: RowLibrary, row: InstructionRow, address: int, n: int = 0, s: int = 0, first: int = 1) -> Array:
    out = _zeros(type_ := _accessed(row), type_.lanes)
    library.run(row, [address], out.ctypes.data, first, n, s)
    return out


def _difference(found: Array, wanted: Array, case: str) -> Iterator[str]:
    if not np.array_equal(found, wanted):
        yield f"lanes {', '.join(map(str, found))} instead of {', '.join(map(str, wanted))}, {case}"


def _load(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    x = _distinct(type_ := _accessed(row), type_.lanes)
    yield from _difference(_loaded(library, row, memory.place_at_end(x)), x, "of memory with just these")


def _masked_load(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    type_ = _accessed(row)
    for n in range(-1, type_.lanes + 3):
        x = _distinct(type_, min(max(n, 0), type_.lanes))
        wanted = np.concatenate([x, _zeros(type_, type_.lanes - x.size)])
        yield from _difference(_loaded(library, row, memory.place_at_end(x), n), wanted, f"for n = {n}")


def _masked_load_from(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    type_ = _accessed(row)
    for first, n in ((f, n) for f in range(type_.lanes + 1) for n in (0, 1, type_.lanes - f - 1, type_.lanes - f)):
        x = _distinct(type_, max(0, min(n, type_.lanes - first)))
        wanted = np.concatenate([_zeros(type_, first), x, _zeros(type_, type_.lanes - first - x.size)])
        places: tuple[Place, ...] = (memory.place_at_start, memory.place_at_end)
        for place in places:
            found = _loaded(library, row, place(x), x.size, first=first)
            yield from _difference(found, wanted, f"for f = {first}, n = {n}")


def _lane_mask(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    """It reads no memory: it is given the address behind the last byte that may be read."""
    lanes = _accessed(row).lanes
    for first in range(lanes + 1) if row.kind == "lane_mask_from" else [0]:
        for n in (-1, 0, 1, lanes - first - 1, lanes - first, lanes + 1, 2**40):
            wanted = np.array([first <= lane < first + n for lane in range(lanes)])
            yield from _difference(
                _loaded(library, row, memory.end, n, first=first), wanted, f"for f = {first}, n = {n}"
            )


def _strided_load(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    type_ = _accessed(row)
    counts = range(-1, type_.lanes + 3) if row.kind == "masked_strided_load" else [type_.lanes]
    for stride, n in ((stride, n) for stride in _strides(row) for n in counts):
        valid = min(max(n, 0), type_.lanes)
        x, first = _strided(memory, type_, valid, stride)
        wanted = np.concatenate([x[::stride], _zeros(type_, type_.lanes - valid)])
        yield from _difference(_loaded(library, row, first, n, stride), wanted, f"for n = {n}, s = {stride}")


def _strided_load_from(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    type_ = _accessed(row)
    for stride, first in ((stride, first) for stride in _strides(row) for first in range(type_.lanes + 1)):
        for n in {0, min(1, type_.lanes - first), max(0, type_.lanes - first - 1), type_.lanes - first}:
            x, address = _strided(memory, type_, n, stride)
            wanted = np.concatenate([_zeros(type_, first), x[::stride], _zeros(type_, type_.lanes - first - n)])
            found = _loaded(library, row, address, n, stride, first)
            yield from _difference(found, wanted, f"for f = {first}, n = {n}, s = {stride}")


def _strides(row: InstructionRow) -> tuple[int, ...]:
    return (2,) if row.condition == EVERY_SECOND else _STRIDES


def _strided(memory: GuardedMemory, type_: LaneType, count: int, stride: int) -> tuple[Array, int]:
    """Memory with just `count` elements that are `stride` apart, and the address of the first of them."""
    x = _distinct(type_, max(0, (count - 1) * abs(stride) + 1) if count else 0)
    address = memory.place_at_end(x)
    return x, address if stride > 0 else address + max(0, x.nbytes - x.itemsize)


def _gather(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    """Of tables of any length, none among them; places outside of it are not read."""
    type_, (places,) = _accessed(row), row.operands
    rest = _distinct(type_, type_.lanes)[::-1].copy()
    dtype = numpy_dtype(places.dtype)
    limits = np.iinfo(dtype.name)
    outside = (-1, limits.min, limits.max, -(2**31), 2**31 - 1, 2**31, 2**32, 2**63 - 1)
    fitting = [x for x in outside if limits.min <= x <= limits.max]
    for stride in _STRIDES:
        random = np.random.default_rng(abs(stride))
        for n in (0, 1, 5, 37):
            x, first = _strided(memory, type_, n, stride)
            for _ in range(6):
                at = random.choice(np.array([*range(n), *range(n), n, *fitting], dtype), type_.lanes)
                inside = (at >= 0) & (at < n)
                wanted = rest.copy()
                wanted[inside] = x[::stride][at[inside]]
                out = np.zeros_like(rest)
                library.run(row, [first, at.ctypes.data, rest.ctypes.data], out.ctypes.data, 1, n, stride)
                yield from _difference(out, wanted, f"for e = {n}, s = {stride}, a = {', '.join(map(str, at))}")


def _store(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    x = _distinct(type_ := _accessed(row), type_.lanes)
    memory.bytes[:] = _UNTOUCHED
    library.run(row, [x.ctypes.data], memory.end - x.nbytes, 1)
    yield from _difference(memory.bytes[-x.nbytes :].view(x.dtype), x, "in memory")
    if not (memory.bytes[: -x.nbytes] == _UNTOUCHED).all():
        yield "a write before the first lane"


def _masked_store(library: RowLibrary, row: InstructionRow, memory: GuardedMemory) -> Iterator[str]:
    """The lanes from `n` on are left alone, where they may be touched and where not."""
    x = _distinct(type_ := _accessed(row), type_.lanes)
    for n in range(-1, type_.lanes + 3):
        size = min(max(n, 0), type_.lanes) * x.itemsize
        memory.bytes[-1024:] = _UNTOUCHED
        library.run(row, [x.ctypes.data], memory.end - size, 1, n)
        written = memory.bytes[memory.bytes.size - size :].view(x.dtype)
        yield from _difference(written, x[: written.size], f"in memory, for n = {n}")
        if not (memory.bytes[-1024 : memory.bytes.size - size] == _UNTOUCHED).all():
            yield f"a write before the first lane, for n = {n}"
        around = np.full(x.nbytes, _UNTOUCHED, np.uint8)
        library.run(row, [x.ctypes.data], around.ctypes.data, 1, n)
        if not (around[size:] == _UNTOUCHED).all():
            yield f"a write behind the last of n = {n} lanes"


_CHECKS: Final[Mapping[str, Callable[[RowLibrary, InstructionRow, GuardedMemory], Iterator[str]]]] = {
    "load": _load,
    "masked_load": _masked_load,
    "masked_load_from": _masked_load_from,
    "lane_mask": _lane_mask,
    "lane_mask_from": _lane_mask,
    "strided_load": _strided_load,
    "masked_strided_load": _strided_load,
    "masked_strided_load_from": _strided_load_from,
    "gather": _gather,
    "store": _store,
    "stream_store": _store,
    "masked_store": _masked_store,
}
