"""Paddings between elements, in tiles of any size: of less than one element of the operand, too."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import check

SPACED = """\
func @f(%x: tensor<{x}xf32>) -> tensor<{y}xf32> symbols [{symbols}] {{
  %y = tcp.pad(%x) {{value = 1.0, low = [0, 1], interior = [{rows}, {columns}]}} : tensor<{y}xf32>
  %e = tcp.exp(%y) : tensor<{y}xf32>
  tcp.return(%e)
}}
"""
SIZES = [{"M": m, "N": n} for m in (1, 4) for n in (1, 2, 9)]


def spaced(rows: int, columns: int) -> str:
    return SPACED.format(
        x="[M]x[N]", y=f"[{rows + 1}*M]x[{columns + 1}*N + 2]", symbols="M: 1.., N: 1..", rows=rows, columns=columns
    ).replace("[1*", "[")


@pytest.mark.parametrize("step", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "columns"), [(0, 2), (0, 3), (2, 0), (3, 2)])
def test_tiles(rows: int, columns: int, step: int) -> None:
    text = spaced(rows, columns)
    check(text, f'let y = match one "y" in root\ntile(y, [d0: {step}, d1: {step}])', SIZES)
    check(text, f'let e = match one "e" in root\ntile(e, [d1: {step}])', SIZES)


@pytest.mark.parametrize(("rows", "columns"), [(0, 2), (2, 0), (3, 2)])
def test_the_default_schedule_leaves_none(rows: int, columns: int) -> None:
    y = f"{(rows + 1) * 5}x{(columns + 1) * 19 + 2}"
    module = tcpx.parse(SPACED.format(x="5x19", y=y, symbols="", rows=rows, columns=columns).replace(" symbols []", ""))
    kernel = tcpx.compile(module)
    assert kernel.remarks == ()
    x = np.random.default_rng(0).standard_normal((5, 19)).astype(np.float32)
    np.testing.assert_allclose(
        np.array(kernel(x), np.float32), np.array(tcpx.evaluate(module, x), np.float32), rtol=1e-6
    )
