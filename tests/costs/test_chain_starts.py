"""Chains of results that begin anew each time that a loop is entered: the core overlaps them."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.costs.nests import InnerLoop, nests_of

SUMS = """\
func @f(%x: tensor<{rows}x{n}xf64>) -> tensor<{rows}xf64> {{
  %y = tcp.reduce_sum(%x) {{dims = [1]}} : tensor<{rows}xf64>
  tcp.return(%y)
}}
"""
ROWS = """\
language 2
schedule s(root: func) {
  let y = match one reduce_sum in root
  tile(y, [d0: 1])
}
"""


def loops(payload: str, schedule: str) -> list[InnerLoop]:
    chosen = tcpx.load_target("zen4")
    module = lowered(CompileRequest(tcpx.parse(payload), tcpx.parse_schedule(schedule)), chosen, 1).module
    return [inner for nest in nests_of(module.main, chosen, 1, {}) for inner in nest.loops]


@pytest.mark.parametrize(("n", "measured"), [(64, 1.14), (96, 1.44), (128, 1.64), (192, 2.07), (256, 2.30)])
def test_sums_of_rows_overlap(n: int, measured: float) -> None:
    """Cycles of a step on a Zen 4, of 3 if none overlapped."""
    (inner,) = loops(SUMS.format(rows=256, n=n), ROWS)
    assert measured <= inner.iteration.cycles <= 1.4 * measured


def test_one_sum_overlaps_with_none() -> None:
    (inner,) = loops(SUMS.format(rows=1, n=64), ROWS)
    assert inner.iteration.latency == 3.0
