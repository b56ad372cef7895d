"""bufferize: parts of what a loop carries, under other shapes, are read and written where they lie."""

from __future__ import annotations

import pytest

from tests.nets.states import StateProgram
from tests.transform.bufferized import check_bufferized, in_place
from tests.transform.payloads import run

SYMBOLS = "symbols [T: 0..3, H: 0.., W: 0..]"


def test_each_step_writes_its_slot_of_a_history() -> None:
    done = in_place(f"""
func @f(%u: inout tensor<[T + 1]x[H]x[W]xsi32>, %s: tensor<[T]xsi32>) -> %u: tensor<[T + 1]x[H]x[W]xsi32> {SYMBOLS} {{
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {{
    %now = gml_st.materialize(%d) tile [%t, 0, 0] [1, H, W] drop [0] : tensor<[H]x[W]xsi32>
    %flat = tcp.reshape(%now) : tensor<[H*W]xsi32>
    %next = tcp.add(%flat, %flat) : tensor<[H*W]xsi32>
    %r = tcp.reshape(%next) : tensor<1x[H]x[W]xsi32>
    gml_st.yield(%r, %d) tile [%t + 1, 0, 0] [1, H, W]
  }} : tensor<[T + 1]x[H]x[W]xsi32>
  tcp.return(%y)
}}
""")
    assert done.count("buffer.reshape") == 1, "both parts are tiles of the state under one other shape"


def test_a_row_without_its_unit_dim_is_read_and_written_in_place() -> None:
    done = in_place("""
func @f(%u: inout tensor<[H]x[W]xsi32>) -> %u: tensor<[H]x[W]xsi32> symbols [H: 0.., W: 0..] {
  %y = gml_st.for %i in 1 to H step 1 (%d = %u) {
    %p = tcp.slice(%d) {offsets = [%i - 1, 0]} : tensor<1x[W]xsi32>
    %q = tcp.slice(%d) {offsets = [%i, 0]} : tensor<1x[W]xsi32>
    %a = tcp.reshape(%p) : tensor<[W]xsi32>
    %b = tcp.reshape(%q) : tensor<[W]xsi32>
    %s = tcp.sub(%a, %b) : tensor<[W]xsi32>
    %r = tcp.reshape(%s) : tensor<1x[W]xsi32>
    gml_st.yield(%r, %d) tile [%i, 0] [1, W]
  } : tensor<[H]x[W]xsi32>
  tcp.return(%y)
}
""")
    assert done.count("buffer.reshape") == 0, "no dim but of one index is another: the state keeps its shape"


def test_rows_with_gaps_under_another_shape_are_copied() -> None:
    text = """
func @f(%u: tensor<[H]x[W]xsi32>, %s: tensor<[T]xsi32>) -> tensor<[H]x[W]xsi32> symbols [T: 0..3, H: 0.., W: 1..] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %p = gml_st.materialize(%d) tile [0, 1] [H, W - 1] : tensor<[H]x[W - 1]xsi32>
    %f = tcp.reshape(%p) : tensor<[H*W - H]xsi32>
    %n = tcp.add(%f, %f) : tensor<[H*W - H]xsi32>
    %r = tcp.reshape(%n) : tensor<[H]x[W - 1]xsi32>
    gml_st.yield(%r, %d) tile [0, 0] [H, W - 1]
  } : tensor<[H]x[W]xsi32>
  tcp.return(%y)
}
"""
    assert any("copies %p" in remark for remark in check_bufferized(text).remarks)


OLD = f"""
func @f(%u: tensor<2x[H]x[W]xsi32>, %s: tensor<[T]xsi32>) -> (tensor<2x[H]x[W]xsi32>, tensor<[H*W]xsi32>) {SYMBOLS} {{
  %z = tcp.fill {{value = 3}} : tensor<[H*W]xsi32>
  %y, %last = gml_st.for %t in 0 to T step 1 (%d = %u, %e = %z) {{
    %p = gml_st.materialize(%d) tile [0, 0, 0] [1, H, W] : tensor<1x[H]x[W]xsi32>
    %f = tcp.reshape(%p) : tensor<[H*W]xsi32>
    %n = tcp.add(%f, %f) : tensor<[H*W]xsi32>
    %r = tcp.reshape(%n) : tensor<1x[H]x[W]xsi32>
    gml_st.yield(%r, %d) tile [SLOT, 0, 0] [1, H, W]
    %old = tcp.sub(%f, %e) : tensor<[H*W]xsi32>
    gml_st.yield(%old, %e) full
  }} : tensor<2x[H]x[W]xsi32>, tensor<[H*W]xsi32>
  tcp.return(%y, %last)
}}
"""


def test_a_part_that_is_read_after_it_was_overwritten_is_copied() -> None:
    check_bufferized(OLD.replace("SLOT", "1"))
    text = OLD.replace("SLOT", "0")
    assert any("reads later" in remark for remark in check_bufferized(text).remarks)


def test_parts_of_two_shapes_are_told_apart_by_what_they_cover() -> None:
    """Slot 0 is read under one shape, slot 1 is written under another."""
    in_place("""
func @f(%u: inout tensor<2x[H]x[W]xsi32>, %s: tensor<[T]xsi32>) -> %u: tensor<2x[H]x[W]xsi32>
    symbols [T: 0..3, H: 0.., W: 0..] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %p = gml_st.materialize(%d) tile [0, 0, 0] [1, H, W] drop [0] : tensor<[H]x[W]xsi32>
    %f = tcp.reshape(%p) : tensor<[H*W]xsi32>
    %n = tcp.add(%f, %f) : tensor<[H*W]xsi32>
    %g = tcp.reshape(%n) : tensor<[H]x[W]xsi32>
    gml_st.yield(%g, %d) tile [1, 0, 0] [1, H, W] drop [0]
    %q = tcp.sub(%p, %p) : tensor<[H]x[W]xsi32>
    gml_st.yield(%q, %d) tile [0, 0, 0] [1, H, W] drop [0]
  } : tensor<2x[H]x[W]xsi32>
  tcp.return(%y)
}
""")


STENCIL = """
func @f(%u: tensor<[H + 2]x[W + 2]xf32>, %s: tensor<[T]xf32>) -> tensor<[H + 2]x[W + 2]xf32>
    symbols [T: 0..3, H: 0.., W: 0..] {
  %y = gml_st.for %t in 0 to T step 1 (%d = %u) {
    %n = gml_st.materialize(%d) tile [0, 1] [H, W] : tensor<[H]x[W]xf32>
    %c = gml_st.materialize(%d) tile [1, 1] [H, W] : tensor<[H]x[W]xf32>
    %x = tcp.add(%n, %c) : tensor<[H]x[W]xf32>
    gml_st.yield(%x, %d) tile [1, 1] [H, W]
  } : tensor<[H + 2]x[W + 2]xf32>
  tcp.return(%y)
}
"""


def test_coalesce_leaves_rows_with_gaps() -> None:
    text = run(STENCIL, "let x = match one add in root\noptional coalesce(x)").module.text()
    assert "tcp.reshape" not in text
    history = STENCIL.replace("[H + 2]x[W + 2]", "[H + 2]x[W]").replace("[0, 1]", "[0, 0]").replace("[1, 1]", "[1, 0]")
    text = run(history, "let x = match one add in root\ncoalesce(x)").module.text()
    assert "tensor<[H*W]xf32>" in text


def check_random_loops(seeds: range) -> int:
    """How often memory is seen under another shape."""
    programs = (StateProgram(seed).make() for seed in seeds)
    return sum(check_bufferized(program, extents=(0, 3)).count("buffer.reshape") for program in programs)


def test_random_loops_over_states() -> None:
    assert check_random_loops(range(8)) >= 8


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_more_random_loops_over_states() -> None:
    assert check_random_loops(range(8, 400)) >= 400
