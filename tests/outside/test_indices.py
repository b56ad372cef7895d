"""Operations whose elements say where others are read and written, from outside of the package and in the text."""

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
from tcpx.payload.types import dtype_of, shape_of
from tcpx.transform.language.loader import Program
from tests.guard_pages import run_guarded
from tests.outside import operations  # noqa: F401  (registers them)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A function with the operation as %v, its producers and consumer; what NumPy says of (values, indices)."""

    payload: str
    wanted: Callable[[Array, Array, Array], Array]
    schedules: Mapping[str, str]


GATHER = """
func @f(%x: tensor<[V]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[N]x[D]xf32>) -> tensor<[N]x[D]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[V]x[D]xf32>
  %v = OPERATION : tensor<[N]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[N]x[D]xf32>
  tcp.return(%c)
}
"""
COLUMNS = """
func @f(%x: tensor<[D]x[V]xf32>, %ix: tensor<[N]xsi32> in 0 to V, %z: tensor<[D]x[N]xf32>) -> tensor<[D]x[N]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[D]x[V]xf32>
  %v = outside.gather(%p, %ix) {axis = 1} : tensor<[D]x[N]xf32>
  %c = tcp.add(%v, %z) : tensor<[D]x[N]xf32>
  tcp.return(%c)
}
"""
SCATTER = """
func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]x[D]xf32>) -> tensor<[V]x[D]xf32>
    symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[D]xf32>
  %v = OPERATION : tensor<[V]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[V]x[D]xf32>
  tcp.return(%c)
}
"""
GENERIC_GATHER = """tcp.generic(%p, %ix) {iterators = [["d0", "parallel"], ["d1", "parallel"]],
      maps = [[in1, d1], [d0], [d0, d1]]} ({ (%a: f32, %i: si64):
    tcp.yield(%a)
  })"""
GENERIC_SCATTER = """tcp.generic(%p, %ix, init = %z) {iterators = [["i", "reduction"], ["j", "parallel"]],
      maps = [[i, j], [i], [in1, j]], combiner = "tcp.add"} ({ (%a: f32, %i: si64, %acc: f32):
    %s = tcp.add(%acc, %a) : f32
    tcp.yield(%s)
  })"""


def _gathering(rows: str, columns: str) -> Mapping[str, str]:
    both = f"let a, b = tile(v, [{rows}: 3, {columns}: 5])\n"
    return {
        "as it is": "",
        "tiled": both,
        "threads": f"let a, b = tile(v, [{rows}: 3, {columns}: 5], parallel: true)",
        "padded": f"let a, b = tile(v, [{rows}: 4, {columns}: 8], tail: pad)",
        "peeled": f"let a, b = tile(v, [{rows}: 4, {columns}: 8], tail: peel)",
        "table fused": f"let b = tile(v, [{columns}: 5])\nfuse(p, into: b, recompute: true)",
        "consumer fused": both + "fuse(c, into: b)",
        "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b, recompute: true)",
        "vectorized": f"let a, b = tile(v, [{rows}: 4, {columns}: 16], tail: pad)\nvectorize(b)",
        "vectorized without a tail": f"let a, b = tile(v, [{rows}: 4, {columns}: 16], tail: peel)\n"
        f'vectorize(v.copy("main").loop({columns}))',
        "fused and vectorized": "let a, b = tile(c, [d0: 2, d1: 16], tail: pad)\n"
        "fuse(v, into: b, recompute: true)\nvectorize(b)",
        "generalized": f"let g = generalize(v)\nlet a, b = tile(g, [{rows}: 3, {columns}: 5])",
    }


SCATTERING = {
    "as it is": "",
    "tiled": "let a, b = tile(v, [i: 3, j: 5])",
    "columns on threads": "let a = tile(v, [j: 5], parallel: true)",
    "padded": "let a, b = tile(v, [i: 4, j: 8], tail: pad)",
    "peeled": "let a, b = tile(v, [j: 8, i: 4], tail: peel)",
    "producer fused": "let a, b = tile(v, [j: 5, i: 3])\nfuse(p, into: b)",
    "consumer fused": "let a = tile(v, [j: 5])\nfuse(c, into: a)",
    "fused as a producer": "let a = tile(c, [d1: 5])\nfuse(v, into: a)",
    "fused as a consumer": "let a = tile(p, [d1: 5])\nfuse(v, into: a)",
    "in a vectorized loop": "let a, b = tile(v, [j: 16, i: 4], tail: pad)\nfuse(p, into: b)\nvectorize(b)",
    "vectorized": "let a = tile(v, [j: 24])\nvectorize(a)",
    "generalized": "let g = generalize(v)\nlet a, b = tile(g, [i: 3, j: 5])",
}


def _added(x: Array, ix: Array, z: Array, start: Array) -> Array:
    made = start.copy()
    np.add.at(made, ix, x * x)
    return made + z


CASES: Mapping[str, Case] = {
    "gather rows": Case(
        GATHER.replace("OPERATION", "outside.gather(%p, %ix) {axis = 0}"),
        lambda x, ix, z: (x * x)[ix] + z,
        _gathering("d0", "d1"),
    ),
    "gather columns": Case(COLUMNS, lambda x, ix, z: (x * x)[:, ix] + z, _gathering("d0", "d1")),
    "gather in a generic": Case(
        GATHER.replace("OPERATION", GENERIC_GATHER), lambda x, ix, z: (x * x)[ix] + z, _gathering("d0", "d1")
    ),
    "scatter-add": Case(
        SCATTER.replace("OPERATION", "outside.scatter_add(%p, %ix, init = %z)"),
        lambda x, ix, z: _added(x, ix, z, z),
        SCATTERING,
    ),
    "scatter-add to nothing": Case(
        SCATTER.replace("OPERATION", "outside.scatter_add(%p, %ix)"),
        lambda x, ix, z: _added(x, ix, z, np.zeros_like(z)),
        SCATTERING,
    ),
    "scatter-add in a generic": Case(
        SCATTER.replace("OPERATION", GENERIC_SCATTER), lambda x, ix, z: _added(x, ix, z, z), SCATTERING
    ),
}
SIZES = ((7, 5, 11), (3, 16, 8), (1, 33, 4), (0, 4, 0), (5, 0, 3), (9, 40, 1), (4, 8, 0))
RUNS = [
    (name, schedule)
    for name, case in CASES.items()
    for schedule in case.schedules
    if not (schedule == "generalized" and "tcp.generic" in case.payload)
]


def _arguments(payload: str, v: int, d: int, n: int) -> list[Array]:
    """Random arguments of whole numbers, which are added in any order."""
    random = np.random.default_rng(v + d + n)
    sizes = {"V": v, "D": d, "N": n}
    module = parse(payload)
    made: list[Array] = []
    for value in module.main.inputs:
        shape = tuple(sizes[str(extent)] for extent in shape_of(value.type))
        whole = random.integers(0, max(v, 1), shape) if value.name == "ix" else random.integers(-9, 9, shape)
        made.append(whole.astype(dtype_of(value.type).numpy))
    return made


def _schedule(case: Case, steps: str) -> Program:
    lets = [f'let {name} = match one "{name}" in root' for name in "vpc"]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n" + "\n".join([*lets, steps]) + "\n}\n")


@pytest.mark.parametrize("name", CASES)
def test_prints_and_evaluates(name: str) -> None:
    case = CASES[name]
    module = parse(case.payload)
    assert print_module(parse(print_module(module))) == print_module(module)
    for sizes in SIZES:
        given = _arguments(case.payload, *sizes)
        assert np.array_equal(evaluate_func(module, module.main, given)[0], case.wanted(*given)), sizes


@pytest.mark.parametrize(("name", "schedule"), RUNS)
def test_compiles_under_schedules(name: str, schedule: str) -> None:
    case = CASES[name]
    kernel = tcpx.compile(
        tcpx.parse(case.payload),
        schedule=_schedule(case, case.schedules[schedule]),
        threads=2 if "threads" in schedule else 1,
    )
    for sizes in SIZES:
        given = _arguments(case.payload, *sizes)
        assert np.array_equal(run_guarded(kernel, *given)[0], case.wanted(*given)), sizes


CSR = """
func @f(%vals: tensor<[K]xf32>, %cols: tensor<[K]xsi64> in 0 to V, %ptr: tensor<[R]xsi64> in 0 to K + 1 sorted spanning,
    %b: tensor<[V]x[D]xf32>, %z: tensor<[R - 1]x[D]xf32>) -> tensor<[R - 1]x[D]xf32> symbols [K, V, R: 1.., D] {
  %p = tcp.mul(%vals, %vals) : tensor<[K]xf32>
  %first = gml_st.materialize(%ptr) tile [0] [R - 1] : tensor<[R - 1]xsi64>
  %end = gml_st.materialize(%ptr) tile [1] [R - 1] : tensor<[R - 1]xsi64>
  %v = OPERATION : tensor<[R - 1]x[D]xf32>
  %c = tcp.add(%v, %z) : tensor<[R - 1]x[D]xf32>
  tcp.return(%c)
}
"""
GENERIC_CSR = """tcp.generic(%p, %cols, %first, %end, %b) {
      iterators = [["m", "parallel"], ["k", "reduction"], ["d", "parallel"]],
      maps = [[k], [k], [m], [m], [in1, d], [m, d]], ragged = [["k", in2, in3]], combiner = "tcp.add"} ({
      (%a: f32, %c: si64, %l: si64, %h: si64, %x: f32, %acc: f32):
    %prod = tcp.mul(%a, %x) : f32
    %t = tcp.add(%acc, %prod) : f32
    tcp.yield(%t)
  })"""
ROWS_OF_CSR = {
    "as it is": "",
    "tiled": "let a = tile(v, [m: 2])",
    "every dim tiled": "let a, b, e = tile(v, [m: 2, k: 3, d: 4])",
    "threads": "let a, b = tile(v, [m: 4, d: 8], parallel: true)",
    "padded": "let a, b = tile(v, [m: 2, k: 4], tail: pad)",
    "peeled": "let a, b = tile(v, [m: 2, d: 4], tail: peel)",
    "parts of rows, and one by one": "let a, b = tile(v, [k: 16, m: 2], tail: scalar)",
    "producer fused": "let a, b = tile(v, [m: 2, k: 3])\nfuse(p, into: b)",
    "consumer fused": "let a, b = tile(v, [m: 3, d: 5])\nfuse(c, into: b)",
    "fused as a producer": "let a, b = tile(c, [d0: 3, d1: 5])\nfuse(v, into: b)",
    "in a vectorized loop": "let a, b = tile(c, [d0: 4, d1: 16], tail: pad)\nfuse(v, into: b)\nvectorize(b)",
    "interchanged": "let g = interchange(v, [d, m, k])\nlet a, b = tile(g, [d: 4, m: 2])",
    "vectorized": "let a, b = tile(v, [m: 2, d: 24])\nvectorize(a)",
    "parts of rows vectorized": "let a, b, e = tile(v, [m: 2, d: 24, k: 3])\nvectorize(e)",
}


def _sparse(m: int, v: int, d: int) -> tuple[list[Array], Array]:
    """The rows of a random sparse matrix and what it is multiplied with; what the kernel gives."""
    random = np.random.default_rng(m + v + d)
    dense = (random.random((m, v)) < 0.3) * random.integers(1, 5, (m, v))
    rows, cols = np.nonzero(dense)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=m)[:m])]).astype(np.int64)
    b, z = (random.integers(-5, 5, shape).astype(np.float32) for shape in ((v, d), (m, d)))
    values = dense[rows, cols].astype(np.float32)
    return [values, cols.astype(np.int64), ptr, b, z], ((dense * dense) @ b + z).astype(np.float32)


@pytest.mark.parametrize("operation", ["outside.csr_times_dense(%p, %cols, %first, %end, %b)", GENERIC_CSR])
@pytest.mark.parametrize("schedule", ROWS_OF_CSR)
def test_sparse_rows_times_dense(operation: str, schedule: str) -> None:
    case = Case(CSR.replace("OPERATION", operation), lambda *given: given[0], {})
    module = parse(case.payload)
    assert print_module(parse(print_module(module))) == print_module(module)
    program = _schedule(case, ROWS_OF_CSR[schedule])
    kernel = tcpx.compile(tcpx.parse(case.payload), schedule=program, threads=2 if schedule == "threads" else 1)
    for sizes in ((6, 9, 5), (1, 1, 1), (0, 4, 2), (3, 5, 0), (17, 20, 33)):
        given, wanted = _sparse(*sizes)
        assert np.array_equal(evaluate_func(module, module.main, given)[0], wanted), sizes
        assert np.array_equal(run_guarded(kernel, *given)[0], wanted), sizes


def test_a_row_is_known_before_its_iterations() -> None:
    case = Case(CSR.replace("OPERATION", GENERIC_CSR), lambda *given: given[0], {})
    program = _schedule(case, "let g = interchange(v, [d, k, m])")
    with pytest.raises(tcpx.ScheduleError, match="the iterations of `k` of %v depend on `m`") as caught:
        tcpx.apply_schedule(tcpx.parse(case.payload), program)
    assert (caught.value.diagnostic.required, caught.value.diagnostic.found) == ("`m` before `k`", "d, k, m")


OUTSIDE = (-1, 7, 2**31, 2**63 - 1)


@pytest.mark.parametrize("schedule", ["as it is", "padded", "vectorized", "vectorized without a tail"])
@pytest.mark.parametrize("name", ["gather rows", "gather columns"])
def test_an_index_outside_is_found_before_anything_is_written(name: str, schedule: str) -> None:
    """In whole tiles, in tails and in lanes beside others: -1, the extent, and what 32 and 63 bits hold."""
    case = CASES[name]
    kernel = tcpx.compile(tcpx.parse(case.payload), schedule=_schedule(case, case.schedules[schedule]))
    x, ix, z = _arguments(case.payload, 7, 21, 10)
    for place in (0, 5, 9):
        for bad in OUTSIDE:
            wrong = ix.copy()
            if bad > np.iinfo(ix.dtype).max:
                continue
            wrong[place] = bad
            out = np.full_like(case.wanted(x, ix, z), 17)
            with pytest.raises(tcpx.ArgumentError) as caught:
                kernel(x, wrong, z, out=out)
            assert str(caught.value).splitlines() == [
                "definite error: argument `ix` has 1 element out of range",
                "  required: elements in 0 to 6",
                f"  found: {bad} at [{place}]",
            ]
            assert (out == 17).all()
            with pytest.raises(tcpx.ArgumentError, match="element out of range"):
                tcpx.evaluate(tcpx.parse(case.payload), x, wrong, z)


def test_any_index_into_nothing_is_outside() -> None:
    case = CASES["gather rows"]
    kernel = tcpx.compile(tcpx.parse(case.payload))
    with pytest.raises(tcpx.ArgumentError, match="there is nothing to index"):
        kernel(np.zeros((0, 4), np.float32), np.zeros(2, np.int64), np.zeros((2, 4), np.float32))


def test_an_index_outside_stands_for_the_nearest_where_that_is_asked_for() -> None:
    text = CASES["gather in a generic"].payload.replace(" in 0 to V", "").replace("[V, D, N]", "[V: 1.., D, N]")
    text = text.replace("maps =", 'out_of_range = "clamp", maps =')
    for schedule in ("as it is", "padded", "vectorized"):
        case = CASES["gather in a generic"]
        kernel = tcpx.compile(tcpx.parse(text), schedule=_schedule(case, case.schedules[schedule]))
        x, ix, z = _arguments(CASES["gather in a generic"].payload, 7, 21, 10)
        ix[:5] = (-1, 7, 2**31, 2**63 - 1, -(2**63))
        wanted = (x * x)[np.clip(ix, 0, 6)] + z
        assert np.array_equal(run_guarded(kernel, x, ix, z)[0], wanted)
        assert np.array_equal(tcpx.evaluate(tcpx.parse(text), x, ix, z), wanted)


REFUSED = {
    "no range": (
        (" in 0 to V", ""),
        "`in1` is an index into dim 0 of `operand 0`, and nothing says that it is inside",
    ),
    "too wide a range": ((" in 0 to V", " in 0 to V + 1"), "and nothing says that it is inside"),
    "an index of floats": (("xsi64> in 0 to V", "xf32>"), "`in1` is an index"),
    "an index that is indexed": (("[d0], [d0, d1]", "[in0], [d0, d1]"), "a map uses the element `in1`"),
    "clamped into nothing": (
        ("maps =", 'out_of_range = "clamp", maps ='),
        "dim 0 of `operand 0` may be empty, and has an element for each index",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_be_outside_is_refused(name: str) -> None:
    (old, new), message = REFUSED[name]
    text = CASES["gather in a generic"].payload
    assert old in text
    with pytest.raises(tcpx.TcpxError) as caught:
        parse(text.replace(old, new).replace("%i: si64", "%i: f32" if "f32>" in new else "%i: si64"))
    assert message in str(caught.value)


CALL = """
func @main(%table: tensor<[R]x[C]xf32>, %at: tensor<[K]xsi64> in 0 to R, %z: tensor<[K]x[C]xf32>) -> tensor<[K]x[C]xf32>
    symbols [R, C, K] {
  %y = tcp.call @f(%table, %at, %z) : tensor<[K]x[C]xf32>
  tcp.return(%y)
}
"""


def test_a_call_gives_elements_in_the_range_that_a_function_declares() -> None:
    text = CALL + CASES["gather rows"].payload
    x, ix, z = _arguments(CASES["gather rows"].payload, 7, 5, 11)
    assert np.array_equal(tcpx.compile(tcpx.parse(text))(x, ix, z), (x * x)[ix] + z)
    with pytest.raises(tcpx.VerifyError) as caught:
        parse(text.replace(" in 0 to R", " in 0 to R + 1"))
    found = caught.value.diagnostic
    assert found.message == "%y (tcp.call): the elements of the argument `ix` of @f are in a range"
    assert found.required == "a value with elements in 0 to R"
    assert found.found == "%at: tensor<[K]xsi64>, in 0 to R + 1"


@pytest.mark.parametrize("name", ["gather rows", "scatter-add", "gather in a generic"])
def test_what_is_outlined_declares_what_is_known(name: str) -> None:
    case = CASES[name]
    kernel = tcpx.compile(tcpx.parse(case.payload), schedule=_schedule(case, "let w = outline(v)"))
    given = _arguments(case.payload, 7, 5, 11)
    assert np.array_equal(kernel(*given), case.wanted(*given))


ELEMENTS = """
func @f(%x: tensor<[V]xDTYPE>, %ix: tensor<[N]xsi64> in 0 to V) -> tensor<[N]xDTYPE> symbols [V, N] {
  %v = tcp.generic(%x, %ix) {iterators = [["n", "parallel"]], maps = [[in1], [n], [n]]} ({ (%a: DTYPE, %i: si64):
    %s = tcp.add(%a, %a) : DTYPE
    tcp.yield(%s)
  }) : tensor<[N]xDTYPE>
  tcp.return(%v)
}
"""


@pytest.mark.parametrize("dtype", ["f32", "si64"])
@pytest.mark.parametrize("width", [4, 8, 16])
def test_a_table_of_single_elements_is_gathered_in_lanes(dtype: str, width: int) -> None:
    """Also in as many as a vector has."""
    payload = tcpx.parse(ELEMENTS.replace("DTYPE", dtype))
    steps = f'let v = match one "v" in root\nlet a = tile(v, [n: {width}], tail: pad)\nvectorize(a)'
    kernel = tcpx.compile(payload, schedule=tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{steps}\n}}"))
    x = np.arange(9).astype(dtype_of(payload.main.inputs[0].type).numpy)
    for n in (21, 8, 0):
        ix = np.random.default_rng(n).integers(0, 9, n)
        assert np.array_equal(run_guarded(kernel, x, ix)[0], np.multiply(x[ix], 2))
