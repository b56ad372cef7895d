"""Places of the greatest and least elements by the default schedule: ties, infinities, NaN, in rows of any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[Any]
DTYPES = {"f32": np.float32, "si8": np.int8}
ROWS = """\
func @places(%x: tensor<[M]x[N]x{t}>, %y: tensor<[M]x[N]x{t}>) -> (tensor<[M]x{t}>, tensor<[M]xsi64>) symbols {sizes} {{
  %z = tcp.max(%x, %y) : tensor<[M]x[N]x{t}>
  %v, %i = tcp.reduce_{op}(%z) {{dims = [1]}} : tensor<[M]x{t}>, tensor<[M]xsi64>
  tcp.return(%v, %i)
}}
"""
WHOLE = """\
func @place(%x: tensor<[M]x[N]xf32>) -> (tensor<f32>, tensor<si64>) symbols [M: 1.., N: 1..] {
  %v, %i = tcp.reduce_argmin(%x) {dims = [0, 1]} : tensor<f32>, tensor<si64>
  tcp.return(%v, %i)
}
"""


def rows(dtype: Any, n: int, random: np.random.Generator) -> Array:
    """Rows of ties, of one value, of what goes before nothing, of infinities and NaN."""
    if not np.issubdtype(dtype, np.floating):
        limits = np.iinfo(dtype)
        x = random.integers(limits.min, limits.max, (6, n), dtype, endpoint=True)
        x[0], x[1] = limits.min, limits.max
        return x
    x = random.integers(-3, 4, (9, n)).astype(dtype)
    x[0], x[1], x[2], x[3] = -np.inf, np.inf, 0.0, random.choice([-np.inf, np.inf], n)
    x[4, n // 2 :] = np.nan
    x[5] = np.where(np.arange(n) % 2, 0.0, -0.0)
    x[6], x[6, n - 1] = -np.inf, np.nan
    x[7], x[7, 0] = np.inf, np.nan
    return x


@pytest.mark.parametrize("target", ["sapphire_rapids", "x86_avx2", "generic"])
def test_rows(target: str) -> None:
    require_cpu_of(load_target(target))
    cases = ("f32", "argmax", "[M, N: 1..]"), ("f32", "argmin", "[M, N: 1..5000]"), ("si8", "argmax", "[M, N: 1..]")
    texts = [ROWS.format(t=t, op=op, sizes=sizes) for t, op, sizes in cases]
    requests = [tcpx.CompileRequest(tcpx.parse(text), name=f"places_{k}") for k, text in enumerate(texts)]
    random = np.random.default_rng(7)
    for kernel, (t, op, _) in zip(tcpx.compile_many(requests, target=target), cases, strict=True):
        dtype = DTYPES[t]
        for n in (1, 15, 64, 1031):
            x, y = rows(dtype, n, random), rows(dtype, n, random)[::-1]
            z = np.maximum(x, y)
            values, places = kernel(x, y)
            np.testing.assert_array_equal(places, getattr(np, op)(z, 1))
            np.testing.assert_array_equal(values, np.take_along_axis(z, getattr(np, op)(z, 1)[:, None], 1)[:, 0])


@pytest.mark.parametrize("threads", [1, 2])
def test_of_all(threads: int) -> None:
    kernel = tcpx.compile(tcpx.parse(WHOLE), threads=threads)
    random = np.random.default_rng(8)
    for shape in ((1, 1), (3, 70), (40, 333), (500, 4)):
        x = random.integers(-9, 9, shape).astype(np.float32)
        for array in (x, np.full(shape, np.inf, np.float32)):
            value, place = kernel(array)
            assert (float(value), int(place)) == (float(array.min()), int(array.argmin()))


def test_indices_in_rows_of_any_length_take_32_bits() -> None:
    text = ROWS.format(t="f32", op="argmax", sizes="[M, N: 1..]")
    source = tcpx.emit(tcpx.parse(text), target="sapphire_rapids").c_source
    assert "_mm512_mask_blend_epi32" in source
    assert "blend_epi64" not in source


@pytest.mark.parametrize(("dims", "kept"), [("[0, 1, 2]", ""), ("[1, 2]", "64x")])
def test_short_dims_are_one_dim_with_those_around_them(dims: str, kept: str) -> None:
    text = f"""func @short(%x: tensor<64x1024x4xf32>) -> (tensor<{kept}f32>, tensor<{kept}si64>) {{
  %v, %i = tcp.reduce_argmax(%x) {{dims = {dims}}} : tensor<{kept}f32>, tensor<{kept}si64>
  tcp.return(%v, %i)
}}
"""
    assert "_CMP_LE_OQ" in tcpx.emit(tcpx.parse(text), target="sapphire_rapids").c_source


def test_rows_of_known_length_keep_what_is_there() -> None:
    """Later elements replace it only if they go before it: two comparisons a vector, also in a loop over the rows."""
    text = ROWS.format(t="f32", op="argmax", sizes="[M: 1..]").replace("[N]x", "1024x")
    source = tcpx.emit(tcpx.parse(text), target="sapphire_rapids").c_source
    assert "_CMP_LE_OQ" in source
    kernel, random = tcpx.compile(tcpx.parse(text)), np.random.default_rng(9)
    x, y = rows(DTYPES["f32"], 1024, random), rows(DTYPES["f32"], 1024, random)[::-1]
    np.testing.assert_array_equal(kernel(x, y)[1], np.maximum(x, y).argmax(1))
