"""Elementwise operations on i1, which are `or` and `and`, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import Target
from tests.guard_pages import run_guarded

PAYLOAD = """\
func @{name}(%x: tensor<[N]xi1>, %y: tensor<[N]xi1>) -> tensor<[N]xi1> symbols [N] {{
  %r = tcp.{name}(%x, %y) : tensor<[N]xi1>
  tcp.return(%r)
}}
"""
VECTORS = """language 1
schedule main(root: func) {
  let r = match one elementwise in root
  let i = tile(r, [d0: 16], tail: pad)
  vectorize(i)
}
"""


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_pairs(name: str, target: Target) -> None:
    x, y = np.arange(37) % 2 == 0, np.arange(37) % 3 == 0
    module = tcpx.parse(PAYLOAD.format(name=name))
    for schedule in (None, tcpx.parse_schedule(VECTORS)):
        (found,) = run_guarded(tcpx.compile(module, schedule, target=target), x, y)
        np.testing.assert_array_equal(found, tcpx.evaluate(module, x, y))
