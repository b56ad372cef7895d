"""How a budget is shared: by the time of what can be tuned."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.assignment import Assignment
from tcpx.nests import Nests
from tcpx.parts import Parts
from tcpx.tune.pieces import pieces_of

PAYLOAD = """\
func @f(%x: tensor<64x96xf32>, %w: tensor<96x64xf32>) -> tensor<64x64xf32> {
  %h = tcp.matmul(%x, %w) : tensor<64x64xf32>
  %n = tcp.rms_norm(%h) {dims = [1]} : tensor<64x64xf32>
  tcp.return(%n)
}
"""
FIXED = """\
language 2
import "default.tcps" as default
schedule s(root: func) {
  let h = match one "h" in root
  let j, i = tile(h, [n: 16, m: 4])
  let kk = tile(h, [k: 1])
  vectorize(i)
  hoist_accumulator(h, out_of: kk)
  default.rest(root)
}
"""


@pytest.mark.parametrize(("knob", "tunable"), [("", 0.02), ("  knob nothing: int = 1 in 1..2\n", 0.98)])
def test_knobs_of_a_sequence_are_of_the_nests_that_it_schedules(knob: str, tunable: float) -> None:
    """The product has none: what the payload does itself is tuned for the time of the norm, unless the schedule has
    knobs itself."""
    schedule = tcpx.parse_schedule(FIXED.replace("(root: func) {\n", f"(root: func) {{\n{knob}"))
    parts = Parts.of(tcpx.parse(PAYLOAD), schedule, tcpx.load_target("generic"), 1, None)
    nests = Nests.of(parts, [{}], Assignment())
    assert set(nests.number_of) == {"n"}
    rest, norm = pieces_of(parts, nests, {"": 0.96, "%0": 0.02}, [{}])
    assert (rest.share, norm.share, norm.tunable) == (0.96, 0.02, 0.02)
    assert rest.tunable == pytest.approx(tunable)
