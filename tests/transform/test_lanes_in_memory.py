"""What scatters or is ragged, and scans of many steps: in memory, by vectors along a parallel dim.

Every kernel runs between pages that may not be touched: see tests/guard_pages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu_of
from tests.transform.payloads import run

Array = npt.NDArray[Any]
Sizes = tuple[int, int, int]
TARGETS = ("generic", "x86_avx2", "x86_avx512")

ADD = """\
func @add(%x: tensor<[N]x[D]xDTYPE>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]x[D]xDTYPE>) -> tensor<[V]x[D]xDTYPE> symbols [N: 0.., D: 0.., V: 0..] {
  %v = tcp.scatter_add(%x, %ix, init = %z) {dim = 0} : tensor<[V]x[D]xDTYPE>
  tcp.return(%v)
}
"""  # noqa: E501
SET = """\
func @set(%x: tensor<[N]x[D]xDTYPE>, %ix: tensor<[N]xsi64>, %z: tensor<[V]x[D]xDTYPE>) -> tensor<[V]x[D]xDTYPE> symbols [N: 0.., D: 0.., V: 0..] {
  %v = tcp.generic(%x, %ix, init = %z) {iterators = [["i", "sequential"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], positions = [i, 2*j + i], neutral = [0], out_of_range = "fill"} ({
      (%e: DTYPE, %at: si64, %i: si64, %j: si64, %before: DTYPE):
    %place = tcp.cast(%j) : DTYPE
    %sum = tcp.add(%e, %place) : DTYPE
    tcp.yield(%sum)
  }) : tensor<[V]x[D]xDTYPE>
  tcp.return(%v)
}
"""  # noqa: E501
CSR = """\
func @csr(%a: tensor<[K]xDTYPE>, %cols: tensor<[K]xsi64> in 0 to V, %ptr: tensor<[N + 1]xsi64> in 0 to K + 1 sorted spanning,
    %b: tensor<[V]x[D]xDTYPE>, %z: tensor<[N]x[D]xDTYPE>) -> tensor<[N]x[D]xDTYPE> symbols [K: 0.., N: 0.., D: 0.., V: 0..] {
  %first = gml_st.materialize(%ptr) tile [0] [N] : tensor<[N]xsi64>
  %end = gml_st.materialize(%ptr) tile [1] [N] : tensor<[N]xsi64>
  %v = tcp.generic(%a, %cols, %first, %end, %b, init = %z) {iterators = [["m", "parallel"], ["k", "reduction"], ["d", "parallel"]],
      maps = [[k], [k], [m], [m], [in1, d], [m, d]], ragged = [["k", in2, in3]], combiner = "tcp.add"} ({
      (%e: DTYPE, %c: si64, %l: si64, %h: si64, %f: DTYPE, %acc: DTYPE):
    %product = tcp.mul(%e, %f) : DTYPE
    %next = tcp.add(%acc, %product) : DTYPE
    tcp.yield(%next)
  }) : tensor<[N]x[D]xDTYPE>
  tcp.return(%v)
}
"""  # noqa: E501
SCAN = """\
func @scan(%x: tensor<[N]x[D]xDTYPE>) -> (tensor<[N]x[D]xDTYPE>, tensor<[D]xDTYPE>) symbols [N: 0.., D: 0..] {
  %v, %w = tcp.cumsum(%x) {dim = 0} : tensor<[N]x[D]xDTYPE>, tensor<[D]xDTYPE>
  tcp.return(%v, %w)
}
"""


def _whole(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Whole numbers, which are added in any order."""
    return random.integers(-4, 5, shape).astype(NUMPY[dtype])


NUMPY = {"f32": np.float32, "f64": np.float64, "si8": np.int8, "si32": np.int32}


def _scatter(sizes: Sizes, dtype: str, low: int = 0, high: int = 0) -> list[Array]:
    v, d, n = sizes
    random = np.random.default_rng(v + d + n)
    n = n if v or high else 0
    return [
        _whole(random, (n, d), dtype),
        random.integers(low, max(v + high, 1), n).astype(np.int64),
        _whole(random, (v, d), dtype),
    ]


BAD = (-1, 2**31, 2**63 - 1, -(2**63))


def _scatter_anywhere(sizes: Sizes, dtype: str) -> list[Array]:
    x, ix, z = _scatter(sizes, dtype, -2, 2)
    bad = [*BAD, len(z)]
    ix[: len(bad)] = bad[: len(ix)]
    return [x, np.random.default_rng(1).permutation(ix), z]


def _sparse(sizes: Sizes, dtype: str) -> list[Array]:
    v, d, n = sizes
    random = np.random.default_rng(v + d + n)
    rows, cols = np.nonzero(random.random((n, v)) < 0.4)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n)[:n])]).astype(np.int64)
    b, z = _whole(random, (v, d), dtype), _whole(random, (n, d), dtype)
    return [_whole(random, rows.shape, dtype), cols.astype(np.int64), ptr, b, z]


def _added(x: Array, ix: Array, z: Array) -> Sequence[Array]:
    made = z.copy()
    np.add.at(made, ix, x)
    return [made]


def _set(x: Array, ix: Array, z: Array) -> Sequence[Array]:
    made = z.copy()
    for i, (row, at) in enumerate(zip(x, ix, strict=True)):
        if 0 <= at < len(z):
            made[at] = row + (2 * np.arange(len(row)) + i).astype(row.dtype)
    return [made]


def _multiplied(a: Array, cols: Array, ptr: Array, b: Array, z: Array) -> Sequence[Array]:
    made = z.copy()
    for m in range(len(z)):
        for k in range(ptr[m], ptr[m + 1]):
            made[m] += a[k] * b[cols[k]]
    return [made]


def _sums(x: Array) -> Sequence[Array]:
    made = np.add.accumulate(x, 0, dtype=x.dtype)
    return [made, made[-1] if len(x) else np.zeros(x.shape[1:], x.dtype)]


@dataclass(frozen=True)
class Case:
    """A payload with dims `lane`, along which it has lanes, and `step`; arguments of some sizes, and their results."""

    payload: str
    lane: str
    step: str
    given: Callable[[Sizes, str], list[Array]]
    wanted: Callable[..., Sequence[Array]]


CASES: Mapping[str, Case] = {
    "scatter-add": Case(ADD, "d1", "d0", _scatter, _added),
    "scatter that sets": Case(SET, "j", "i", _scatter_anywhere, _set),
    "ragged": Case(CSR, "d", "m", _sparse, _multiplied),
    "scan": Case(SCAN, "d1", "d0", lambda sizes, dtype: _scatter(sizes, dtype)[:1], _sums),
}
STEPS = {
    "a tile": "let a = tile(v, [LANE: 24])\nvectorize(a)",
    "more than a few vectors": "let a = tile(v, [LANE: 300])\nvectorize(a)",
    "whole tiles alone": 'let a = tile(v, [LANE: 16], tail: peel)\nvectorize(v.copy("main").loop(LANE))',
    "steps in tiles": "let a, b = tile(v, [LANE: 20, STEP: 40])\nvectorize(b)",
    "on its own": "vectorize(v)",
    "on two threads": "let a = tile(v, [LANE: 8], parallel: true)\nvectorize(a)",
}
DTYPES = dict(zip(STEPS, ("f32", "f64", "si8", "si32", "f32", "f32"), strict=True))
SIZES: Sequence[Sizes] = ((7, 37, 11), (3, 16, 8), (1, 333, 50), (0, 4, 0), (5, 0, 3), (9, 40, 1), (4, 8, 0))


def _schedule(case: Case, steps: str) -> str:
    body = steps.replace("LANE", case.lane).replace("STEP", case.step)
    return f'language 1\nschedule s(root: func) {{\nlet v = match one "v" in root\n{body}\n}}\n'


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_stay(target: str, name: str, steps: str) -> None:
    """At sizes of less than a vector, of whole ones and of some more, and of nothing; where indices are outside too."""
    require_cpu_of(tcpx.load_target(target))
    case = CASES[name]
    dtype = DTYPES[steps]
    module = tcpx.parse(case.payload.replace("DTYPE", dtype))
    program = tcpx.parse_schedule(_schedule(case, STEPS[steps]))
    kernel = tcpx.compile(module, program, target=target, threads=2)
    for sizes in SIZES:
        given = case.given(sizes, dtype)
        for found, wanted in zip(run_guarded(kernel, *given), case.wanted(*given), strict=True):
            assert np.array_equal(found, wanted), sizes


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_the_payload_computes_the_same_and_is_read_again_as_it_is_printed(name: str, steps: str) -> None:
    case = CASES[name]
    text = case.payload.replace("DTYPE", "f32")
    lines = _schedule(case, STEPS[steps]).splitlines()[2:-1]
    after = run(text, "\n".join(lines)).module
    assert print_module(parse(print_module(after))) == print_module(after)
    for sizes in ((3, 21, 6), (0, 4, 0)):
        given = case.given(sizes, "f32")
        for found, wanted in zip(evaluate_func(after, after.main, given), case.wanted(*given), strict=True):
            assert np.array_equal(found, wanted), sizes


def _loop(name: str, steps: str) -> str:
    """What the C of the whole tiles does for a step."""
    case = CASES[name]
    program = tcpx.parse_schedule(_schedule(case, steps))
    source = tcpx.emit(tcpx.parse(case.payload.replace("DTYPE", "f32")), program, target="x86_avx512").c_source
    step = {"ragged": "k.2"}.get(name, case.step)
    return source.split(f"/* v/{step} */")[1].split("}")[0]


@pytest.mark.parametrize(
    ("name", "loads", "stores"),
    [("scatter-add", 4, 2), ("ragged", 2, 0), ("scan", 2, 2)],
)
def test_what_is_handed_on_stays_in_registers(name: str, loads: int, stores: int) -> None:
    """Of two vectors; only what scatters reads and writes what it adds to."""
    loop = _loop(name, 'let a = tile(v, [LANE: 32], tail: peel)\nvectorize(v.copy("main").loop(LANE))')
    assert (loop.count("_mm512_loadu_ps"), loop.count("_mm512_storeu_ps")) == (loads, stores)
    assert "mask" not in loop


def test_an_index_outside_is_found_before_anything_is_written() -> None:
    case = CASES["scatter-add"]
    program = tcpx.parse_schedule(_schedule(case, STEPS["a tile"]))
    kernel = tcpx.compile(tcpx.parse(case.payload.replace("DTYPE", "f32")), program)
    x, ix, z = case.given((7, 37, 10), "f32")
    for place in (0, 5, 9):
        for bad in (-1, 7, 2**31, 2**63 - 1):
            wrong, out = ix.copy(), np.full_like(z, 17)
            wrong[place] = bad
            with pytest.raises(tcpx.ArgumentError, match="1 element out of range"):
                kernel(x, wrong, z, out=out)
            assert (out == 17).all()


GATHERED = """\
func @f(%t: tensor<[V]xf32>, %at: tensor<[N]x[D]xsi64>RANGE, %to: tensor<[N]xsi64> in 0 to M, %z: tensor<[M]x[D]xf32>) -> tensor<[M]x[D]xf32> symbols [V: 1.., N: 0.., D: 0.., M: 1..] {
  %v = tcp.generic(%t, %at, %to, init = %z) {iterators = [["i", "reduction"], ["j", "parallel"]],
      maps = [[in1], [i, j], [i], [in2, j]], OUTSIDEcombiner = "tcp.add"} ({
      (%e: f32, %a: si64, %b: si64, %acc: f32):
    %sum = tcp.add(%acc, %e) : f32
    tcp.yield(%sum)
  }) : tensor<[M]x[D]xf32>
  tcp.return(%v)
}
"""  # noqa: E501


@pytest.mark.parametrize("outside", ["", "clamp", "fill"])
@pytest.mark.parametrize("target", TARGETS)
def test_lanes_with_an_index_each_are_read_where_that_says(target: str, outside: str) -> None:
    require_cpu_of(tcpx.load_target(target))
    text = GATHERED.replace("RANGE", "" if outside else " in 0 to V")
    text = text.replace("OUTSIDE", f'out_of_range = "{outside}", ' if outside else "")
    program = tcpx.parse_schedule(
        'language 1\nschedule s(root: func) {\nlet v = match one "v" in root\n'
        "let a = tile(v, [j: 24])\nvectorize(a)\n}\n"
    )
    kernel = tcpx.compile(tcpx.parse(text), program, target=target)
    random = np.random.default_rng(0)
    for v, n, d, m in ((7, 5, 37, 3), (1, 9, 24, 2), (3, 0, 5, 2), (4, 3, 0, 2)):
        t, z = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((v,), (m, d)))
        at, to = random.integers(0, v, (n, d)), random.integers(0, m, n)
        if outside and at.size:
            at.reshape(-1)[random.permutation(at.size)[:6]] = (*BAD, v, -7)
        inside = (at >= 0) & (at < v)
        rows = np.where(inside | (outside == "clamp"), t[np.clip(at, 0, v - 1)], np.float32(0))
        wanted = z.copy()
        np.add.at(wanted, to, rows)
        assert np.array_equal(run_guarded(kernel, t, at, to, z)[0], wanted), (v, n, d, m)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('lanes = ["d1", 16]', 'lanes = ["d1", 0]', "the attribute `lanes` is of another kind"),
        ('lanes = ["d1", 16]', 'lanes = ["d7", 16]', "the attribute `lanes` is of another kind"),
        ('lanes = ["d1", 16]', "lanes = 16", "the attribute `lanes` is of another kind"),
        ('lanes = ["d1", 16]', 'lanes = ["d0", 16]', "vectors do not run along `d0`"),
    ],
)
def test_what_has_lanes_is_checked(old: str, new: str, message: str) -> None:
    text = ADD.replace("DTYPE", "f32").replace("{dim = 0}", '{dim = 0, lanes = ["d1", 16]}')
    assert print_module(parse(text)) == text.replace(": 0..", "")
    as_it_is = tcpx.parse_schedule("language 1\nschedule s(root: func) {\n}\n")
    with pytest.raises((VerifyError, tcpx.TcpxError)) as caught:
        tcpx.emit(tcpx.parse(text.replace(old, new)), as_it_is, target="x86_avx2")
    assert message in str(caught.value)
