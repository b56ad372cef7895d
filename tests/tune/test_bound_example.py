"""A kernel on an example: state has its start again for each check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.tune.bound_example import BoundExample
from tcpx.tune.problem import examples_of
from tcpx.tune.space_file import Workload

STEP = """\
func @step(%x: tensor<[N]x4xf32>, %h: inout tensor<[N]x4xf32>) -> {results} symbols [N: 0..16] {{
  %new = tcp.add(%h, %x) : tensor<[N]x4xf32>
  %y = tcp.mul(%h, %x) : tensor<[N]x4xf32>
  tcp.return({returned})
}}
"""


@pytest.mark.parametrize(
    ("results", "returned"),
    [
        ("%h: tensor<[N]x4xf32>", "%new"),
        ("(%h: tensor<[N]x4xf32>, %y: tensor<[N]x4xf32>)", "%new, %y"),
        ("(%y: tensor<[N]x4xf32>, %h: tensor<[N]x4xf32>)", "%y, %new"),
    ],
)
@pytest.mark.parametrize("size", [0, 3])
def test_calls_hand_state_on_and_a_check_begins_anew(results: str, returned: str, size: int) -> None:
    module = tcpx.parse(STEP.format(results=results, returned=returned))
    (example,) = examples_of(module, [Workload((("N", size),))], 0)
    inputs: list[Any] = [array.copy() for array in example.arrays]
    x, start = inputs
    bound = BoundExample(tcpx.compile(module, target="generic"), example)
    assert bound.what_is_wrong() is None
    for _ in range(3):
        bound.call()
    state: Any = bound.call.arrays[1]
    np.testing.assert_allclose(state, start + 4 * x, rtol=1e-5)
    if size:
        bound.restart()
        np.testing.assert_array_equal(state, start)
    assert bound.what_is_wrong() is None
    np.testing.assert_array_equal(example.arrays[1], start)


def test_state_that_is_wrong() -> None:
    given = "%h: tensor<[N]x4xf32>", "%new"
    module = tcpx.parse(STEP.format(results=given[0], returned=given[1]))
    other = tcpx.parse(STEP.format(results=given[0], returned=given[1]).replace("tcp.add", "tcp.sub"))
    (example,) = examples_of(module, [Workload((("N", 3),))], 0)
    found = BoundExample(tcpx.compile(other, target="generic"), example).what_is_wrong()
    assert found is not None
    assert "12 of 12 elements; result 0, element [0, 0]" in found
