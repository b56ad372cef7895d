"""What a payload has to do at given sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.costs.demand import Demand, demand_of
from tcpx.measure.limits import Limits
from tcpx.tune.roof import least_seconds


def demand(text: str, target: str = "generic", **sizes: int) -> Demand:
    module = tcpx.parse(text)
    return demand_of(module, tcpx.load_target(target), tcpx.random_inputs(module, sizes=sizes))


PRODUCT = """\
func @f(%x: tensor<[M]x7x{a}>, %w: tensor<7x5x{b}>) -> tensor<[M]x5x{c}> symbols [M] {{
  %y = tcp.matmul(%x, %w) : tensor<[M]x5x{c}>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize(
    ("types", "target", "peak", "bytes_"),
    [
        (("f32", "f32", "f32"), "generic", "fma_f32", 4 * (3 * 7 + 7 * 5 + 3 * 5)),
        (("f64", "f64", "f64"), "generic", "fma_f64", 8 * (3 * 7 + 7 * 5 + 3 * 5)),
        (("ui8", "si8", "si32"), "generic", "fma_f32", 3 * 7 + 7 * 5 + 4 * 3 * 5),
    ],
)
def test_a_product(types: tuple[str, str, str], target: str, peak: str, bytes_: int) -> None:
    a, b, c = types
    found = demand(PRODUCT.format(a=a, b=b, c=c), target, M=3)
    assert found == Demand({peak: 2 * 3 * 7 * 5}, bytes_)


def test_movement_computes_nothing_and_what_stays_inside_is_no_memory() -> None:
    text = """\
    func @f(%x: tensor<[N]x4xf32>) -> tensor<4x[N]xf32> symbols [N] {
      %y = tcp.exp(%x) : tensor<[N]x4xf32>
      %z = tcp.transpose(%y) {permutation = [1, 0]} : tensor<4x[N]xf32>
      tcp.return(%z)
    }
    """
    assert demand(text, N=9) == Demand({"fma_f32": 36}, 2 * 36 * 4)


def test_loops_of_the_payload_count_with_the_sizes_of_their_first_iterations() -> None:
    text = """\
    func @f(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {
      %y = gml_st.for %i in 0 to N step 3 (%d = %x) {
        %r = gml_st.materialize(%x) tile [%i, 0] [min(3, N - %i), 2] : tensor<[min(3, N - %i)]x2xf32>
        %s = tcp.exp(%r) : tensor<[min(3, N - %i)]x2xf32>
        gml_st.yield(%s, %d) tile [%i, 0] [min(3, N - %i), 2]
      } : tensor<[N]x4xf32>
      tcp.return(%y)
    }
    """
    assert demand(text, N=8).operations == {"fma_f32": 3 * 3 * 2}


def test_the_least_time() -> None:
    limits = Limits(1, {"fma_f32": 100.0, "dot_bf16": 400.0, "read_l1": 10.0}, {"l1": 1000})
    assert least_seconds(Demand({"fma_f32": 100, "dot_bf16": 800}, 1), limits) == (3.0, "dot_bf16")
    assert least_seconds(Demand({"dot_ui8_si8": 100}, 500), limits) == (50.0, "read_l1")
    assert least_seconds(Demand({}, 0), limits) is None
    assert np.isclose(least_seconds(Demand({"fma_f32": 1}, 0), limits)[0], 0.01)  # pyright: ignore[reportOptionalSubscript]
