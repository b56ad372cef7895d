"""Lanes with an index each are read by instructions that gather, where the target has one; nothing else is read.

Every kernel runs between pages that may not be touched: see tests/guard_pages.py.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import check

Array = npt.NDArray[Any]
TARGETS = ("x86_avx2", "x86_avx512")
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "si16": np.int16,
    "si32": np.int32,
    "si64": np.int64,
    "ui8": np.uint8,
    "ui32": np.uint32,
    "ui64": np.uint64,
}
BAD = (-1, 2**31 - 1, 2**31, 2**32, 2**63 - 1, -(2**63))
ROW = """\
func @f(%t: tensor<[V]xDTYPE>, %at: tensor<[N]xPLACE>RANGE, %z: tensor<[N]xDTYPE>) -> tensor<[N]xDTYPE>
    symbols [V: 0.., N: 0..] {
  %v = tcp.gather(%t, %at) {dim = 0OUTSIDE} : tensor<[N]xDTYPE>
  %c = tcp.add(%v, %z) : tensor<[N]xDTYPE>
  tcp.return(%c)
}
"""
COLUMN = """\
func @f(%t: tensor<[D]x[V]xDTYPE>STRIDED, %at: tensor<[N]xPLACE>RANGE) -> tensor<[D]x[N]xDTYPE>
    symbols [D: 0.., V: 0.., N: 0..] {
  %v = tcp.gather(%t, %at) {dim = 1OUTSIDE} : tensor<[D]x[N]xDTYPE>
  tcp.return(%v)
}
"""
OUTSIDE = {"": "", "clamp": ', out_of_range = "clamp"', "fill": ', out_of_range = "fill", fill = 7'}


def _text(text: str, dtype: str, place: str, outside: str = "") -> str:
    text = text.replace("DTYPE", dtype).replace("PLACE", place).replace("OUTSIDE", OUTSIDE[outside])
    text = text.replace("V: 0..", "V: 1..") if outside == "clamp" else text
    return text.replace("RANGE", "" if outside else " in 0 to V")


def _places(random: np.random.Generator, v: int, n: int, place: str, outside: str) -> Array:
    """Indices of a dim of extent v; some outside of it where that is allowed."""
    found = random.integers(0, max(v, 1), n).astype(NUMPY[place])
    whole = np.iinfo(NUMPY[place])
    bad = [x for x in (*BAD, v, -v) if whole.min <= x <= whole.max] if outside else []
    where = random.permutation(n)[: len(bad)]
    found[where] = np.array(bad[: len(where)]).astype(NUMPY[place])
    return found


def _read(table: Array, at: Array, outside: str) -> Array:
    """Along the last dim; an empty one is all outside."""
    extent = table.shape[-1]
    exact = [int(x) for x in at]
    read = table[..., np.array([min(max(x, 0), extent - 1) for x in exact], np.int64)]
    inside = np.array([0 <= x < extent for x in exact], bool)
    return read if outside == "clamp" else np.where(inside, read, np.asarray(7, table.dtype))


@pytest.mark.parametrize(
    ("dtype", "place", "outside"),
    [("f32", "si64", "fill"), ("f32", "si32", "clamp"), ("f64", "si64", "clamp"), ("f64", "si32", "fill"),
     ("si32", "ui8", "fill"), ("ui32", "si16", ""), ("si64", "ui32", "fill"), ("ui64", "si64", "")],
)  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_elements_of_a_row(target: str, dtype: str, place: str, outside: str) -> None:
    """Under the default schedule: a fused sum, tails and full lanes, indices outside, an empty table."""
    require_cpu_of(tcpx.load_target(target))
    module = tcpx.parse(_text(ROW, dtype, place, outside))
    source = tcpx.emit(module, target=target).c_source
    assert "tcpx_gather_" in source
    assert "tcpx_insert_" not in source or not place.startswith("si")
    kernel = tcpx.compile(module, target=target, threads=1)
    random = np.random.default_rng(0)
    for v, n in ((50, 133), (1, 9), (7, 3), (3, 0), (int(outside == "clamp"), 0)):
        table, z = (random.integers(0, 90, k).astype(NUMPY[dtype]) for k in (v, n))
        at = _places(random, v, n, place, outside)
        assert np.array_equal(run_guarded(kernel, table, at, z)[0], _read(table, at, outside) + z), (v, n)
    if outside == "fill":
        at = _places(random, 0, 21, place, outside)
        assert (run_guarded(kernel, table[:0], at, np.zeros(21, NUMPY[dtype]))[0] == 7).all()


@pytest.mark.parametrize(
    ("strided", "place", "outside"),
    [("", "si32", "fill"), (" strided", "si64", ""), (" strided", "si32", "clamp")],
)
@pytest.mark.parametrize("target", TARGETS)
def test_columns_of_a_matrix(target: str, strided: str, place: str, outside: str) -> None:
    """Lanes along the indices, in each row; rows that lie apart, elements that lie side by side or not."""
    require_cpu_of(tcpx.load_target(target))
    text = _text(COLUMN, "f32", place, outside).replace("STRIDED", strided)
    schedule = 'language 1\nschedule s(root: func) {\nlet v = match one "v" in root\n' + (
        "let a, b = tile(v, [d0: 1, d1: 24], tail: pad)\nvectorize(b)\n}\n"
    )
    module, program = tcpx.parse(text), tcpx.parse_schedule(schedule)
    source = tcpx.emit(module, program, target=target).c_source
    assert "tcpx_gather_" in source
    assert "tcpx_insert_" not in source
    kernel = tcpx.compile(module, program, target=target)
    random = np.random.default_rng(0)
    for d, v, n in ((3, 11, 61), (1, 5, 24), (2, 3, 0), (0, 4, 9)):
        table = random.integers(0, 90, (d, 2 * v)).astype(np.float32)[:, ::2]
        table = table if strided else np.ascontiguousarray(table)
        at = _places(random, v, n, place, outside)
        assert np.array_equal(run_guarded(kernel, table, at)[0], _read(table, at, outside)), (d, v, n)


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_outside_is_found_before_anything_is_read(target: str) -> None:
    """In tails, full lanes, and the last lanes of what is neither."""
    require_cpu_of(tcpx.load_target(target))
    kernel = tcpx.compile(tcpx.parse(_text(ROW, "f32", "si64")), target=target, threads=1)
    table = np.ones(50, np.float32)
    for bad, n in product((-1, 50, 2**31, 2**63 - 1), (3, 64, 133)):
        for place in (0, n // 2, n - 1):
            at, out = np.zeros(n, np.int64), np.full(n, 17, np.float32)
            at[place] = bad
            with pytest.raises(tcpx.ArgumentError, match="1 element out of range"):
                kernel(table, at, np.ones(n, np.float32), out=out)
            assert (out == 17).all()


@pytest.mark.parametrize("target", TARGETS)
def test_rows_beyond_the_last(target: str) -> None:
    """Padded rows have no table row: all their indices are outside."""
    require_cpu_of(tcpx.load_target(target))
    text = """\
func @f(%t: tensor<[M]x[N]xf32>, %at: tensor<3xsi64>) -> tensor<[M]x3xf32> symbols [M: 1.., N: 1..] {
  %v = tcp.gather(%t, %at) {dim = 1, out_of_range = "fill"} : tensor<[M]x3xf32>
  tcp.return(%v)
}
"""
    body = 'let v = match one "v" in root\ntile(v, [d0: 8])\nlet o = pad(v, [d0: 9])\nvectorize(o)'
    constant = text.replace(", %at: tensor<3xsi64>", "").replace(
        "  %v", "  %at = tcp.const {value = 4} : tensor<3xsi64>\n  %v", 1
    )
    check(constant, f"{body}\nlower_vectors(parent(v))", [{"M": m, "N": n} for m in (1, 9) for n in (1, 5)])
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}\n}}")
    kernel, at = tcpx.compile(tcpx.parse(text), schedule, target=target), np.array([4, -1, 7])
    for m in (1, 8, 13):
        table = np.random.default_rng(m).random((m, 5), np.float32)
        (found,) = run_guarded(kernel, table, at)
        np.testing.assert_array_equal(np.asarray(found), np.stack([table[:, 4], 0 * table[:, 0], 0 * table[:, 0]], 1))


def test_names_of_the_payload_are_not_taken_twice() -> None:
    """In the body that a gather has in vectors: `%e0` is free for a payload, too."""
    module = tcpx.parse(
        "func @f(%e0: tensor<9xf32>, %e1: tensor<[N]xsi32> in 0 to 9) -> tensor<[N]xf32> symbols [N] {\n"
        "  %v = tcp.gather(%e0, %e1) {dim = 0} : tensor<[N]xf32>\n  tcp.return(%v)\n}\n"
    )
    text = 'language 1\nschedule s(root: func) {\n  let v = match one "v" in root\n'
    steps = tcpx.parse_schedule(text + "  let i = tile(v, [d0: 4], tail: pad)\n  vectorize(i)\n}\n")
    done = tcpx.apply_schedule(module, steps, target="generic").module.text()
    assert tcpx.parse(done).text() == done
