"""Ragged rows without a dim behind them: lanes along the row, each vector of it masked at the end, combined at last.

Every kernel runs between pages that may not be touched: see tests/guard_pages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import refusal, run

Array = npt.NDArray[Any]
TARGETS = ("generic", "x86_avx2", "x86_avx512")
NUMPY = {"f32": np.float32, "f64": np.float64, "si8": np.int8, "si32": np.int32, "ui16": np.uint16}
HEAD = """\
func @f(%a: tensor<[K]xDTYPE>, %cols: tensor<[K]xINDEX> in 0 to V, %ptr: tensor<[N + 1]xsi64> in 0 to K + 1 sorted
    spanning, %b: tensor<[V]xDTYPE>, %z: tensor<[N]xDTYPE>) -> RESULTS symbols [K, N, V] {
  %first = gml_st.materialize(%ptr) tile [0] [N] : tensor<[N]xsi64>
  %end = gml_st.materialize(%ptr) tile [1] [N] : tensor<[N]xsi64>
"""
SUM = (
    HEAD
    + """\
  %v = tcp.generic(%a, %cols, %first, %end, %b, init = %z) {iterators = [["m", "parallel"], ["k", "reduction"]],
      maps = [[k], [k], [m], [m], [in1], [m]], ragged = [["k", in2, in3]], combiner = "tcp.add"} ({
      (%e: DTYPE, %c: INDEX, %l: si64, %h: si64, %f: DTYPE, %acc: DTYPE):
    %product = tcp.mul(%e, %f) : DTYPE
    %next = tcp.add(%acc, %product) : DTYPE
    tcp.yield(%next)
  }) : tensor<[N]xDTYPE>
  tcp.return(%v)
}
"""
)
LARGEST = (
    SUM.replace("tcp.add(%acc, %product)", "tcp.max(%acc, %product)").replace('"tcp.add"', '"tcp.max"')
    .replace(", init = %z", "")
)  # fmt: skip
WHERE = (
    HEAD
    + """\
  %v, %at = tcp.generic(%a, %first, %end) {iterators = [["m", "parallel"], ["k", "reduction"]],
      maps = [[k], [m], [m], [m], [m]], ragged = [["k", in1, in2]], positions = [k], neutral = [-1000, 1000000],
      commutative = true} ({ (%e: DTYPE, %l: si64, %h: si64, %k: si64):
    tcp.yield(%e, %k)
  }, { (%x: DTYPE, %i: si64, %y: DTYPE, %j: si64):
    %below = tcp.less(%x, %y) : i1
    %above = tcp.less(%y, %x) : i1
    %least = tcp.min(%i, %j) : si64
    %rest = tcp.select(%above, %i, %least) : si64
    %p = tcp.select(%below, %j, %rest) : si64
    %q = tcp.max(%x, %y) : DTYPE
    tcp.yield(%q, %p)
  }) : tensor<[N]xDTYPE>, tensor<[N]xsi64>
  tcp.return(%v, %at)
}
"""
)
OUTSIDE = SUM.replace(" in 0 to V", "").replace('combiner = "tcp.add"', 'out_of_range = "fill", combiner = "tcp.add"')


def _rows(ptr: Array) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(ptr)]


def _sum(a: Array, cols: Array, ptr: Array, b: Array, z: Array) -> Sequence[Array]:
    inside = (cols >= 0) & (cols < len(b))
    found = np.where(inside, b[np.clip(cols, 0, max(0, len(b) - 1))] if len(b) else 0, 0).astype(a.dtype)
    return [np.array([z[m] + (a[r] * found[r]).sum(dtype=a.dtype) for m, r in enumerate(_rows(ptr))]).astype(a.dtype)]


def _largest(a: Array, cols: Array, ptr: Array, b: Array, z: Array) -> Sequence[Array]:
    least = -np.inf if a.dtype.kind == "f" else np.iinfo(a.dtype).min
    return [np.array([(a[r] * b[cols[r]]).max(initial=least) for r in _rows(ptr)]).astype(a.dtype)]


def _where(a: Array, cols: Array, ptr: Array, b: Array, z: Array) -> Sequence[Array]:
    found = [(a[r].max(), r.start + a[r].argmax()) if r.start < r.stop else (-1000, 1000000) for r in _rows(ptr)]
    most = np.array([m for m, _ in found]).astype(a.dtype)
    return [most, np.array([p for _, p in found]).astype(np.int64)]


Case = tuple[str, Callable[..., Sequence[Array]], tuple[str, ...], str, str]
CASES: Mapping[str, Case] = {
    "sums": (SUM, _sum, ("f32", "f64", "si8"), "si64", "tensor<[N]xDTYPE>"),
    "sums by short indices": (SUM, _sum, ("f32", "si32"), "si32", "tensor<[N]xDTYPE>"),
    "the largest": (LARGEST, _largest, ("f32",), "si32", "tensor<[N]xDTYPE>"),
    "where the largest is": (WHERE, _where, ("f32", "si32"), "si64", "(tensor<[N]xDTYPE>, tensor<[N]xsi64>)"),
    "indices outside": (OUTSIDE, _sum, ("f32",), "si64", "tensor<[N]xDTYPE>"),
}
SIZES = ((7, 40, 0.6), (3, 16, 1.0), (1, 1, 1.0), (4, 9, 0.0), (0, 3, 0.5), (2, 100, 0.9))
"""Rows, columns, and the part of elements that there are."""
ON_ITS_OWN = "vectorize(v)"
IN_TILES = "let i = tile(v, [m: 3])\nvectorize(i)"
SCHEDULE = 'language 1\nschedule s(root: func) {{\nlet v = match one "v" in root\n{}\n}}\n'


def text(name: str, dtype: str) -> str:
    payload, _, _, index, results = CASES[name]
    return payload.replace("RESULTS", results).replace("DTYPE", dtype).replace("INDEX", index)


def given(name: str, dtype: str, sizes: tuple[int, int, float]) -> list[Array]:
    rows, columns, part = sizes
    random = np.random.default_rng(rows + columns)
    places, cols = np.nonzero(random.random((rows, columns)) < part)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=rows)[:rows])]).astype(np.int64)
    low = 0 if NUMPY[dtype]().dtype.kind == "u" else -4
    a, b, z = (random.integers(low, 5, n).astype(NUMPY[dtype]) for n in (len(cols), columns, rows))
    cols = random.permutation(cols).astype(np.int32 if CASES[name][3] == "si32" else np.int64)
    if name == "indices outside":
        bad = (-1, columns, 2**31, 2**63 - 1, -(2**63))
        cols[: len(bad)] = bad[: len(cols)]
    return [a, cols, ptr, b, z]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_stay(target: str, name: str) -> None:
    require_cpu_of(tcpx.load_target(target))
    for dtype in CASES[name][2][: None if target != "generic" else 1]:
        module = parse(text(name, dtype))
        for steps in (ON_ITS_OWN, IN_TILES) if dtype == "f32" else (ON_ITS_OWN,):
            kernel = tcpx.compile(module, tcpx.parse_schedule(SCHEDULE.format(steps)), target=target)
            for sizes in SIZES:
                arrays = given(name, dtype, sizes)
                for found, wanted in zip(run_guarded(kernel, *arrays), CASES[name][1](*arrays), strict=True):
                    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", CASES)
def test_the_payload_computes_the_same_and_is_read_again_as_it_is_printed(name: str) -> None:
    for steps in (ON_ITS_OWN, IN_TILES):
        after = run(text(name, "f32"), f'let v = match one "v" in root\n{steps}').module
        assert print_module(parse(print_module(after))) == print_module(after)
        assert 'lanes = ["k", 16]' in print_module(after) or name == "where the largest is"
        arrays = given(name, "f32", SIZES[0])
        for found, wanted in zip(evaluate_func(after, after.main, arrays), CASES[name][1](*arrays), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("target", "loads"), [("x86_avx2", 3), ("x86_avx512", 2)])
def test_whole_vectors_have_no_mask(target: str, loads: int) -> None:
    source = tcpx.emit(parse(text("sums by short indices", "f32")), target=target).c_source
    loop = source.split("/* v~when0/k.2 */")[1].split("}")[0]
    assert "mask" not in loop
    assert "gather" in loop
    assert loop.count("loadu") <= loads


def test_what_is_not_commutative_has_no_lanes() -> None:
    payload = text("where the largest is", "f32").replace(",\n      commutative = true", "")
    found = refusal(payload, 'let v = match one "v" in root\nvectorize(v)')
    assert "does not become vectors on its own" in found.message


@pytest.mark.parametrize("name", CASES)
def test_the_default_schedule_has_lanes_for_rows_of_8_elements_and_more(name: str) -> None:
    payload = tcpx.parse(text(name, "f32"))
    source = tcpx.emit(payload, target="x86_avx512").c_source
    assert "if (K >= 8 * N)" in source or len(payload.main.outputs) > 1
    kernel = tcpx.compile(tcpx.parse(text(name, "f32")))
    for sizes in SIZES:
        arguments = given(name, "f32", sizes)
        for found, wanted in zip(run_guarded(kernel, *arguments), CASES[name][1](*arguments), strict=True):
            assert np.array_equal(found, wanted), sizes
