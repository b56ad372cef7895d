"""What is issued for each operation of a payload, beside what that asks for."""

from __future__ import annotations

from collections import Counter

import pytest

import tcpx
from tcpx.costs.visits import Statement, runs
from tcpx.costs.work import PlaceWork, account, asked_for, issued_by
from tcpx.drafts import draft

PRODUCT = """\
func @f(%x: tensor<64x64xf32>, %w: tensor<64x[N]xf32>) -> tensor<64x[N]xf32> symbols [N] {
  %e = tcp.exp(%x) : tensor<64x64xf32>
  %y = tcp.matmul(%e, %w) : tensor<64x[N]xf32>
  tcp.return(%y)
}
"""
RECOMPUTES = """\
language 2
schedule f(root: func) {
  let y = match one matmul in root
  let e = match one exp in root
  let n = tile(y, [n: 64])
  fuse(e, into: n)
}
"""
PADS = """\
language 2
schedule f(root: func) {
  let y = match one matmul in root
  let n = tile(y, [n: 48], tail: pad)
  vectorize(y)
}
"""
TWICE = """\
func @f(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %a = tcp.call(%x) {callee = "g"} : tensor<8x16xf32>
  %b = tcp.call(%a) {callee = "g"} : tensor<8x16xf32>
  tcp.return(%b)
}
func @g(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = tcp.mul(%x, %x) : tensor<8x16xf32>
  tcp.return(%y)
}
"""


def work(text: str, schedule: str | None = None, **sizes: int) -> dict[Statement, dict[int, PlaceWork]]:
    """The work of each statement by the line of the payload."""
    module, target = tcpx.parse(text), tcpx.load_target("x86_avx512")
    asked = asked_for(module.main, sizes, target)
    program = tcpx.parse_schedule(schedule) if schedule is not None else None
    kernel = draft(module, program, target="x86_avx512").run.module.main
    found = account(asked, issued_by(runs(kernel, sizes, target)))
    return {
        statement: {place.line: held for place, held in places.items() if place is not None}
        for statement, places in found.items()
    }


def test_statements_are_asked_for_what_the_payload_asks_for() -> None:
    found = work(PRODUCT, N=256)
    asked: Counter[int] = Counter()
    for places in found.values():
        for line, held in places.items():
            asked[line] += held.asked.total()
            assert held.issued >= held.asked.total()
            assert not held.is_recomputed
    assert asked[2] % (64 * 64) == 0
    assert asked[3] == 2 * 64 * 64 * 256


def test_a_producer_in_each_tile_is_recomputed() -> None:
    ((_, places),) = work(PRODUCT, RECOMPUTES, N=256).items()
    assert places[2].is_recomputed
    assert not places[3].is_recomputed
    assert places[2].issued == 4 * places[2].asked.total()
    assert places[3].excess == 0


def test_tiles_that_do_not_divide_pad() -> None:
    found = work(PRODUCT.replace("[N]", "64").replace(" symbols 64", ""), PADS)
    assert not any(held.is_recomputed for places in found.values() for held in places.values())
    (product,) = (places[3] for places in found.values() if 3 in places)
    assert product.issued == pytest.approx(96 / 64 * product.asked["fma_f32"])


def test_functions_count_as_often_as_they_are_called() -> None:
    found = work(TWICE)
    assert sum(held.issued for places in found.values() for held in places.values()) == 2 * 8 * 16
