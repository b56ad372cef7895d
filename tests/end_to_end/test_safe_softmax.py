"""Softmax with `safe`: rows that would be NaN are 0, in the evaluator and under the default schedule."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dim", "dtype"), [(0, "f32"), (1, "f32"), (1, "f64"), (1, "bf16")])
def test_rows_that_would_be_nan(dim: int, dtype: str, threads: int) -> None:
    module = tcpx.parse(f"""
    func @f(%x: tensor<[M]x[N]x{dtype}>) -> tensor<[M]x[N]x{dtype}> symbols [M, N] {{
      %y = tcp.softmax(%x) {{dim = {dim}, safe = true}} : tensor<[M]x[N]x{dtype}>
      tcp.return(%y)
    }}""")
    kernel = tcpx.compile(module, threads=threads)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    for m, n in ((7, 40), (1, 1), (33, 5), (0, 3), (40, 130)):
        x = np.random.default_rng(m).standard_normal((m, n))
        for k, number in enumerate([-np.inf, np.nan, np.inf]):
            x[k : k + 1] = number if k == 0 else x[k : k + 1]
            x[k : k + 1, -1] = number
        given = (x.T if dim == 0 else x).astype(kernel.signature.inputs[0].dtype.numpy)
        wide = given.astype(np.float64)
        with np.errstate(invalid="ignore"):
            powers = np.exp(wide - wide.max(axis=dim, keepdims=True, initial=-np.inf))
            wanted = np.nan_to_num(powers / powers.sum(axis=dim, keepdims=True), nan=0.0)
        tolerance = {"f64": 1e-14, "f32": 1e-6, "bf16": 8e-3}[dtype]
        for found in (kernel(given), tcpx.evaluate(module, given)):
            np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=tolerance, atol=tolerance / 100)
