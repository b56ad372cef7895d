"""Elements of values that results need: what reads a part, and what that part is computed of."""

from __future__ import annotations

from fractions import Fraction

import pytest

import tcpx
from tcpx.costs.demand import demand_of
from tcpx.costs.needs import needed_parts

HEAD = "func @f(%x: tensor<40x12xf32>, %w: tensor<12x12xf32>, %ix: tensor<5xsi64> in 0 to 40) -> {result} {{\n"
BODY = """\
  %h = tcp.matmul(%x, %w) : tensor<40x12xf32>
  %n = tcp.exp(%h) : tensor<40x12xf32>
"""


def parts(statements: str, result: str, **sizes: int) -> dict[str, str]:
    text = f"{HEAD.format(result=result)}{BODY}{statements}  tcp.return(%y)\n}}\n"
    return {op.name: str(part) for op, part in needed_parts(tcpx.parse(text).main, sizes).items()}


@pytest.mark.parametrize(
    ("statements", "result", "part"),
    [
        ("%y = tcp.slice(%n) {offsets = [39, 0]} : tensor<1x12xf32>", "tensor<1x12xf32>", "1/40"),
        ("%y = tcp.slice(%n) {offsets = [1, 0], strides = [4, 1]} : tensor<10x12xf32>", "tensor<10x12xf32>", "1/4"),
        ("%y = tcp.slice(%n) {offsets = [2, 3]} : tensor<20x4xf32>", "tensor<20x4xf32>", "1/6"),
        ("%y = tcp.gather(%n, %ix) {dim = 0} : tensor<5x12xf32>", "tensor<5x12xf32>", "1/8"),
    ],
)
def test_a_part_is_read(statements: str, result: str, part: str) -> None:
    assert parts(f"  {statements}\n", result) == {"n": part, "h": part}


def test_a_part_of_a_transpose_and_of_a_reshape() -> None:
    turned = """\
  %t = tcp.transpose(%n) {permutation = [1, 0]} : tensor<12x40xf32>
  %y = tcp.slice(%t) {offsets = [0, 10]} : tensor<12x10xf32>
"""
    assert parts(turned, "tensor<12x10xf32>") == {"h": "1/4", "n": "1/4"}
    shaped = """\
  %r = tcp.reshape(%n) : tensor<4x10x12xf32>
  %y = tcp.slice(%r) {offsets = [1, 0, 0]} : tensor<1x10x12xf32>
"""
    assert parts(shaped, "tensor<1x10x12xf32>") == {"h": "1/4", "n": "1/4"}


def test_a_reduction_needs_all_of_what_it_reduces() -> None:
    text = """\
  %s = tcp.reduce_sum(%n) {dims = [1]} : tensor<40xf32>
  %y = tcp.slice(%s) {offsets = [3]} : tensor<2xf32>
"""
    assert parts(text, "tensor<2xf32>") == {"s": "1/20", "n": "1/20", "h": "1/20"}
    scanned = """\
  %c, %last = tcp.cumsum(%n) {dim = 0} : tensor<40x12xf32>, tensor<12xf32>
  %y = tcp.slice(%c) {offsets = [39, 0]} : tensor<1x12xf32>
"""
    assert parts(scanned, "tensor<1x12xf32>") == {}


def test_several_parts_count_once_where_they_are_equal() -> None:
    text = """\
  %a = tcp.slice(%n) {{offsets = [0, 0]}} : tensor<10x12xf32>
  %b = tcp.slice(%n) {{offsets = [{first}, 0]}} : tensor<10x12xf32>
  %y = tcp.add(%a, %b) : tensor<10x12xf32>
"""
    assert parts(text.format(first=30), "tensor<10x12xf32>")["n"] == "1/2"
    assert parts(text.format(first=0), "tensor<10x12xf32>")["n"] == "1/4"


def test_what_another_operation_reads_as_a_whole_is_needed() -> None:
    text = """\
  %a = tcp.slice(%n) {offsets = [0, 0]} : tensor<1x12xf32>
  %s = tcp.reduce_max(%n) {dims = [0]} : tensor<12xf32>
  %y = tcp.add(%a, broadcast(%s, [1])) : tensor<1x12xf32>
"""
    assert parts(text, "tensor<1x12xf32>") == {}


def test_parts_of_sizes_that_are_symbols() -> None:
    text = """\
func @f(%x: tensor<[N]x8xf32>) -> tensor<4x8xf32> symbols [N: 4..] {
  %e = tcp.exp(%x) : tensor<[N]x8xf32>
  %y = tcp.slice(%e) {offsets = [N - 4, 0]} : tensor<4x8xf32>
  tcp.return(%y)
}
"""
    module = tcpx.parse(text)
    assert list(needed_parts(module.main, {"N": 64}).values()) == [Fraction(1, 16)]
    assert needed_parts(module.main, {"N": 4}) == {}
    target = tcpx.load_target("generic")
    whole, least = (demand_of(module, target, tcpx.random_inputs(module, sizes={"N": n})) for n in (64, 4))
    assert whole.operations == least.operations
