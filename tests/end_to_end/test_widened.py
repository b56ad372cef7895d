"""Few rows times a matrix of a narrow dtype: it is widened where it is read, and never stored wide."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.target import Target

PAYLOAD = """\
func @f(%x: tensor<{m}x{k}xf32>{given}) -> tensor<{m}x{n}xf32>{symbols} {{
{stored}  %c = tcp.cast(%w) : tensor<{w}xf32>
  %y = tcp.contract(%x, %c) {{lhs = ["m", "k"], rhs = [{order}], out = ["m", "n"]}} : tensor<{m}x{n}xf32>
  tcp.return(%y)
}}
"""
NUMPY = {"f16": np.float16, "si8": np.int8}


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("order", ["nk", "kn"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_few_rows(target: Target, is_constant: bool, order: str, dtype: str) -> None:
    """Three rows times an argument of any size, or one row times a constant."""
    draw = np.random.default_rng(2)
    m, n, k = 1 if is_constant else 3, 37, 301
    sizes = {"n": str(n), "k": str(k)} if is_constant else {"n": "[N]", "k": "[K]"}
    stored = "x".join(sizes[c] for c in order)
    text = PAYLOAD.format(
        m=m,
        w=stored,
        order=", ".join(f'"{c}"' for c in order),
        given="" if is_constant else f", %w: tensor<{stored}x{dtype}>",
        symbols="" if is_constant else " symbols [N, K: 0..]",
        stored=f'  %w = tcp.const {{constant = "w"}} : tensor<{stored}x{dtype}>\n' if is_constant else "",
        **sizes,
    )
    w = draw.integers(-8, 9, [{"n": n, "k": k}[c] for c in order]).astype(NUMPY[dtype])
    x = draw.integers(-8, 9, (m, k)).astype(np.float32)
    module = tcpx.parse(text, constants=Constants({"w": w}) if is_constant else None)
    kernel = tcpx.compile(module, target=target)
    wide = w.astype(np.float32)
    found = kernel(x) if is_constant else kernel(x, w)
    np.testing.assert_array_equal(found, x @ (wide.T if order == "nk" else wide))
    assert kernel.workspace_bytes({} if is_constant else {"N": n, "K": k}) < wide.nbytes
    if not is_constant:
        empty = np.zeros((m, 0), np.float32), np.zeros([{"n": 5, "k": 0}[c] for c in order], NUMPY[dtype])
        np.testing.assert_array_equal(kernel(*empty), np.zeros((m, 5), np.float32))
