"""Transposes in registers: any number of rows and columns, every dtype that has shuffles, fused with arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import LaneType, Target, load_target
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
