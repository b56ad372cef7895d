"""Squares and sums beyond the range of the dtype that they are summed in: the evaluator gives what kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.types import SCALARS
from tests.payload.test_elementwise_edges import same

Array = npt.NDArray[Any]
STATISTICS = ("reduce_mean", "reduce_variance", "reduce_l2", "reduce_logsumexp")
NORMS = ("layer_norm", "rms_norm")
ROWS: dict[str, list[float]] = {
    "squares": [1e20] * 8,
    "sum_of_squares": [1e19] * 40,
    "differences": [1e20, -1e20] * 20,
    "sum": [3e38] * 37,
    "negative_sum": [-3e38] * 5,
    "far_apart": [3e38, -3e38],
}
"""Each beyond f32 in one way."""


def results(source: str, dtype: str) -> tcpx.Module:
    """All statistics and, of floats, norms of rows."""
    ops = dict.fromkeys(STATISTICS, f"tensor<[N]x{dtype}>")
    if source == dtype:
        ops |= dict.fromkeys(NORMS, f"tensor<[N]x[K]x{dtype}>")
    body = "".join(f"  %{op} = tcp.{op}(%x) {{dims = [1]}} : {type_}\n" for op, type_ in ops.items())
    return tcpx.parse(
        f"func @f(%x: tensor<[N]x[K]x{source}>) -> ({', '.join(ops.values())}) symbols [N, K] {{\n"
        f"{body}  tcp.return({', '.join(f'%{op}' for op in ops)})\n}}\n"
    )


def is_near(found: Array, wanted: Array) -> bool:
    """Equal where they are infinite, NaN or 0; elsewhere up to the rounding of the dtype."""
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    unit = 2.0 ** -{"float32": 18, "bfloat16": 6}[found.dtype.name]
    usual = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        return bool((same(found, wanted) | (usual & (np.abs(a - b) <= unit * np.abs(b)))).all())


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_kernels_overflow_as_the_evaluator(dtype: str) -> None:
    module = results(dtype, dtype)
    kernel = tcpx.compile(module)
    for case, row in ROWS.items():
        x = (np.array([row, row])).astype(SCALARS[dtype].numpy)
        for op, a, b in zip((*STATISTICS, *NORMS), kernel(x), tcpx.evaluate(module, x), strict=True):
            assert is_near(np.asarray(a), np.asarray(b)), (case, op, a, b)


def test_integers_whose_squares_overflow() -> None:
    module, x = results("ui64", "f32"), np.full((3, 40), 2**63, np.uint64)
    x[1, ::2], x[2] = 0, 5
    found, wanted = tcpx.compile(module)(x), tcpx.evaluate(module, x)
    assert np.isinf(wanted[2]).tolist() == [True, True, False]
    for a, b in zip(found, wanted, strict=True):
        assert is_near(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_numbers_that_overflow(dtype: str) -> None:
    x = np.array([[1e20] * 8, [3e38] * 8]).astype(SCALARS[dtype].numpy)
    mean, variance, norm, logarithm, centred, scaled = map(np.asarray, tcpx.evaluate(results(dtype, dtype), x))
    assert np.isinf(mean).tolist() == [False, True]
    assert np.isinf(variance).tolist() == [False, True]
    assert np.isinf(norm).all()
    assert np.isfinite(logarithm).all()
    assert (scaled == 0).all()
    assert np.isnan(centred[1].astype(np.float32)).all()


def test_moments_of_elements_whose_squares_overflow() -> None:
    type_ = "tensor<[N]xf32>"
    module = tcpx.parse(
        f"func @f(%x: tensor<[N]x[K]xf32>) -> ({type_}, {type_}, {type_}) symbols [N, K] {{\n"
        f"  %c, %m, %s = tcp.reduce_moments(%x) {{dims = [1]}} : {type_}, {type_}, {type_}\n"
        "  tcp.return(%c, %m, %s)\n}\n"
    )
    kernel = tcpx.compile(module)
    for row in ([1e20] * 8, [1e20, -1e20] * 20, [1e19] * 40):
        x = np.array([row], np.float32)
        for a, b in zip(kernel(x), tcpx.evaluate(module, x), strict=True):
            assert is_near(np.asarray(a), np.asarray(b)), (row[:2], a, b)
