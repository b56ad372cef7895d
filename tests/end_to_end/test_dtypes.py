"""The default schedule takes products of every element type that multiplies."""

from __future__ import annotations

import numpy as np

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
