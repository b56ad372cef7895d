"""Scatters without a parallel dim along which lanes lie apart: what is added is computed in vectors, and each lane is
combined in its turn.

Every kernel runs between pages that may not be touched: see tests/guard_pages.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
SIZES = ((7, 3, 37), (1, 2, 16), (5, 1, 100), (0, 2, 0), (4, 1, 3), (3, 2, 1), (9, 2, 0))
"""Of the table, of rows, of what is added to it: less than a vector, whole ones, some more, and nothing."""


def _scatter(dims: str, maps: str, body: str, attributes: str = 'combiner = "tcp.add"', inputs: str = "%x, %ix") -> str:
    return f"tcp.generic({inputs}, init = %z) {{iterators = {dims}, maps = {maps}, {attributes}}} ({{ {body} }})"


SQUARES = """(%a: T, %i: si64, %acc: T):
    %b = tcp.mul(%a, %a) : T
    %c = tcp.sub(%b, %a) : T
    %d = tcp.OP(%acc, %c) : T
    tcp.yield(%d)"""
LAST = """(%a: T, %i: si64, %j: si64, %acc: T):
    %p = tcp.cast(%j) : T
    %b = tcp.mul(%a, %p) : T
    tcp.yield(%b)"""
TABLE = """(%u: T, %k: si64, %a: T, %i: si64, %acc: T):
    %b = tcp.mul(%u, %a) : T
    %d = tcp.add(%acc, %b) : T
    tcp.yield(%d)"""
I, IJ = '[["i", "reduction"]]', '[["i", "parallel"], ["j", "reduction"]]'
ROWS = '[["i", "reduction"], ["j", "parallel"]]'


def _squares(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x * x - x


def _row(x: Array, ix: Array, z: Array, combine: Callable[[Any, Any], Any] = np.add) -> Array:
    made = z.copy()
    with np.errstate(over="ignore"):
        for value, at in zip(_squares(x).ravel(), ix.ravel(), strict=True):
            if 0 <= at < len(z):
                made[at] = combine(made[at], value)
    return made


def _rows(x: Array, ix: Array, z: Array) -> Array:
    return np.array([_row(*row) for row in zip(x, ix, z, strict=True)], z.dtype).reshape(z.shape)


def _columns(x: Array, ix: Array, z: Array) -> Array:
    return np.ascontiguousarray(_rows(x.T, ix.T, z.T).T)


def _last(x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    for place, (value, at) in enumerate(zip(x, ix, strict=True)):
        if 0 <= at < len(z):
            made[at] = value * np.asarray(place).astype(x.dtype)
    return made


def _clamped(x: Array, ix: Array, z: Array) -> Array:
    return _row(x, np.clip(ix, 0, max(0, len(z) - 1)), z)


def _of_table(t: Array, at: Array, x: Array, ix: Array, z: Array) -> Array:
    made = z.copy()
    with np.errstate(over="ignore"):
        for place, value, to in zip(at, x, ix, strict=True):
            if 0 <= to < len(z):
                made[to] += (t[place] if 0 <= place < len(t) else np.zeros((), t.dtype)) * value
    return made


@dataclass(frozen=True)
class Case:
    """The types of `x`, `ix` and `z`, the operation, whether indices may be outside, the result; and the statement."""

    shapes: tuple[str, str, str]
    operation: str
    wanted: Callable[..., Array]
    is_anywhere: bool = False
    least: int = 0
    """Of the table; 1 where indices are clamped, or padded beside a dim that may be empty."""
    has_table: bool = False


FLAT, GRID = ("[N]", "[N]", "[V]"), ("[D]x[N]", "[D]x[N]", "[D]x[V]")
SET = 'positions = [i], neutral = [0], out_of_range = "fill"'
CASES: Mapping[str, Case] = {
    "sums": Case(FLAT, _scatter(I, "[[i], [i], [in1]]", SQUARES.replace("OP", "add")), _row),
    "largest": Case(
        FLAT,
        _scatter(I, "[[i], [i], [in1]]", SQUARES.replace("OP", "max"), 'combiner = "tcp.max", out_of_range = "fill"'),
        lambda x, ix, z: _row(x, ix, z, np.maximum),
        is_anywhere=True,
    ),
    "the last wins": Case(
        FLAT, _scatter('[["i", "sequential"]]', "[[i], [i], [in1]]", LAST, SET), _last, is_anywhere=True
    ),
    "clamped": Case(
        FLAT,
        _scatter(I, "[[i], [i], [in1]]", SQUARES.replace("OP", "add"), 'combiner = "tcp.add", out_of_range = "clamp"'),
        _clamped,
        is_anywhere=True,
        least=1,
    ),
    "in rows": Case(GRID, _scatter(IJ, "[[i, j], [i, j], [i, in1]]", SQUARES.replace("OP", "add")), _rows),
    "in columns": Case(
        ("[N]x[D]", "[N]x[D]", "[V]x[D]"),
        _scatter(ROWS, "[[i, j], [i, j], [in1, j]]", SQUARES.replace("OP", "add")),
        _columns,
        least=1,
    ),
    "of what is gathered": Case(
        FLAT,
        _scatter(
            I,
            "[[in1], [i], [i], [i], [in3]]",
            TABLE,
            'combiner = "tcp.add", out_of_range = "fill"',
            inputs="%t, %at, %x, %ix",
        ),
        _of_table,
        is_anywhere=True,
        has_table=True,
    ),
}  # fmt: skip
STEPS = {
    "on its own": "vectorize(v)",
    "a tile": "let a = tile(v, [DIM: 24])\nvectorize(a)",
    "more than a few vectors": "let a = tile(v, [DIM: 300])\nvectorize(a)",
    "whole tiles alone": 'let a = tile(v, [DIM: 16], tail: peel)\nvectorize(v.copy("main").loop(DIM))',
    "padded": "tile(v, [DIM: 32OTHER], tail: pad)\nvectorize(v.loop(INNER))",
}
DTYPES = dict(zip(STEPS, ("f32", "f64", "si8", "si32", "ui16"), strict=True))


def _text(name: str, dtype: str) -> str:
    case = CASES[name]
    x, ix, z = case.shapes
    inside = "" if case.is_anywhere else " in 0 to V"
    table = f"%t: tensor<[V]x{dtype}>, %at: tensor<[N]xsi64>, " if case.has_table else ""
    operation = case.operation.replace("T,", f"{dtype},").replace(": T)", f": {dtype})")
    symbols = f"symbols [N: 0.., V: {case.least}..{', D: 1..' if 'D' in x else ''}]"
    return (
        f"func @f({table}%x: tensor<{x}x{dtype}>, %ix: tensor<{ix}xsi64>{inside}, %z: tensor<{z}x{dtype}>)"
        f" -> tensor<{z}x{dtype}> {symbols} {{\n"
        f"  %v = {operation} : tensor<{z}x{dtype}>\n"
        "  tcp.return(%v)\n}\n"
    ).replace(": T\n", f": {dtype}\n")


def _schedule(steps: str, dim: str) -> str:
    steps = steps.replace("OTHER", ", i: 1" if dim == "j" else "").replace("INNER", "i").replace("DIM", dim)
    return f'let v = match one "v" in root\n{steps}'


def _arguments(name: str, sizes: tuple[int, int, int], dtype: str) -> list[Array]:
    """Random numbers, whose sums depend on their order; indices that meet often."""
    case, random = CASES[name], np.random.default_rng(sum(sizes))
    v, d, n = max(sizes[0], case.least), *sizes[1:]
    shapes = [tuple({"[N]": n, "[V]": v, "[D]": d}[e] for e in shape.split("x")) for shape in case.shapes]

    def numbers(shape: tuple[int, ...]) -> Array:
        kind = NUMPY[dtype]
        low = 0 if dtype.startswith("ui") else -5
        return (random.standard_normal(shape) if dtype[0] == "f" else random.integers(low, 99, shape)).astype(kind)

    x, z = numbers(shapes[0]), numbers(shapes[2])
    ix = random.integers(0, max(v, 1), shapes[1]).astype(np.int64)
    if case.is_anywhere:
        _spoil(ix, v, random)
    at = random.integers(0, max(v, 1), n).astype(np.int64)
    _spoil(at, v, random)
    return [numbers((v,)), at, x, ix, z] if case.has_table else [x, ix, z]


def _spoil(indices: Array, extent: int, random: np.random.Generator) -> None:
    """First, last and some in between are outside."""
    bad = (-1, 2**31, 2**63 - 1, -(2**63), extent, -1, extent)
    places = [0, len(indices) - 1, *random.permutation(len(indices))] if len(indices) else []
    for place, number in zip(places, bad, strict=False):
        indices[place] = number


def _dim(name: str) -> str:
    return "j" if '"j"' in CASES[name].operation else "i"


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_numbers_and_their_order_stay(target: str, name: str, steps: str) -> None:
    """Sums of floats have the bits of those that are made one by one."""
    require_cpu_of(tcpx.load_target(target))
    dtype = DTYPES[steps]
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{_schedule(STEPS[steps], _dim(name))}\n}}\n")
    kernel = tcpx.compile(tcpx.parse(_text(name, dtype)), program, target=target)
    for sizes in SIZES:
        given = _arguments(name, sizes, dtype)
        found, wanted = run_guarded(kernel, *given)[0], CASES[name].wanted(*given)
        assert np.array_equal(found, wanted), sizes


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("name", CASES)
def test_the_payload_computes_the_same_and_is_read_again_as_it_is_printed(name: str, steps: str) -> None:
    dtype = DTYPES[steps]
    after = run(_text(name, dtype), _schedule(STEPS[steps], _dim(name))).module
    assert print_module(parse(print_module(after))) == print_module(after)
    for sizes in ((5, 2, 21), (4, 2, 0)):
        given = _arguments(name, sizes, dtype)
        assert np.array_equal(evaluate_func(after, after.main, given)[0], CASES[name].wanted(*given)), sizes


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_added_is_computed_in_vectors(target: str) -> None:
    """By the default schedule; what is left for each lane is to read, to add and to write."""
    text = _text("sums", "f32").replace("tcp.mul(%a, %a)", "tcp.exp(%a)")
    source = tcpx.emit(tcpx.parse(text), target=target).c_source
    lane = source.split("/* v/i.lane */")[1].split("}")[0]
    assert "exp" not in lane
    assert lane.count(" + ") == 5, lane


def test_a_body_that_computes_nothing_has_no_vectors() -> None:
    """Elements are added from where they lie."""
    body = "(%a: T, %i: si64, %acc: T):\n    %d = tcp.add(%acc, %a) : T\n    tcp.yield(%d)"
    head, _, tail = _text("sums", "f32").partition("({ ")
    text = head + "({ " + body.replace("T", "f32") + tail[tail.index(" }) : ") :]
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{_schedule('vectorize(v)', 'i')}\n}}\n")
    source, plain = (tcpx.emit(tcpx.parse(text), p, target="x86_avx512").c_source for p in (program, None))
    assert "_mm512" not in source
    assert source.count("/* v/i */") == plain.count("/* v/i */") == 1


@pytest.mark.parametrize("place", [0, 20, 36])
@pytest.mark.parametrize("bad", [-1, 7, 2**31, 2**63 - 1])
def test_an_index_outside_is_found_before_anything_is_written(place: int, bad: int) -> None:
    """In the first vector, a whole one and the masked one."""
    kernel = tcpx.compile(tcpx.parse(_text("sums", "f32")))
    x, ix, z = _arguments("sums", (7, 1, 37), "f32")
    out = np.full_like(z, 17)
    ix[place] = bad
    with pytest.raises(tcpx.ArgumentError, match="1 element out of range"):
        kernel(x, ix, z, out=out)
    assert (out == 17).all()


RAGGED = """\
func @f(%a: tensor<[K]xf32>, %cols: tensor<[K]xsi64> in 0 to V, %ptr: tensor<[N + 1]xsi64> in 0 to K + 1 sorted spanning,
    %x: tensor<[N]xf32>, %z: tensor<[V]xf32>) -> tensor<[V]xf32> symbols [K: 0.., N: 0.., V: 0..] {
  %first = gml_st.materialize(%ptr) tile [0] [N] : tensor<[N]xsi64>
  %end = gml_st.materialize(%ptr) tile [1] [N] : tensor<[N]xsi64>
  %v = tcp.generic(%a, %cols, %first, %end, %x, init = %z) {iterators = [["m", "reduction"], ["k", "reduction"]],
      maps = [[k], [k], [m], [m], [m], [in1]], ragged = [["k", in2, in3]], combiner = "tcp.add"} ({
      (%e: f32, %c: si64, %l: si64, %h: si64, %f: f32, %acc: f32):
    %product = tcp.mul(%e, %f) : f32
    %next = tcp.add(%acc, %product) : f32
    tcp.yield(%next)
  }) : tensor<[V]xf32>
  tcp.return(%v)
}
"""  # noqa: E501


@pytest.mark.parametrize("target", TARGETS)
def test_a_transposed_sparse_matrix_times_a_vector(target: str) -> None:
    require_cpu_of(tcpx.load_target(target))
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{_schedule('vectorize(v)', 'k')}\n}}\n")
    kernel = tcpx.compile(tcpx.parse(RAGGED), program, target=target)
    for n, v in ((6, 90), (1, 40), (0, 4), (3, 0)):
        random = np.random.default_rng(n + v)
        rows, cols = np.nonzero(random.random((n, v)) < 0.4)
        ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n)[:n])]).astype(np.int64)
        a, x, z = (random.standard_normal(k).astype(np.float32) for k in (len(rows), n, v))
        wanted = z.copy()
        np.add.at(wanted, cols, a * x[rows])
        assert np.array_equal(run_guarded(kernel, a, cols.astype(np.int64), ptr, x, z)[0], wanted), (n, v)


TWO = """\
func @f(%x: tensor<[N]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]xf32>, %c: tensor<[V]xsi64>)
    -> (tensor<[V]xf32>, tensor<[V]xsi64>) symbols [N, V] {
  %v, %w = tcp.generic(%x, %ix, init = (%z, %c)) {iterators = [["i", "reduction"]], maps = [[i], [i], [in1], [in1]],
      neutral = [-inf, 0]} ({ (%a: f32, %i: si64):
    %b = tcp.mul(%a, %a) : f32
    %one = tcp.const {value = 1} : si64
    tcp.yield(%b, %one)
  }, { (%m: f32, %n: si64, %a: f32, %k: si64):
    %p = tcp.max(%m, %a) : f32
    %q = tcp.add(%n, %k) : si64
    tcp.yield(%p, %q)
  }) : tensor<[V]xf32>, tensor<[V]xsi64>
  tcp.return(%v, %w)
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_several_results(target: str) -> None:
    require_cpu_of(tcpx.load_target(target))
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{_schedule('vectorize(v)', 'i')}\n}}\n")
    kernel = tcpx.compile(tcpx.parse(TWO), program, target=target)
    x, ix, z = _arguments("sums", (7, 1, 53), "f32")
    c = np.arange(7)
    largest, counts = z.copy(), c.copy()
    np.maximum.at(largest, ix, x * x)
    np.add.at(counts, ix, 1)
    found = run_guarded(kernel, x, ix, z, c)
    assert np.array_equal(found[0], largest)
    assert np.array_equal(found[1], counts)


def test_a_number_beside_has_no_lanes() -> None:
    """What is scattered and reduced to a number at once stays a loop over elements."""
    text = TWO.replace(", %c: tensor<[V]xsi64>", "").replace("init = (%z, %c)", "").replace("%ix, )", "%ix)")
    text = text.replace("tensor<[V]xsi64>)", "si64)").replace("[in1], [in1]]", "[in1], []]")
    text = text.replace("tensor<[V]xsi64>\n", "si64\n").replace(", %z: tensor<[V]xf32>", "", 1)
    text = text.replace("%ix: tensor<[N]xsi64> in 0 to V", "%ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]xf32>")
    found = refusal(text, _schedule("vectorize(v)", "i"))
    assert found.found == "tensor<[V]xf32>, si64"
    x, ix, z = _arguments("sums", (7, 1, 53), "f32")
    values, count = run_guarded(tcpx.compile(tcpx.parse(text)), x, ix, z)
    wanted = np.full(7, -np.inf, np.float32)
    np.maximum.at(wanted, ix, x * x)
    assert np.array_equal(values, wanted)
    assert count == 53


def test_lanes_along_a_dim_behind_which_others_are_combined_are_refused() -> None:
    """The order of what is added would change."""
    text = _text("sums", "f32").replace('[["i", "reduction"]]', '[["j", "reduction"], ["i", "reduction"]]')
    text = text.replace("[[i], [i], [in1]]", '[[j, i], [j, i], [in1]], lanes = ["j", 8]').replace("[N]x", "[N]x[N]x")
    text = text.replace("%v", "%w")
    with pytest.raises(
        tcpx.VerifyError, match="lanes lie along a parallel dim, one of a commutative reduction, or the innermost"
    ):
        parse(text)


def test_what_has_lanes_already_is_left() -> None:
    found = refusal(_text("sums", "f32"), _schedule("vectorize(v)\nvectorize(v)", "i"))
    assert found.message == "`vectorize` changes nothing here"
