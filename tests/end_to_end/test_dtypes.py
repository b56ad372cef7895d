"""The default schedule takes products of every element type that multiplies."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.types import SCALARS
from tcpx.target import Target
from tests.guard_pages import run_guarded

PRODUCT = """\
func @product_{dtype}(%x: tensor<[M]x13x{dtype}>, %w: tensor<13x70x{dtype}>) -> tensor<[M]x70x{dtype}> symbols [M] {{
  %mm = tcp.matmul(%x, %w) : tensor<[M]x70x{dtype}>
  tcp.return(%mm)
}}
"""
DTYPES = [name for name in SCALARS if name != "i1"]


def test_products(target: Target) -> None:
    texts = [PRODUCT.format(dtype=name) for name in DTYPES]
    kernels = tcpx.compile_many([tcpx.CompileRequest(tcpx.parse(text)) for text in texts], target=target)
    random = np.random.default_rng(7)
    for name, kernel in zip(DTYPES, kernels, strict=True):
        low = 0 if name.startswith("u") else -2
        for rows in (0, 1, 3, 14):
            x, w = random.integers(low, 3, (rows, 13)), random.integers(low, 3, (13, 70))
            (found,) = run_guarded(kernel, *(a.astype(SCALARS[name].numpy) for a in (x, w)))
            np.testing.assert_array_equal(found.astype(np.int64), x @ w, err_msg=f"{name}, {rows} rows")


SUMS = """\
func @f(%x: tensor<{rows}x[K]x{lhs}>, %w: tensor<[K]x{columns}x{rhs}>) -> tensor<{rows}x{columns}xf64> symbols [K: 0..{most}] {{
  %mm = tcp.matmul(%x, %w) : tensor<{rows}x{columns}x{acc}>
  %r = tcp.add(%mm, %mm) : tensor<{rows}x{columns}x{acc}>
  %out = tcp.cast(%r) : tensor<{rows}x{columns}xf64>
  tcp.return(%out)
}}
"""  # noqa: E501
WIDENED = (("f32", "bf16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("si8", "si8", "si32"))


@pytest.mark.parametrize(("rows", "columns", "most"), [(9, 17, "2"), (9, 17, "15"), (100, 2, "")])
def test_sums_that_may_be_empty(target: Target, rows: int, columns: int, most: str) -> None:
    """Factors are widened where they are packed, which is nowhere if there is nothing to sum."""
    texts = [SUMS.format(lhs=a, rhs=b, acc=c, rows=rows, columns=columns, most=most) for a, b, c in WIDENED]
    kernels = tcpx.compile_many([tcpx.CompileRequest(tcpx.parse(text)) for text in texts], target=target)
    random = np.random.default_rng(rows)
    for (lhs, rhs, _), kernel in zip(WIDENED, kernels, strict=True):
        for depth in (0, 1, int(most or 40)):
            x, w = random.integers(-2, 3, (rows, depth)), random.integers(-2, 3, (depth, columns))
            (found,) = run_guarded(kernel, x.astype(SCALARS[lhs].numpy), w.astype(SCALARS[rhs].numpy))
            np.testing.assert_array_equal(found, 2 * (x @ w), err_msg=f"{lhs} x {rhs}, {depth} terms")
