"""Names that are free in a function."""

from __future__ import annotations

import tcpx
from tcpx.payload.rewriter import Rewriter


def test_names_of_what_a_rollback_brings_back_are_taken() -> None:
    """Also where names were asked for first while it was gone."""
    module = tcpx.parse("""func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = tcp.exp(%x) : tensor<4xf32>
      %b = tcp.exp(%x) : tensor<4xf32>
      tcp.return(%b)
    }""")
    rewriter = Rewriter(module)
    mark = rewriter.mark()
    first, second = module.main.body.ops[:2]
    rewriter.erase(first)
    assert rewriter.fresh_name(second, "a") == "a"
    rewriter.rollback(mark)
    assert rewriter.fresh_name(second, "a") == "a.1"


def test_the_default_schedule_of_a_widened_factor_that_is_read_by_digits() -> None:
    payload = """func @f(%x: tensor<9x12xsi16>, %w: tensor<3x9x4xsi8>) -> tensor<9x9xsi32> {
      %v = tcp.cast(%x) : tensor<9x12xsi32>
      %y = tcp.contract(%v, %w) {lhs = ["m", "k"], rhs = ["k/4", "n", "k%4"], out = ["m", "n"]} : tensor<9x9xsi32>
      tcp.return(%y)
    }"""
    tcpx.emit(tcpx.parse(payload), target="x86_avx2")
