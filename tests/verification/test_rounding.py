"""How far two right computations may be from each other: by dtypes and the lengths of reductions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.verification.rounding import gamma, moved, relative_differences

UNIT = 2.0**-24


def allowed(text: str, *shapes: tuple[int, ...]) -> tuple[float, ...]:
    return relative_differences(tcpx.parse(text), [np.ones(shape, np.float32) for shape in shapes])


PRODUCT = """func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x3xf32>) -> (tensor<[M]x3xf32>, tensor<[M]x[K]xf32>)
    symbols [M, K] {
  %o = tcp.matmul(%x, %w) : tensor<[M]x3xf32>
  %e = tcp.exp(%o) : tensor<[M]x3xf32>
  tcp.return(%e, %x)
}
"""
LOOP = """func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %r = gml_st.for %i in 0 to 8 step 2 (%d = %x) {
    %t = gml_st.materialize(%d) tile [%i, 0] [2, 4] : tensor<2x4xf32>
    %e = tcp.exp(%t) : tensor<2x4xf32>
    gml_st.yield(%e, %d) tile [%i, 0] [2, 4]
  } : tensor<8x4xf32>
  tcp.return(%r)
}
"""
NARROW = """func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xsi32>) {
  %b = tcp.cast(%x) : tensor<4xbf16>
  %w = tcp.cast(%b) : tensor<4xf32>
  %i = tcp.cast(%x) : tensor<4xsi32>
  tcp.return(%w, %i)
}
"""
CALL = """func @row(%x: tensor<[K]xf32>) -> tensor<f32> symbols [K] {
  %s = tcp.reduce_sum(%x) {dims = [0]} : tensor<f32>
  tcp.return(%s)
}

func @f(%x: tensor<40xf32>) -> tensor<f32> {
  %s = tcp.call @row(%x) : tensor<f32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize("length", [0, 1, 513])
def test_reductions_count_by_their_length(length: int) -> None:
    roundings = length + 4 + 4  # of the product and of exp
    assert allowed(PRODUCT, (5, length), (length, 3)) == pytest.approx((2 * gamma(roundings), 0.0))


def test_loops_calls_and_narrow_dtypes() -> None:
    assert allowed(LOOP, (8, 4)) == pytest.approx((2 * gamma(4 * 4),))
    assert allowed(CALL, (40,)) == pytest.approx((2 * gamma(44),))
    wide, whole = allowed(NARROW, (4,))
    assert wide > 2.0**-8, "the bf16 in between"
    assert whole == 0, "an integer of what is given has no rounding"


def test_a_bound_is_at_most_all_of_the_value() -> None:
    assert gamma(10, 2.0**-8) == pytest.approx(10 / 246)
    assert gamma(500, 2.0**-8) == 1.0


def test_floats_are_moved_by_one_rounding() -> None:
    x, k, b = np.full(64, 3, np.float32), np.arange(3), np.ones(64, ml_dtypes.bfloat16)
    (other, same), step = moved([x, k])
    assert step == 2 * UNIT
    assert np.abs(other.astype(np.float64) - 3).max() <= 4 * step
    assert (other != x).all()
    assert np.array_equal(same, k)
    assert moved([x, b])[1] == 2.0**-7
    assert moved([k])[1] == 0
