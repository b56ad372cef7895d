"""Transposes in registers: any number of rows and columns, every dtype that has shuffles, fused with arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import LaneType, Target, load_target
from tcpx.transform.vectors.short_rows import short_rows
from tcpx.transform.vectors.transposition import network
from tcpx.verification.vector_rows.meaning import numpy_dtype
from tests.end_to_end.payloads import TARGETS
from tests.guard_pages import run_guarded

TRANSPOSE = """\
func @{name}(%x: tensor<{shape}x{dtype}>) -> tensor<{out}x{dtype}> symbols [B, M, N] {{
  %two = tcp.add(%x, %x) : tensor<{shape}x{dtype}>
  %t = tcp.transpose(%two) {{permutation = {permutation}}} : tensor<{out}x{dtype}>
  tcp.return(%t)
}}
"""
SCHEDULE = """\
language 1

schedule turned(root: func) {
  knob side: int = 16 in 1..64
  let t = match one transpose in root
  let x = match one add in root
  for d in dims(t.out) {
    if d != innermost(dims(t.operand)) and d != innermost(dims(t.out)) { tile(t, [d: 1]) }
  }
  let rows, columns = tile(t, [innermost(dims(t.operand)): side, innermost(dims(t.out)): side], tail: pad)
  fuse(x, into: columns)
  vectorize(columns)
}
"""
DTYPES = ("f32", "f64", "si32", "ui32", "si64", "ui64", "ui16", "si8")
FORMS = (("[M]x[N]", "[N]x[M]", (1, 0)), ("[B]x[M]x[N]", "[N]x[B]x[M]", (2, 0, 1)))
CASES = (*(("f32", form, side) for form, side in ((0, 4), (0, 10), (0, 16), (1, 4))), *((d, 0, 8) for d in DTYPES[1:]))
SIZES = ((0, 3), (3, 0), (1, 1), (5, 33), (16, 16), (32, 48), (37, 19))


def payload(dtype: str, form: int) -> str:
    shape, out, permutation = FORMS[form]
    name = f"turned_{dtype}_{form}"
    text = TRANSPOSE.format(name=name, shape=shape, out=out, dtype=dtype, permutation=list(permutation))
    return text if form else text.replace("[B, M, N]", "[M, N]")


def test_numbers(target: Target) -> None:
    schedule = tcpx.parse_schedule(SCHEDULE)
    requests = [
        tcpx.CompileRequest(tcpx.parse(payload(d, f)), schedule, {"side": s}, f"turned_{d}_{f}_{s}")
        for d, f, s in CASES
    ]
    kernels = tcpx.compile_many(requests, target=target)
    random = np.random.default_rng(7)
    for (dtype, form, _), kernel in zip(CASES, kernels, strict=True):
        for m, n in SIZES:
            shape = (m, n) if form == 0 else (2, m, n)
            given = random.integers(0, 60, shape)
            (found,) = run_guarded(kernel, given.astype(numpy_dtype(dtype)))
            np.testing.assert_array_equal(found, (given + given).transpose(FORMS[form][2]), err_msg=f"{dtype} {shape}")


SHORT = """\
func @short_{k}_{dtype}_{way}(%x: tensor<{shape}x{dtype}>) -> tensor<{out}x{dtype}> symbols [N] {{
  %t = tcp.transpose(%x) {{permutation = {permutation}}} : tensor<{out}x{dtype}>
  tcp.return(%t)
}}
"""
SHORT_ROWS = (*((k, "f32") for k in (2, 3, 5, 6, 12)), *((3, d) for d in ("f64", "ui8", "si16")), (24, "ui8"))


def short(k: int, dtype: str, way: int) -> str:
    """k planes of 3 times N elements become rows of k; the other way with `way`."""
    shape, out, permutation = f"{k}x3x[N]", f"3x[N]x{k}", [1, 2, 0]
    if way:
        shape, out, permutation = out, shape, [2, 0, 1]
    return SHORT.format(k=k, dtype=dtype, way=way, shape=shape, out=out, permutation=permutation)


@pytest.mark.parametrize("way", [0, 1])
def test_rows_shorter_than_a_vector(target: Target, way: int) -> None:
    requests = [tcpx.CompileRequest(tcpx.parse(short(*case, way))) for case in SHORT_ROWS]
    random = np.random.default_rng(9)
    for (k, dtype), kernel in zip(SHORT_ROWS, tcpx.compile_many(requests, target=target), strict=True):
        for n in (0, 1, 7, 16, 45):
            x = random.integers(0, 99, (3, n, k) if way else (k, 3, n)).astype(numpy_dtype(dtype))
            (found,) = run_guarded(kernel, x)
            np.testing.assert_array_equal(found, x.transpose((2, 0, 1) if way else (1, 2, 0)), err_msg=f"{dtype} {n}")


@pytest.mark.parametrize("way", [0, 1])
def test_short_rows_are_read_and_written_several_to_a_vector(way: int) -> None:
    text = short(3, "f32", way).replace("[N]x", "64x").replace(" symbols [N]", "")
    source = tcpx.compile(tcpx.parse(text), target="x86_avx512").c_source
    loop = source[source.index("\nint ") :]
    assert (loop.count("_mm512_loadu_ps("), loop.count("_mm512_storeu_ps(")) == (3, 3)
    assert loop.count("permute") == 9
    assert "mask" not in loop


@pytest.mark.parametrize("name", TARGETS)
def test_columns_of_short_rows(name: str) -> None:
    target = load_target(name)
    types = {row.result for row in target.rows if row.name.startswith("unpack_") and row.result is not None}
    for type_ in types:
        for length in range(2, min(type_.lanes, 13)):
            found = short_rows(target, type_, length)
            if found is None:
                assert length > 4 or name == "generic"
                continue
            elements = [divmod(place, length) for place in range(length * type_.lanes)]
            vectors = [elements[k : k + type_.lanes] for k in range(0, len(elements), type_.lanes)]
            columns = found.columns(vectors, lambda a, b, lanes: [(a + b)[lane] for lane in lanes])
            assert columns == [[(row, k) for row in range(type_.lanes)] for k in range(length)]
            assert found.rows(columns, lambda a, b, lanes: [(a + b)[lane] for lane in lanes]) == vectors


@pytest.mark.parametrize("name", TARGETS)
def test_a_block_takes_as_many_stages_as_its_numbers_have_bits(name: str) -> None:
    target = load_target(name)
    types = {row.result for row in target.rows if row.name.startswith("unpack_") and row.result is not None}
    assert len(types) >= 6
    for type_ in types:
        found = network(target, type_)
        assert found is not None
        assert 1 << len(found.stages) == type_.lanes
        block = [[(row, lane) for lane in range(type_.lanes)] for row in range(type_.lanes)]
        columns = found.apply(block, lambda a, b, lanes: [(a + b)[lane] for lane in lanes])
        assert columns == [[(row, lane) for row in range(type_.lanes)] for lane in range(type_.lanes)]


@pytest.mark.parametrize("name", TARGETS)
def test_rows_side_by_side_become_columns_and_rows_again(name: str) -> None:
    target = load_target(name)
    types = {row.result for row in target.rows if row.name.startswith("unpack_") and row.result is not None}
    for type_ in types:
        for length in (1 << k for k in range(1, type_.lanes.bit_length() - 1)):
            there = network(target, type_, columns=length)
            back = network(target, type_, columns=length, to_rows=True)
            assert there is not None
            assert back is not None
            places = [divmod(k, length) for k in range(type_.lanes * length)]
            vectors = [places[k * type_.lanes : (k + 1) * type_.lanes] for k in range(length)]
            columns = [[(row, column) for row in range(type_.lanes)] for column in range(length)]
            assert there.apply(vectors, lambda a, b, lanes: [(a + b)[lane] for lane in lanes]) == columns
            assert back.apply(columns, lambda a, b, lanes: [(a + b)[lane] for lane in lanes]) == vectors
        assert network(target, type_, columns=3) is None


def test_only_types_with_shuffles_are_transposed_in_registers(target: Target) -> None:
    assert network(target, LaneType("si8", 4)) is None
    assert network(target, LaneType("f32", 1)) is None


@pytest.mark.parametrize(("dtype", "lanes"), [("si16", 8), ("ui8", 16)])
def test_the_narrowest_vectors_have_shuffles_of_8_and_16_bits(dtype: str, lanes: int) -> None:
    found = network(load_target("generic"), LaneType(dtype, lanes))
    assert found is not None
    assert len(found.stages) == lanes.bit_length() - 1


def test_the_code_is_loads_shuffles_and_stores() -> None:
    kernel = tcpx.compile(tcpx.parse(payload("f32", 0)), tcpx.parse_schedule(SCHEDULE), target="x86_avx512")
    source = kernel.c_source
    assert source.count("_mm512_unpack") == source.count("_mm512_shuffle_ps(") == 16
    assert source.count("_mm512_shuffle_f32x4(") == 32
    assert "strided" not in source


def test_what_leads_to_a_right_factor_stored_by_columns_is_computed_as_it_is_turned(target: Target) -> None:
    """The default schedule packs the factor less its zero points, by blocks of which the last are not whole."""
    text = """\
func @dequantized(%x: tensor<[M]x[K]xf32>, %w: tensor<[N]x[K]xui8>, %z: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N, K] {
  %wide = tcp.cast(%w) : tensor<[N]x[K]xf32>
  %zs = tcp.broadcast(%z) {dims = [0]} : tensor<[N]x[K]xf32>
  %v = tcp.sub(%wide, %zs) : tensor<[N]x[K]xf32>
  %mm = tcp.contract(%x, %v) {lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""  # noqa: E501
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    random = np.random.default_rng(11)
    for m, n, k in ((0, 3, 5), (3, 2, 0), (5, 1, 1), (17, 33, 19), (20, 70, 1030)):
        x, w, z = (random.integers(low, 9, shape) for low, shape in ((-8, (m, k)), (0, (n, k)), (0, (n,))))
        (found,) = run_guarded(kernel, x.astype(np.float32), w.astype(np.uint8), z.astype(np.float32))
        np.testing.assert_array_equal(found, x @ (w - z[:, None]).T, err_msg=f"{m} {n} {k}")
