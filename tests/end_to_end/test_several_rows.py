"""Places along rows that are taken some at a time, by the default schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

TEXT = """
func @f(%x: tensor<ROWSx{length}x{dtype}>) -> (tensor<ROWSx{dtype}>, tensor<ROWSxsi64>) SYMBOLS {{
  %v, %at = tcp.reduce_argmax(%x) {{dims = [1]}} : tensor<ROWSx{dtype}>, tensor<ROWSxsi64>
  tcp.return(%v, %at)
}}
"""


def module(rows: int | None, length: int, dtype: str = "f32") -> tcpx.Module:
    text = TEXT.replace("ROWS", "[M]" if rows is None else str(rows)).replace("SYMBOLS", "" if rows else "symbols [M]")
    return tcpx.parse(text.format(length=length, dtype=dtype))


DTYPES = {"f32": np.float32, "f64": np.float64, "si32": np.int32, "ui8": np.uint8}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("length", "dtype"), [(100, "f32"), (33, "f64"), (257, "si32"), (1024, "f32"), (300, "ui8")])
def test_equal_elements_nan_and_rows_that_are_left(length: int, dtype: str, threads: int) -> None:
    kernel = tcpx.compile(module(None, length, dtype), threads=threads)
    random = np.random.default_rng(length)
    for rows in (0, 1, 7, 8, 9, 33):
        x = random.integers(0, 9, (rows, length)).astype(DTYPES[dtype])
        if dtype[0] == "f" and rows > 2:
            x[1, length // 2] = x[2, -1] = np.nan
        largest, places = kernel(x)
        assert np.array_equal(largest, x.max(axis=1), equal_nan=True)
        assert np.array_equal(places, x.argmax(axis=1))


def test_lanes_of_eight_rows_are_combined_together() -> None:
    """Of two vectors each step makes one: four pairs of shuffles in the first, not eight."""
    source = tcpx.emit(module(32, 96), target="x86_avx512").c_source
    assert source.count("_mm512_unpacklo_ps(") == 4
    assert source.count("_mm512_cvtepi32_epi64(") == 1
