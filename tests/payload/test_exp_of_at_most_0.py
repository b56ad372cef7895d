"""`exp` of what is known not to exceed 0, as in a softmax: as accurate as any, subnormal results and NaN included."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tests.payload.real_functions import SCHEDULE, TARGETS

TEXT = """
func @f(%x: tensor<[N]x{t}>) -> tensor<[N]x{t}> symbols [N] {{
  %y = tcp.exp(%x) {{most = 0.0}} : tensor<[N]x{t}>
  tcp.return(%y)
}}
"""


def operands(dtype: type[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Numbers down to where powers are 0, at places where they are rounded to the least, and what is no number."""
    last = 106.0 if dtype == np.float32 else 750.0
    smallest = float(np.log(np.longdouble(np.finfo(dtype).smallest_subnormal)))
    around = smallest + np.linspace(-2, 2, 801)
    lowest = [-0.0, 0.0, -1e-30, np.finfo(dtype).min, -np.inf]
    return np.concatenate([np.linspace(-last, 0, 20_011), around, lowest]).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_results_are_within_the_errors_of_exp(name: str, target: str) -> None:
    dtype: type[np.floating[Any]] = np.float32 if name == "f32" else np.float64
    most = 4 if name == "f32" else 2
    kernel = tcpx.compile(tcpx.parse(TEXT.format(t=name)), tcpx.parse_schedule(SCHEDULE), target=target)
    x = operands(dtype)
    found = np.asarray(kernel(x))
    wanted = np.exp(x.astype(np.longdouble))
    unit = np.maximum(np.spacing(np.abs(wanted).astype(dtype)), np.finfo(dtype).smallest_subnormal)
    assert (np.abs(found - wanted) / unit).max() <= most
    assert found[x <= 1.01 * np.log(np.longdouble(np.finfo(dtype).smallest_subnormal))].max() == 0
    assert (found[x == 0] == 1).all()


@pytest.mark.parametrize("target", TARGETS)
def test_every_nan_stays(target: str) -> None:
    """A NaN whose lowest bits are set, too: they would reach the sign and the exponent."""
    kernel = tcpx.compile(tcpx.parse(TEXT.format(t="f32")), tcpx.parse_schedule(SCHEDULE), target=target)
    bits = np.array([0x7FC00000, 0xFFC00000, 0x7FC001FF, 0xFFFFFFFF, 0x7FC00080], np.uint32)
    assert np.isnan(np.asarray(kernel(bits.view(np.float32).repeat(7)))).all()
