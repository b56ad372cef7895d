"""What a step would make too much of is refused before it is made."""

from __future__ import annotations

import pytest

from tcpx.limits import MOST_INSTRUCTIONS, MOST_LANES_OF_OPERATION, MOST_VECTORS
from tests.transform.payloads import CHAIN, MM, RELU, refusal

STATIC = """\
func @static(%x: tensor<60x512xf32>, %w: tensor<512x64xf32>) -> tensor<60x64xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<60x64xf32>
  tcp.return(%mm)
}
"""


@pytest.mark.parametrize(
    ("payload", "body", "message", "found"),
    [
        (
            RELU,
            MM + "let j, i = tile(mm, [n: 300, m: 300], tail: pad)\nlet kk = tile(mm, [k: 1])\nvectorize(i)",
            "%mm.start (tcp.fill) would become 5700 instructions",
            "vector<300x300xf32>",
        ),
        (
            STATIC,
            MM + "let j, i = tile(mm, [n: 64, m: 6])\nvectorize(i)",
            "%mm (tcp.matmul) would become 12288 instructions",
            "vector<6x64xf32>, vector<6x512xf32>, vector<512x64xf32>",
        ),
        (
            STATIC,
            MM + "let j, i = tile(mm, [n: 1, m: 60])\nlet k = tile(mm, [k: 512])\nvectorize(i)",
            "%mm (tcp.matmul) would become 30720 instructions",
            "vector<60x1xf32>, vector<60x512xf32>, vector<512x1xf32>",
        ),
        (
            CHAIN,
            'let r = match one "r" in root\nlet i = tile(r, [d1: 1000000], tail: pad)\n'
            "let j = tile(r, [d0: 1])\nvectorize(i)",
            "%r (tcp.min) would become 62500 instructions",
            "vector<1x1000000xf32>",
        ),
    ],
)
def test_a_register_tile_of_too_many_registers(payload: str, body: str, message: str, found: str) -> None:
    refused = refusal(payload, body)
    assert (refused.message, refused.found) == (message, found)
    assert refused.required == f"at most {MOST_INSTRUCTIONS} for one operation"
    assert refused.fix == "tile it smaller before vectorize, reduction dims too"
    assert refused.schedule is not None
    assert refused.schedule.text == "vectorize(i)"
    assert refused.payload is not None


def test_what_the_target_does_lane_by_lane_counts_by_lanes() -> None:
    payload = """func @f(%x: tensor<17xsi8>, %w: tensor<33xsi8>) -> tensor<31xsi8> {
  %y = tcp.generic(%x, %w) {iterators = [["i", "reduction"], ["j", "reduction"], ["p", "parallel"]],
      maps = [[i], [j], [p]],
      combiner = "tcp.min"} ({ (%e: si8, %f: si8, %acc: si8):
    %t = tcp.pow(%e, %f) : si8
    %r = tcp.min(%acc, %t) : si8
    tcp.yield(%r)
  }) : tensor<31xsi8>
  tcp.return(%y)
}
"""
    found = refusal(payload, 'let p = tile(match one "y" in root, [p: 5], tail: pad)\nvectorize(p)')
    assert found.message == "%y (tcp.generic) would become 36465 instructions, 65 for each vector"
    assert found.required == f"at most {MOST_LANES_OF_OPERATION} for one operation, those for single lanes among them"


def test_the_start_of_an_accumulator_in_memory() -> None:
    refused = refusal(RELU, MM + "tile(mm, [k: 8])\nbufferize(root)\nlet s = mm.start")
    assert refused.message == "%mm has no start any more: it accumulates in memory"
    assert refused.fix == "write `let start = mm.start` before bufferize: the handle stays good"


def test_a_register_tile_that_is_held_at_once() -> None:
    """Few instructions, but each of 512 registers waits for the next step."""
    body = MM + "let i, j = tile(mm, [m: 64, n: 128], tail: pad)\nlet k = tile(mm, [k: 1])\nvectorize(i)"
    refused = refusal(RELU, body)
    assert refused.message == "%mm.start (tcp.fill) would hold 512 registers at once"
    assert refused.required == f"at most {MOST_VECTORS} for one value"
