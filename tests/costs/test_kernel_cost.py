"""The model of a kernel: instructions, chains, spilled registers, bytes beyond caches; what it says of candidates."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import tcpx
from tcpx.costs.kernel_cost import KernelCost
from tcpx.drafts import draft
from tcpx.measure.limits import Limits
from tcpx.tune.model import Estimate, Trust, estimate, pressure_refusal

ROOT = Path(__file__).parents[2]
PAYLOAD = """\
func @f(%x: tensor<{m}x512xf32>, %w: tensor<512x512xf32>) -> tensor<{m}x512xf32> {{
  %mm = tcp.matmul(%x, %w) : tensor<{m}x512xf32>
  tcp.return(%mm)
}}
"""
SCHEDULE = """\
language 1
schedule s(root: func) {
  knob rows: int = 4 in 1..32
  knob columns: int = 64 in [16, 32, 64]
  knob block: int = 512 in [64, 512]
  let mm = match one contract in root
  tile(mm, [n: block])
  let i, j = tile(mm, [m: rows, n: columns])
  let kk = tile(mm, [k: 1])
  vectorize(j)
  hoist_accumulator(mm, out_of: kk)
}
"""
LIMITS = Limits(1, {"fma_f32": 1e11, "read_l2": 1e11, "read_l3": 5e10, "read_memory": 1e10}, {"l1": 32768})


def cost(size: int, target: str = "x86_avx512", **params: int) -> KernelCost:
    module = tcpx.parse(PAYLOAD.format(m=size))
    made = draft(module, tcpx.parse_schedule(SCHEDULE), params=params, target=target)
    return made.cost(tcpx.random_inputs(module))


@pytest.mark.parametrize(("rows", "target"), [(4, "x86_avx512"), (32, "x86_avx512"), (4, "x86_avx2")])
def test_vectors_that_a_loop_carries(rows: int, target: str) -> None:
    held = tcpx.load_target(target)
    found = cost(64, target, rows=rows)
    assert found.carried == rows * 64 // (held.vector_bits // 32)
    assert (pressure_refusal([found], held.vector_registers) is not None) == (rows == 32)


def test_a_function_counts_in_vectors_of_its_own_target() -> None:
    module = tcpx.parse(PAYLOAD.format(m=64))
    text = SCHEDULE.replace("tile(mm, [n", "group([mm], promise: function, target: x86_avx2)\n  tile(mm, [n")
    made = draft(module, tcpx.parse_schedule(text), target="x86_avx512").cost(tcpx.random_inputs(module))
    assert made.slots == cost(64, "x86_avx2").slots > cost(64).slots
    assert made.carried == cost(64, "x86_avx2").carried


def test_work_grows_with_the_size() -> None:
    assert 1.9 < cost(256).slots / cost(128).slots < 2.1
    assert cost(256).slots >= 256 * 512 * 512 / 16


def test_a_short_chain_of_few_accumulators_waits() -> None:
    assert cost(64, rows=1, columns=16).slots > 3 * cost(64, rows=4, columns=64).slots


def test_bytes_come_from_beyond_a_cache_that_the_nest_does_not_fit() -> None:
    few, many = cost(32), cost(512, rows=4)
    assert few.memory == many.memory == 0
    assert many.l2 > few.l2
    assert many.l2 >= 512 * 512 * 4 * (512 / 4) * 0.9, "a panel of w is read again for each four rows"
    assert cost(512, rows=8).l2 < many.l2


def test_an_estimate_is_set_by_what_takes_longest() -> None:
    target = tcpx.load_target("x86_avx512")
    computing = KernelCost(1e6, 1.0, 0.0, 0.0, 1)
    found = estimate([computing], [1.0], target, LIMITS)
    assert (found.by, found.seconds) == ("instructions", pytest.approx(1e6 * 32 / 1e11))
    waiting = replace(computing, memory=1e9)
    found = estimate([waiting], [1.0], target, LIMITS)
    assert (found.by, found.seconds) == ("bytes from memory", pytest.approx(0.1))
    assert estimate([computing, waiting], [1.0, 3.0], target, LIMITS).by == "bytes from memory"


def test_only_what_is_hopeless_is_pruned() -> None:
    trust = Trust()
    refusals = [trust.refusal_of(Estimate(seconds, "instructions"), 1.0, 7) for seconds in (0.5, 2.0, 2.9, 3.1)]
    assert refusals[:3] == [None] * 3
    assert refusals[3] == "the model expects 3.1 s for instructions, 3.1 times what it expects of #7"
    trust.learn(4.0, 2.0)
    assert trust.refusal_of(Estimate(5.9, "instructions"), 1.0, 7) is None
    assert trust.refusal_of(Estimate(6.1, "instructions"), 1.0, 7) is not None
    trust.learn(1.0, 2.0)
    assert trust.refusal_of(Estimate(5.9, "instructions"), 1.0, 7) is None


def test_the_model_orders_row_counts_as_machines_do() -> None:
    target = tcpx.load_target("x86_avx512")
    found = [estimate([cost(256, rows=rows)], [1.0], target, LIMITS).seconds for rows in (1, 2, 4)]
    assert all(more > fewer for more, fewer in pairwise(found))


def test_one_image_does_not_pay_for_a_tile_of_rows() -> None:
    """`make demo` at B = 1: a tile of seven rows computed seven times what was asked for, and could lose to NumPy."""
    module = tcpx.load(ROOT / "examples" / "digits" / "digits.tcp")
    made = draft(module, tcpx.load_schedule(ROOT / "schedules" / "digits.tcps"), target="x86_avx512")
    one, seven = (made.cost(tcpx.random_inputs(module, sizes={"B": size})).slots for size in (1, 7))
    assert one < seven / 2
