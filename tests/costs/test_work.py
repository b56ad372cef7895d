"""What is issued for each operation of a payload, beside what that asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

import tcpx
from tcpx.costs.forwarding import PayloadPlaces
from tcpx.costs.operations import operations_of
from tcpx.costs.visits import Statement, runs
from tcpx.costs.work import PlaceWork, asked_for
from tcpx.drafts import draft
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Module
from tcpx.payload.sizes import symbols
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import shape_of
from tcpx.target import Target
from tests.nets.oracle import sizes_of
from tests.nets.payloads import RandomPayload

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
    found = PayloadPlaces.of(module).account(asked, list(runs(kernel, sizes, target)))
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


QUANTIZED = """\
func @f(%x: tensor<64x256xui8>, %w: tensor<256x64xsi8>) -> tensor<64x64xsi32> {
  %c = tcp.cast(%x) : tensor<64x256xsi32>
  %z = tcp.fill() {value = 3} : tensor<64x256xsi32>
  %o = tcp.sub(%c, %z) : tensor<64x256xsi32>
  %v = tcp.cast(%w) : tensor<256x64xsi32>
  %y = tcp.matmul(%o, %v) : tensor<64x64xsi32>
  tcp.return(%y)
}
"""


def test_what_corrects_a_product_is_added() -> None:
    """The payload asks for no sums of the columns of %w, and for no product of these with the zero point."""
    found = work(QUANTIZED)
    asked = sum(held.asked.total() for places in found.values() for held in places.values())
    assert asked == 64 * 256 + 2 * 64 * 64 * 256
    added = {statement.name: places[6].added for statement, places in found.items()}
    assert added == {"y.sums/d01": 256 * 64, "y.excess/d01": 64, "y/n1": 64 * 64}
    assert not any(held.excess for places in found.values() for held in places.values())


FUSED = """\
func @f(%x: tensor<8x64xf32>, %a: tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64x8xf32>) {
  %p = tcp.mul(%x, %a) : tensor<8x64xf32>
  %s = tcp.add(%p, %x) : tensor<8x64xf32>
  %t = tcp.transpose(%p) {permutation = [1, 0]} : tensor<64x8xf32>
  tcp.return(%s, %t)
}
"""


def test_a_product_that_became_part_of_a_sum_is_asked_for_there() -> None:
    found = work(FUSED)
    assert sum(held.asked.total() for places in found.values() for held in places.values()) == 2 * 8 * 64
    assert not any(held.excess for places in found.values() for held in places.values() if not held.is_recomputed)


POSITIONS = """\
func @f(%x: tensor<64x64xf32>, %v: tensor<64xsi64>) -> tensor<64x64xf32> {
  %i = tcp.iota {dim = 0} : tensor<64x64xsi64>
  %j = tcp.iota {dim = 1} : tensor<64x64xsi64>
  %t = tcp.broadcast(%v) {dims = [1]} : tensor<64x64xsi64>
  %k = tcp.add(%i, %t) : tensor<64x64xsi64>
  %m = tcp.greater_equal(%k, %j) : tensor<64x64xi1>
  %y = tcp.select(%m, %x, 0.0) : tensor<64x64xf32>
  tcp.return(%y)
}
"""


def test_vectors_of_positions_are_added() -> None:
    (places,) = work(POSITIONS).values()
    assert sum(held.asked.total() for held in places.values()) == 3 * 64 * 64
    assert sum(held.added for held in places.values()) == 64 * 64
    assert not any(held.excess for held in places.values())


CONSTANT = """\
func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  %c = tcp.fill() {value = 2.0} : tensor<64xf32>
  %e = tcp.exp(%c) : tensor<64xf32>
  %d = tcp.exp(%x) : tensor<64xf32>
  %y = tcp.mul(%x, %e) : tensor<64xf32>
  tcp.return(%y)
}
"""


def test_nothing_asks_for_constants_and_for_what_nobody_reads() -> None:
    asked = asked_for(tcpx.parse(CONSTANT).main, {}, tcpx.load_target("x86_avx512"))
    assert {place.line: operations.total() for place, operations in asked.items() if place is not None} == {5: 64}


LAYERS = 66
ROWS_OF_FOUR = """\
language 2
schedule f(root: func) {
  for mm in match some matmul in root { tile(mm, [m: 4]) }
}
"""


def test_equal_parts_of_a_long_function_ask_for_what_all_layers_do() -> None:
    """It is partitioned, and equal parts run in one function."""
    weights = "".join(f", %w{k}: tensor<32x32xf32>" for k in range(LAYERS))
    layers = (
        f"  %m{k} = tcp.matmul(%x{k}, %w{k}) : tensor<8x32xf32>\n  %x{k + 1} = tcp.exp(%m{k}) : tensor<8x32xf32>\n"
        for k in range(LAYERS)
    )
    head = f"func @f(%x0: tensor<8x32xf32>{weights}) -> tensor<8x32xf32> {{\n"
    found = work(f"{head}{''.join(layers)}  tcp.return(%x{LAYERS})\n}}\n", ROWS_OF_FOUR)
    assert len(found) < LAYERS
    assert sum(held.issued for places in found.values() for held in places.values()) > LAYERS * 2 * 8 * 32 * 32
    assert not any(held.excess or held.added for places in found.values() for held in places.values())


def count(module: Module, sizes: Mapping[str, int], target: Target) -> int:
    """What results need of operations that depend on arguments, sizes or positions, each counted by itself."""
    ops, given, needed = module.main.body.ops, set(module.main.args), set(module.main.returned)
    for op in ops:
        is_counted = isinstance(op, Structured) and len(positions_read(op)) > 0
        is_sized = any(symbols(dim) for result in op.results for dim in shape_of(result.type))
        given.update(op.results if is_counted or is_sized or not given.isdisjoint(op.operands) else ())
    for op in reversed(ops):
        needed.update(op.operands if not needed.isdisjoint(op.results) else ())
    counted = [op for op in ops if not needed.isdisjoint(op.results) and not given.isdisjoint(op.results)]
    return sum(operations_of(op, sizes, target).total() for op in counted)


@pytest.mark.parametrize("seed", range(16))
def test_random_payloads_are_asked_for_what_they_ask_for(seed: int) -> None:
    """In whole numbers, whatever the default schedule makes of them."""
    drawn = RandomPayload(seed).make()
    module = tcpx.parse(drawn.text(), constants=drawn.constants)  # as written, operations have places
    target = tcpx.load_target("x86_avx512")
    kernel = draft(module, target="x86_avx512").run.module.main
    places = PayloadPlaces.of(module)
    for sizes in sizes_of(module, seed, 2):
        found = places.account(asked_for(module.main, sizes, target), list(runs(kernel, sizes, target)))
        parts = [held for works in found.values() for held in works.values()]
        numbers = [number for held in parts for number in (*held.asked.values(), held.issued, held.added, held.excess)]
        assert all(isinstance(number, int) and number >= 0 for number in numbers)
        assert sum(held.asked.total() for held in parts) == count(module, sizes, target)
