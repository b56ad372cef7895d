"""The loop nest the trace keeps, put together from what did not change and what did, is the one there is."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.interp import TraceEntry, run_schedule
from tcpx.target import load_target
from tcpx.transform.loop_nest import loop_nest
from tests.transform.payloads import RELU

PACKED = """language 1
import "lib/gemm.tcps" as gemm
import "lib/small_gemm.tcps" as small
schedule main(root: func) {
  let mm = match one contract in root
  let last = epilogue(mm)
  specialize [mm, last] when size(mm.m) < 8 { small.direct_gemm(mm, last) }
  else                                      { gemm.packed_gemm(mm, last) }
}
"""
RECOVERED = """language 1
schedule main(root: func) {
  let mm = match one contract in root
  try { let i = tile(mm, [m: 6])
        vectorize(i) } else { let j = tile(mm, [n: 8]) }
  let k = tile(mm, [k: 4])
  peel(k)
}
"""


@pytest.mark.parametrize("text", [PACKED, RECOVERED], ids=["packed", "recovered"])
def test_the_nest_of_every_step_is_that_of_the_payload(text: str) -> None:
    module = tcpx.parse(RELU)
    seen: list[tuple[str, str]] = []

    def keep(entry: TraceEntry) -> None:
        if entry.nest:
            seen.append((entry.nest, loop_nest(module.main)))

    run_schedule(module, tcpx.parse_schedule(text), load_target("generic"), on_step=keep)
    assert len(seen) >= 4
    for kept, actual in seen:
        assert kept == actual


def test_nests_can_be_asked_for_in_any_order() -> None:
    module = tcpx.parse(RELU)
    seen: list[tuple[TraceEntry, str]] = []
    schedule, target = tcpx.parse_schedule(PACKED), load_target("generic")
    run_schedule(module, schedule, target, on_step=lambda entry: seen.append((entry, loop_nest(module.main))))
    changed = [(entry, actual) for entry, actual in seen if entry.loops is not None]
    for entry, actual in [*reversed(changed), *changed, changed[2]]:
        assert entry.nest == actual
