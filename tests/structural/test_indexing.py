"""Iota, one_hot, gather, scatter_add, slice."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.text.parser import parse
from tests.guard_pages import run_guarded
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers


def _indices(extent: int, *shape: int, dtype: str = "int64", outside: bool = False) -> Array:
    low, high = (-2, extent + 3) if outside else (0, max(1, extent))
    return np.random.default_rng(extent).integers(low, high, shape).astype(dtype)


def _gather(dim: int, attributes: str = "", rng: str = " in 0 to M", index: str = "si64") -> str:
    wide, ix = "tensor<[M]x[N]xf32>", f"tensor<[K]x{index}>"
    shape = "[K]x[N]" if dim == 0 else "[M]x[K]"
    return (
        f"func @f(%x: {wide}, %ix: {ix}{rng}) -> tensor<{shape}xf32> symbols [M: 1.., N: 1.., K] {{\n"
        f"  %p = tcp.mul(%x, %x) : {wide}\n"
        f"  %v = tcp.gather(%p, %ix) {{dim = {dim}{attributes}}} : tensor<{shape}xf32>\n"
        f"  %c = tcp.add(%v, %v) : tensor<{shape}xf32>\n  tcp.return(%c)\n}}\n"
    )


def _taken(dim: int, fill: float | None = None):
    def wanted(x: Array, ix: Array) -> list[Array]:
        square, places = x * x, ix.astype(np.int64)
        if fill is None:
            return [2 * np.take(square, np.clip(places, 0, x.shape[dim] - 1), dim)]
        square = np.pad(square, [(0, int(k == dim)) for k in range(2)], constant_values=fill)
        outside = (places < 0) | (places >= x.shape[dim])
        return [2 * np.take(square, np.where(outside, x.shape[dim], places), dim)]

    return wanted


def _calls(dim: int, outside: bool = False, dtype: str = "int64") -> list[list[Array]]:
    shapes = ((7, 33, 5), (3, 8, 17), (1, 1, 1), (4, 3, 0))
    return [[numbers(m, n), _indices((m, n)[dim], k, outside=outside, dtype=dtype)] for m, n, k in shapes]


NESTED = """func @f(%x: tensor<[M]x[N]xsi8>, %ix: tensor<[K]x3xsi32> in 0 to M) -> tensor<[K]x3x[N]xsi8>
    symbols [M: 1.., N, K] {
  %v = tcp.gather(%x, %ix) {dim = 0} : tensor<[K]x3x[N]xsi8>
  %c = tcp.add(%v, %v) : tensor<[K]x3x[N]xsi8>
  tcp.return(%c)
}
"""
ELEMENTS = """func @f(%x: tensor<[M]x[N]xf32>, %ix: tensor<[M]x[N]xsi64> in 0 to N) -> tensor<[M]x[N]xf32>
    symbols [M, N: 1..] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %v = tcp.gather_elements(%p, %ix) {dim = 1} : tensor<[M]x[N]xf32>
  %c = tcp.add(%v, %v) : tensor<[M]x[N]xf32>
  tcp.return(%c)
}
"""
ROWS = """func @f(%x: tensor<[N]x[D]xf32>, %ix: tensor<[N]xsi64> in 0 to V, %z: tensor<[V]x[D]xf32>)
    -> tensor<[V]x[D]xf32> symbols [V, D, N] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[D]xf32>
  %v = tcp.scatter_add(%p, %ix, init = %z) {dim = 0} : tensor<[V]x[D]xf32>
  %c = tcp.add(%v, %v) : tensor<[V]x[D]xf32>
  tcp.return(%c)
}
"""
COLUMNS = """func @f(%x: tensor<[D]x[N]xsi32>, %ix: tensor<[N]xsi64>) -> tensor<[D]x9xsi32> symbols [D, N] {
  %v = tcp.scatter_add(%x, %ix) {dim = 1, out_of_range = "fill"} : tensor<[D]x9xsi32>
  %c = tcp.add(%v, %v) : tensor<[D]x9xsi32>
  tcp.return(%c)
}
"""
IOTA = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %v = tcp.iota {dim = 1} : tensor<[M]x[N]xf32>
  %c = tcp.add(%v, %x) : tensor<[M]x[N]xf32>
  tcp.return(%c)
}
"""
OWN_INDICES = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %ix = tcp.iota {dim = 0} : tensor<[M]xsi64>
  %v = tcp.gather(%x, %ix) {dim = 0} : tensor<[M]x[N]xf32>
  tcp.return(%v)
}
"""
ONE_HOT = """func @f(%ix: tensor<[M]x{index}>) -> tensor<{shape}x{dtype}> symbols [M] {{
  %p = tcp.max(%ix, %ix) : tensor<[M]x{index}>
  %v = tcp.one_hot(%p) {{dim = {dim}}} : tensor<{shape}x{dtype}>
  %c = tcp.add(%v, %v) : tensor<{shape}x{dtype}>
  tcp.return(%c)
}}
"""
SLICE = """func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M - 2]x[ceildiv(N - 1, 2)]xf32> symbols [M: 2.., N: 1..] {
  %p = tcp.mul(%x, %x) : tensor<[M]x[N]xf32>
  %v = tcp.slice(%p) {offsets = [1, 1], strides = [1, 2]} : tensor<[M - 2]x[ceildiv(N - 1, 2)]xf32>
  %c = tcp.add(%v, %v) : tensor<[M - 2]x[ceildiv(N - 1, 2)]xf32>
  tcp.return(%c)
}
"""


PAIRS = """func @f(%x: tensor<[B]x[M]x[N]xf32>, %i: tensor<[K]xsi64> in 0 to M, %j: tensor<[K]xsi32> in 0 to N)
    -> tensor<[B]x[K]xf32> symbols [B, M: 1.., N: 1.., K] {
  %p = tcp.mul(%x, %x) : tensor<[B]x[M]x[N]xf32>
  %v = tcp.gather_nd(%p, %i, %j) {dim = 1} : tensor<[B]x[K]xf32>
  %c = tcp.add(%v, %v) : tensor<[B]x[K]xf32>
  tcp.return(%c)
}
"""
WINDOWS = """func @f(%x: tensor<[M]x[N]x3xf32>, %i: tensor<[K]x2xsi8>, %j: tensor<[K]x2xsi8>) -> tensor<[K]x2x3xf32>
    symbols [M, N, K] {
  %v = tcp.gather_nd(%x, %i, %j) {dim = 0, out_of_range = "fill", fill = -1.5} : tensor<[K]x2x3xf32>
  %c = tcp.add(%v, %v) : tensor<[K]x2x3xf32>
  tcp.return(%c)
}
"""


def _windows(x: Array, i: Array, j: Array) -> list[Array]:
    inside = (i >= 0) & (i < x.shape[0]) & (j >= 0) & (j < x.shape[1])
    made = np.full((*i.shape, 3), -1.5, np.float32)
    made[inside] = x[i[inside], j[inside]]
    return [made + made]


def _scattered(x: Array, ix: Array, z: Array) -> list[Array]:
    made = z.copy()
    np.add.at(made, ix, x * x)
    return [made + made]


def _scattered_columns(x: Array, ix: Array) -> list[Array]:
    made = np.zeros((len(x), 9), np.int32)
    inside = (ix >= 0) & (ix < 9)
    np.add.at(made.T, ix[inside], x.T[inside])
    return [made + made]


SCATTERED = [
    [numbers(n, d), _indices(v, n), numbers(v, d)] for n, d, v in ((7, 9, 4), (16, 17, 3), (0, 2, 3), (1, 1, 1))
]
MOVED = {"fused as a producer": "is already in the loop"}
"""What moves data is taken along where its reader is tiled."""
CASES = {
    "rows": Case(_gather(0), _taken(0), _calls(0), refused=MOVED),
    "columns": Case(_gather(1, rng=" in 0 to N"), _taken(1), _calls(1), columns=("vectorized", "tiled", "default")),
    "clamped rows": Case(
        _gather(0, ', out_of_range = "clamp"', "", "si8"),
        _taken(0),
        _calls(0, True, "int8"),
        columns=("vectorized", "threads", "default"),
    ),
    "filled rows": Case(
        _gather(0, ', out_of_range = "fill", fill = -1.5', ""),
        _taken(0, -1.5),
        _calls(0, True),
        columns=("vectorized", "padded", "default"),
    ),
    "indices of two dims": Case(
        NESTED,
        lambda x, ix: [2 * np.take(x, ix, 0)],
        [[numbers(m, n, dtype="int8"), _indices(m, k, 3, dtype="int32")] for m, n, k in ((7, 33, 5), (1, 0, 2))],
        columns=("tiled", "vectorized", "default"),
    ),
    "elements": Case(
        ELEMENTS,
        lambda x, ix: [2 * np.take_along_axis(x * x, ix, 1)],
        [[numbers(m, n), _indices(n, m, n)] for m, n in ((7, 33), (1, 1), (0, 4))],
        refused=MOVED,
    ),
    "pairs of indices": Case(
        PAIRS,
        lambda x, i, j: [2 * (x * x)[:, i, j]],
        [
            [numbers(b, m, n), _indices(m, k), _indices(n, k, dtype="int32")]
            for b, m, n, k in ((3, 7, 33, 5), (2, 4, 5, 17), (1, 1, 1, 1), (0, 2, 3, 4), (2, 3, 3, 0))
        ],
        refused=MOVED,
    ),
    "pairs of indices outside": Case(
        WINDOWS,
        _windows,
        [
            [numbers(m, n, 3), *(_indices(e, k, 2, dtype="int8", outside=True) for e in (m, n))]
            for m, n, k in ((7, 9, 5), (1, 1, 17), (0, 4, 3))
        ],
        columns=("tiled", "vectorized", "padded", "default"),
    ),
    "scatter rows": Case(ROWS, _scattered, SCATTERED, 1e-6, {"fused as a producer": "is no box of iterations"}),
    "scatter columns": Case(
        COLUMNS,
        _scattered_columns,
        [[numbers(d, n, dtype="int32"), _indices(9, n, outside=True)] for d, n in ((3, 17), (1, 1), (4, 0))],
        columns=("tiled", "padded", "threads", "default"),
    ),
    "iota": Case(
        IOTA,
        lambda x: [np.arange(x.shape[1], dtype=np.float32) + x],
        [[numbers(m, n)] for m, n in ((7, 33), (1, 1), (0, 4))],
    ),
    "iota as indices": Case(OWN_INDICES, lambda x: [x], [[numbers(5, 7)]], columns=("tiled", "default")),
    "one_hot": Case(
        ONE_HOT.format(index="si32", shape="[M]x5", dtype="f32", dim=1),
        lambda ix: [2 * (ix[:, None] == np.arange(5)).astype(np.float32)],
        [[_indices(5, m, dtype="int32", outside=True)] for m in (17, 1, 0)],
    ),
    "one_hot in front": Case(
        ONE_HOT.format(index="ui8", shape="300x[M]", dtype="si8", dim=0),
        lambda ix: [2 * (np.arange(300)[:, None] == ix).astype(np.int8)],
        [[_indices(250, m, dtype="uint8")] for m in (17, 1)],
        columns=("tiled", "vectorized", "default"),
    ),
    "slice": Case(
        SLICE,
        lambda x: [2 * np.square(x[1:-1, 1::2])],
        [[numbers(m, n)] for m, n in ((7, 33), (9, 8), (2, 1), (3, 2))],
        refused={"fused as a producer": "%v is gone", "fused as a consumer": "as a box of its own iterations"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


def test_columns() -> None:
    check_columns(CASES)


def _message(text: str) -> tuple[str, str | None, str | None, str | None]:
    with pytest.raises(TcpxError) as caught:
        parse(text)
    diagnostic = caught.value.diagnostic
    return diagnostic.message, diagnostic.required, diagnostic.found, diagnostic.fix


def test_indices_that_may_be_outside_are_refused() -> None:
    assert _message(_gather(0, rng="")) == (
        "%v (tcp.gather): `in1` is an index into dim 0 of `table`, and nothing says that it is inside",
        "elements of %ix in 0 to M",
        "elements in -9223372036854775808 to 9223372036854775808",
        "declare the argument: `%ix: tensor<[K]xsi64> in 0 to M`",
    )


def test_several_indices_are_of_dims_of_the_table() -> None:
    assert _message(PAIRS.replace("%j: tensor<[K]xsi32> in 0 to N", "%j: tensor<[K]xsi32> in 0 to M")) == (
        "%v (tcp.gather_nd): `in2` is an index into dim 2 of `table`, and nothing says that it is inside",
        "elements of %j in 0 to N",
        "elements in 0 to M",
        "declare the argument: `%j: tensor<[K]xsi32> in 0 to N`",
    )
    assert _message(PAIRS.replace("%i, %j) {dim = 1}", "%i, %j, %j) {dim = 1}"))[:3] == (
        "%v (tcp.gather_nd): there is an index for each dim of the table from `dim` on, as far as elements are chosen",
        "1 to 2 of them",
        "3",
    )


def test_dim_is_one_of_the_table() -> None:
    assert _message(_gather(0).replace("dim = 0", "dim = -2")) == (
        "%v (tcp.gather): `dim` is a dim of the table",
        "0 or more, and below 2",
        "-2",
        "{dim = 0}",
    )


def test_table_and_result_have_one_dtype() -> None:
    found = _message(re.sub(r"xsi8>(?!,)", "xf32>", NESTED))
    assert found[:3] == ("%v (tcp.gather): table and result have one dtype", "f32", "%x: tensor<[M]x[N]xsi8>")


def test_what_is_compared_are_indices() -> None:
    text = ONE_HOT.format(index="f32", shape="[M]x5", dtype="f32", dim=1)
    assert _message(text)[:3] == (
        "%v (tcp.one_hot): what is compared are indices", "integers", "%p: tensor<[M]xf32>"
    )  # fmt: skip


MOST = "at most M elements to its end"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("[1, 1], s", "[3, 1], s", ("the slice ends behind dim 0 of its operand", MOST, "M + 1")),
        ("[1, 1], s", "[1], s", ("`offsets` has a number for each dim", "2 of them, each 0 or more", "[1]")),
        ("[1, 2]}", "[1, 0]}", ("`strides` has a number for each dim", "2 of them, each 1 or more", "[1, 0]")),
    ],
)  # fmt: skip
def test_a_slice_lies_in_its_operand(old: str, new: str, error: tuple[str, str, str]) -> None:
    message, required, found, _ = _message(SLICE.replace(old, new))
    assert (message, required, found) == (f"%v (tcp.slice): {error[0]}", *error[1:])


ONE = (
    "func @f(%x: tensor<[V]x3xf32>, %r: tensor<[V]xf32>, %i: tensor<si64>RANGE) -> (tensor<f32>, tensor<f32>)\n"
    "    symbols [V: 1..] {\n"
)


@pytest.mark.parametrize(
    ("declared", "attribute", "places"),
    [
        (" in 0 to V", "", (0, 2)),
        ("", ', out_of_range = "clamp"', (-3, 1, 9)),
        ("", ', out_of_range = "fill"', (-3, 1, 9)),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_one_element_is_selected(threads: int, declared: str, attribute: str, places: tuple[int, ...]) -> None:
    """The result has no dims: `dim` is one of the table."""
    text = (
        ONE.replace("RANGE", declared) + "  %one = tcp.const {value = 1} : tensor<si64>\n"
        f"  %a = tcp.gather_nd(%x, %i, %one) {{dim = 0{attribute}}} : tensor<f32>\n"
        f"  %b = tcp.gather(%r, %i) {{dim = 0{attribute}}} : tensor<f32>\n  tcp.return(%a, %b)\n}}\n"
    )
    module = tcpx.parse(text)
    kernel = tcpx.compile(module, threads=threads)
    x, row = np.arange(15, dtype=np.float32).reshape(5, 3) + 1, np.arange(5, dtype=np.float32) + 1
    for place in places:
        inside = 0 <= place < 5
        near = min(max(place, 0), 4)
        wanted = [x[near, 1], row[near]] if inside or "clamp" in attribute else [0, 0]
        arrays = x, row, np.asarray(place)
        assert [*map(float, tcpx.evaluate(module, *arrays))] == wanted
        assert [*map(float, run_guarded(kernel, *arrays))] == wanted


def test_a_branch_says_that_nothing_is_scattered() -> None:
    """Where no row is left, no index has to have an element."""
    scatter = 'tcp.scatter_add(%x, %ix) {dim = 0, out_of_range = "clamp"} : tensor<[N]xf32>'
    module = tcpx.parse(
        "func @f(%x: tensor<[N]xf32>, %ix: tensor<[N]xsi64>) -> tensor<[N]xf32> symbols [N multiple_of 4] {\n"
        f"  %y = gml_st.if N >= 4 {{\n    %a = {scatter}\n    tcp.yield(%a)\n  }} else {{\n"
        f"    %b = {scatter}\n    tcp.yield(%b)\n  }} : tensor<[N]xf32>\n  tcp.return(%y)\n}}\n"
    )
    kernel = tcpx.compile(module)
    for n in (0, 4):
        x, ix = np.ones(n, np.float32), np.full(n, -1)
        wanted = np.zeros(n, np.float32)
        wanted[:1] = n
        assert np.array_equal(run_guarded(kernel, x, ix)[0], wanted)
