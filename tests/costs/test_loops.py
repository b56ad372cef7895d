"""The model of innermost loops: ports, chains, registers, bytes by level."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.costs.bounds import bound_of
from tcpx.costs.chains import slowest_cycle
from tcpx.costs.nests import InnerLoop, nests_of
from tcpx.costs.ports import cycles_by_port

SUM = """\
func @f(%x: tensor<{n}x{dtype}>) -> tensor<{dtype}> {{
  %r = tcp.reduce_sum(%x) {{dims = [0]}} : tensor<{dtype}>
  tcp.return(%r)
}}
"""
SUMS = """\
language 2
schedule s(root: func) {{
  let r = match one reduce in root
  let kk, sums = split_reduction(r, d0, factor: {factor})
  vectorize(kk)
  hoist_accumulator(r, out_of: kk)
  vectorize(sums)
}}
"""
PRODUCT = """\
func @f(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %mm = tcp.matmul(%x, %w) : tensor<{m}x{n}xf32>
  tcp.return(%mm)
}}
"""
TILE = """\
language 2
schedule s(root: func) {{
  let mm = match one contract in root
  let i, j = tile(mm, [m: {m}, n: {n}])
  let kk = tile(mm, [k: 1])
  vectorize(j)
  hoist_accumulator(mm, out_of: kk)
}}
"""
SCAN = """\
func @f(%x: tensor<2048xf32>) -> tensor<2048xf32> {
  %r, %s = tcp.cumsum(%x) {dim = 0} : tensor<2048xf32>, tensor<f32>
  tcp.return(%r)
}
"""


def longest(payload: str, schedule: str = "", target: str = "sapphire_rapids", **sizes: int) -> InnerLoop:
    """The innermost loop that takes most of the time."""
    program = tcpx.parse_schedule(schedule) if schedule else None
    chosen = tcpx.load_target(target)
    module = lowered(CompileRequest(tcpx.parse(payload), program), chosen, 1).module
    loops = [inner for nest in nests_of(module.main, chosen, 1, sizes) for inner in nest.loops]
    return max(loops, key=lambda inner: inner.cycles * inner.iterations)


def product(m: int, n: int, k: int = 64, target: str = "sapphire_rapids") -> InnerLoop:
    return longest(PRODUCT.format(m=m, n=n, k=k), TILE.format(m=m, n=n), target)


def ports(*uses: tuple[str, float]) -> dict[str, float]:
    return cycles_by_port({frozenset(names.split()): cycles for names, cycles in uses})


def test_operations_go_where_they_delay_the_least() -> None:
    assert ports(("p0 p1", 4)) == {"p0": 2, "p1": 2}
    assert ports(("p0", 3), ("p0 p1", 2)) == {"p0": 3, "p1": 2}
    assert ports(("p0", 1), ("p0 p1", 3), ("p2", 1)) == {"p0": 2, "p1": 2, "p2": 1}
    assert ports(("p0", 2), ("p5", 2), ("p0 p5", 2), ("p0 p1 p5", 3)) == {"p0": 3, "p1": 3, "p5": 3}
    assert ports() == {}


def test_the_slowest_cycle_is_that_of_the_greatest_mean() -> None:
    assert slowest_cycle({}) == (0.0, ())
    assert slowest_cycle({("a", "a"): 4.0, ("b", "b"): 2.0}) == (4.0, ("a",))
    weight, nodes = slowest_cycle({("a", "b"): 3.0, ("b", "a"): 7.0, ("a", "a"): 4.0, ("b", "c"): 9.0})
    assert weight == 5.0
    assert set(nodes) == {"a", "b"}


@pytest.mark.parametrize(
    ("target", "busy", "cycles"),
    [("sapphire_rapids", ("p0", "p5"), 12.0), ("zen4", ("f0", "f1"), 24.0), ("zen5", ("f0", "f1"), 12.0)],
)
def test_a_register_tile_keeps_the_units_busy(target: str, busy: tuple[str, ...], cycles: float) -> None:
    found = product(6, 64, target=target).iteration  # 24 vectors, 4 loads and 6 that are repeated
    assert [found.ports[port] for port in busy] == [cycles] * 2
    assert (found.latency, found.chain, found.spilled) == (4.0, ("fma_f32x16",), 0)
    assert found.bytes == 4 * 64 + 6 * 16  # a scalar counts as the vector that it lies in
    assert found.throughput == pytest.approx(cycles, rel=0.1)


def test_few_accumulators_wait() -> None:
    found = product(1, 32).iteration
    assert found.throughput < found.latency == 4.0
    assert found.cycles == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("dtype", "factor", "latency"), [("f32", 16, 3.0), ("f32", 64, 3.0), ("f64", 32, 3.0), ("si32", 32, 1.0)]
)
def test_sums_wait_for_one_addition(dtype: str, factor: int, latency: float) -> None:
    found = longest(SUM.format(n=2048, dtype=dtype), SUMS.format(factor=factor)).iteration
    assert found.latency == latency
    assert len(found.chain) == 1


def test_additions_of_integers_are_regrouped() -> None:
    schedule = (
        "language 2\nschedule s(root: func) {\n  let r = match one reduce in root\n"
        "  let kk = tile(r, [d0: 64])\n  vectorize(kk)\n  hoist_accumulator(r, out_of: kk)\n}\n"
    )
    assert longest(SUM.format(n=2048, dtype="f32"), schedule).iteration.latency == 12.0
    assert longest(SUM.format(n=2048, dtype="si32"), schedule).iteration.latency == 1.0


def test_a_scan_is_a_chain() -> None:
    found = longest(SCAN).iteration
    assert (found.latency, found.chain, found.through_memory) == (2.0, ("add_f32",), False)
    assert found.widest == 128


def test_more_vectors_than_registers_are_spilled() -> None:
    assert product(6, 64).iteration.spilled == 0
    spilled = product(8, 64).iteration
    assert spilled.spilled == 5  # as many as gcc 12 stores
    assert spilled.store_cycles > 0
    assert product(8, 16, target="x86_avx2").iteration.spilled > 0


def test_one_load_of_an_instruction_is_its_operand() -> None:
    text = (
        "func @f(%x: tensor<2048xf32>, %y: tensor<2048xf32>) -> tensor<2048xf32> {\n"
        "  %r = tcp.sub(%x, %y) : tensor<2048xf32>\n  tcp.return(%r)\n}\n"
    )
    found = longest(text).iteration
    vectors = found.bytes / 64 / 3  # two that are read, one that is written
    assert found.load_cycles == vectors  # two loads in a cycle
    assert found.store_cycles == vectors
    assert found.entry * found.core.width == pytest.approx(vectors * 3 + 2)  # a load, a subtraction, a store


def test_a_body_of_one_iteration_is_no_loop() -> None:
    text = (
        "func @f(%x: tensor<16x256xf32>) -> tensor<256x16xf32> {\n"
        "  %r = tcp.transpose(%x) {permutation = [1, 0]} : tensor<256x16xf32>\n  tcp.return(%r)\n}\n"
    )
    found = longest(text)
    assert found.iterations == 16
    assert found.iteration.ports["p5"] == 64  # shuffles


def test_bytes_come_from_where_they_lie() -> None:
    def bytes_of(n: int) -> dict[str, float]:
        return {level: count for level, count in longest(SUM.format(n=n, dtype="f32")).bytes.items() if count}

    vectors = 64.0 * 4
    assert bytes_of(2**10) == {}
    assert bytes_of(2**16) == {"l2": pytest.approx(vectors, rel=0.1)}
    assert bytes_of(2**22) == {"l3": pytest.approx(vectors, rel=0.1)}
    assert bytes_of(2**26) == {"memory": pytest.approx(vectors, rel=0.1)}
    slow = longest(SUM.format(n=2**26, dtype="f32"))
    assert slow.cycles == slow.transfer["memory"] > 10 * slow.iteration.cycles


def test_instructions_that_wait_for_operands_keep_iterations_apart() -> None:
    text = (
        "func @f(%x: tensor<2048xf32>) -> tensor<2048xf32> {\n"
        "  %r = tcp.exp(%x) : tensor<2048xf32>\n  tcp.return(%r)\n}\n"
    )
    found = longest(text, target="zen4")
    narrow = replace(found.iteration, core=replace(found.iteration.core, window=16))
    assert found.iteration.latency == 0.0
    assert found.iteration.window_cycles < found.iteration.compute_cycles
    assert narrow.window_cycles == pytest.approx(4 * found.iteration.window_cycles)
    assert narrow.cycles == pytest.approx(narrow.window_cycles, rel=0.1)
    assert bound_of(replace(found, iteration=narrow)).what == (
        "operands that are not there: at most 16 instructions wait at once"
    )


def test_chains_as_long_as_the_ports_are_busy_delay_each_other() -> None:
    found = product(2, 32, target="zen4").iteration  # four chains of four cycles on two units
    assert found.compute_cycles == found.latency == 4.0
    assert found.cycles > 4.8


def test_a_mask_of_floats_is_no_operand_in_memory() -> None:
    text = (
        "func @f(%x: tensor<2048xf32>, %y: tensor<2048xf32>, %z: tensor<2048xf32>) -> tensor<2048xf32> {\n"
        "  %c = tcp.less(%x, %y) : tensor<2048xi1>\n  %r = tcp.select(%c, %y, %z) : tensor<2048xf32>\n"
        "  tcp.return(%r)\n}\n"
    )
    found = longest(text, target="x86_avx2").iteration
    assert found.load_cycles == 2 * found.store_cycles  # x, z, and y twice: in the comparison and in the blend
