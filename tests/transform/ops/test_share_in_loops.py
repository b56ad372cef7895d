"""share: operations in loops and branches, what their functions know, and what would cost a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.text.parser import parse
from tests.transform.ops.test_share import ALL, NOTHING, ROWS, layers, opcodes, opcodes_of
from tests.transform.payloads import check, refusal, run

LOOPS = f"""\
func @f(%x: {ROWS}, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> ({ROWS}, {ROWS}) symbols [M: 0..] {{
  %y = gml_st.for %t in 0 to 3 step 1 (%d = %x) {{
    %h = gml_st.materialize(%d) tile [0, 0] [M, 8] : {ROWS}
    %p = tcp.matmul(%h, %v) : {ROWS}
    %e = tcp.sigmoid(%p) : {ROWS}
    %s = tcp.softmax(%e) {{dim = 1}} : {ROWS}
    gml_st.yield(%s, %d) tile [0, 0] [M, 8]
  }} : {ROWS}
  %q = tcp.matmul(%y, %w) : {ROWS}
  %g = tcp.sigmoid(%q) : {ROWS}
  %z = gml_st.for %u in 0 to M step 2 (%k = %y) {{
    %i = gml_st.materialize(%k) tile [0, 0] [M, 8] : {ROWS}
    %r = tcp.matmul(%i, %w) : {ROWS}
    %o = tcp.sigmoid(%r) : {ROWS}
    %m = tcp.softmax(%o) {{dim = 1}} : {ROWS}
    gml_st.yield(%m, %k) tile [0, 0] [M, 8]
  }} : {ROWS}
  tcp.return(%g, %z)
}}
"""
LAYERS = f"""\
func @f(%x: tensor<5x[M]x8xf32>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<5x[M]x8xf32> symbols [M: 0..] {{
  %o = tcp.empty : tensor<5x[M]x8xf32>
  %y = gml_st.for %t in 0 to 5 step 1 (%d = %o) {{
    %m = gml_st.materialize(%x) tile [4 - %t, 0, 0] [1, M, 8] drop [0] : {ROWS}
    %p = tcp.matmul(%m, %v) : {ROWS}
    %e = tcp.sigmoid(%p) : {ROWS}
    %q = tcp.matmul(%e, %w) : {ROWS}
    %g = tcp.sigmoid(%q) : {ROWS}
    %r = tcp.matmul(%g, %v) : {ROWS}
    %h = tcp.sigmoid(%r) : {ROWS}
    gml_st.yield(%h, %d) tile [%t, 0, 0] [1, M, 8] drop [0]
  }} : tensor<5x[M]x8xf32>
  tcp.return(%y)
}}
"""


def inside(module: tcpx.Module) -> list[list[str]]:
    """The operations of each loop and branch of the main function."""
    blocks = [block for top in module.main.body.ops for op in top.walk() for block in op.regions]
    return [[op.opcode.partition(".")[2] for op in block.ops] for block in blocks]


def test_operations_of_several_loops_and_of_none_share() -> None:
    done = check(LOOPS, ALL, exact=False)
    assert [*done.module.funcs] == ["f", "f.e"]
    assert opcodes(done.module) == ["for", "call", "for", "return"]
    assert inside(done.module) == [["materialize", "call", "softmax", "yield"]] * 2


def test_layers_in_the_body_of_a_loop_share() -> None:
    done = check(LAYERS, ALL, exact=False)
    assert inside(done.module) == [["materialize", "call", "call", "call", "yield"]]
    assert opcodes_of(done.module, "f.e") == ["matmul", "sigmoid", "return"]


def test_steps_on_what_loops_share_run_once() -> None:
    done = check(LOOPS, f"{ALL}\nlet p = match one contract in root\nlet i = tile(p, [m: 3])", exact=False)
    assert opcodes_of(done.module, "f.e") == ["empty", "for", "sigmoid", "return"]


def test_a_step_on_one_loop_copies_the_function() -> None:
    done = check(LOOPS, f'let r = match one "r" in root\n{ALL}\nlet i = tile(r, [m: 3])', exact=False)
    assert opcodes_of(done.module, "f.e") == ["matmul", "sigmoid", "return"]
    assert opcodes_of(done.module, "f.e.1") == ["empty", "for", "sigmoid", "return"]


def test_tiles_of_equal_sizes_share_their_recipe() -> None:
    """Both products are tiled already; what is in the loops is of one structure."""
    text = layers(2).replace("[M]", "6").replace(" symbols [M: 0..]", "")
    body = 'let p0 = match one "p0" in root\nlet p1 = match one "p1" in root\nlet i = tile(p0, [m: 2])\n'
    done = check(text, f"{body}let j = tile(p1, [m: 2])\n{ALL}", exact=False)
    assert [block.count("call") for block in inside(done.module)] == [1, 1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schedule", [f"language 2\nschedule main(root: func) {{ {ALL} }}\n", None])
def test_rows_of_arrays_are_passed_and_written_where_they_are(schedule: str | None, threads: int) -> None:
    program = tcpx.parse_schedule(schedule) if schedule is not None else None
    module = parse(LAYERS)
    kernel: Any = tcpx.compile(module, program, threads=threads)
    assert len(kernel.sources) == 2
    assert not any(word in source for source in kernel.sources.values() for word in ("/packed", "/copy"))
    rng = np.random.default_rng(0)
    for rows in (0, 1, 7, 32):
        x, v, w = (rng.standard_normal(shape, np.float32) for shape in ((5, rows, 8), (8, 8), (8, 8)))
        wanted: Any = tcpx.evaluate(module, x, v, w)
        np.testing.assert_allclose(kernel(x, v, w), wanted, rtol=1e-5)


def branches(condition: str, other: str = "", symbols: str = "M: 0..") -> str:
    """Products in two branches, and one before them."""
    return f"""\
func @f(%x: {ROWS}, %c: tensor<i1>, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>{other}) -> {ROWS} symbols [{symbols}] {{
  %go = gml_st.materialize(%c) tile [] [] : i1
  %p = tcp.matmul(%x, %v) : {ROWS}
  %e = tcp.sigmoid(%p) : {ROWS}
  %y = gml_st.if {condition} {{
    %q = tcp.matmul(%e, %v) : {ROWS}
    %g = tcp.sigmoid(%q) : {ROWS}
    tcp.yield(%g)
  }} else {{
    %r = tcp.matmul(%e, %w) : {ROWS}
    %h = tcp.sigmoid(%r) : {ROWS}
    %s = tcp.matmul(%h, %w) : {ROWS}
    %i = tcp.sigmoid(%s) : {ROWS}
    tcp.yield(%i)
  }} : {ROWS}
  tcp.return(%y)
}}
"""


OTHER = ", %z: tensor<[N]xf32>", "M: 0.., N: 0.."


@pytest.mark.parametrize("text", [branches("%go"), branches("N > 3", *OTHER)])
def test_branches_share_where_they_say_nothing_of_the_sizes(text: str) -> None:
    done = check(text, ALL, exact=False)
    assert [*done.module.funcs] == ["f", "f.e"]
    assert inside(done.module) == [["call", "yield"], ["call", "call", "yield"]]


def test_what_a_branch_says_of_a_size_its_function_declares() -> None:
    """The product before the branches has any number of rows, and that of the first branch has others: they stay."""
    done = check(branches("M > 3"), ALL, exact=False)
    assert inside(done.module) == [["matmul", "sigmoid", "yield"], ["call", "call", "yield"]]
    assert [(s.lower, s.upper) for s in done.module.funcs["f.h"].symbols] == [(0, 3)]


def test_what_a_branch_says_of_two_sizes_its_function_asserts() -> None:
    """The kernel takes sizes of the other branch, too."""
    text = branches("M > N", ", %z: tensor<[N]x[N]xf32>", "M: 0.., N: 0..").replace(
        "tensor<8x8xf32>", "tensor<[N]x[N]xf32>"
    )
    text = text.replace("[M]x8x", "[M]x[N]x")
    module = check(text, ALL, exact=False).module
    assert inside(module) == [["matmul", "sigmoid", "yield"], ["call", "call", "yield"]]
    assert [str(p) for p in module.funcs["f.h"].demands] == ["M <= N"]
    program = tcpx.parse_schedule(f"language 2\nschedule main(root: func) {{ {ALL} }}\n")
    kernel: Any = tcpx.compile(parse(text), program)
    assert kernel.signature.assertions == ()
    rng = np.random.default_rng(0)
    for rows, columns in ((2, 5), (5, 2), (3, 3)):
        shapes = (rows, columns), (columns, columns), (columns, columns), (columns, columns)
        x, v, w, z = (rng.standard_normal(shape, np.float32) for shape in shapes)
        wanted: Any = tcpx.evaluate(parse(text), x, np.array(True), v, w, z)
        np.testing.assert_allclose(kernel(x, np.array(True), v, w, z), wanted, rtol=1e-5)


COLUMNS = """\
func @f(%x: tensor<[M]x8xf32>, %v: tensor<8x8xf32>, %z: tensor<[M]x3x8xf32>) -> tensor<[M]x3x8xf32> symbols [M: 0..] {
  %y = gml_st.for %t in 0 to 3 step 1 (%d = %z) {
    %p = tcp.matmul(%x, %v) : tensor<[M]x8xf32>
    gml_st.yield(%p, %d) tile [0, %t, 0] [M, 1, 8] drop [1]
  } : tensor<[M]x3x8xf32>
  %u = gml_st.for %i in 0 to 3 step 1 (%k = %y) {
    %q = tcp.matmul(%x, %v) : tensor<[M]x8xf32>
    gml_st.yield(%q, %k) tile [0, %i, 0] [M, 1, 8] drop [1]
  } : tensor<[M]x3x8xf32>
  tcp.return(%u)
}
"""
READ_COLUMNS = f"""\
func @f(%x: {ROWS}, %v: tensor<8x8xf32>, %z: tensor<[M]x3x8xf32>) -> {ROWS} symbols [M: 0..] {{
  %y = gml_st.for %t in 0 to 3 step 1 (%d = %x) {{
    %m = gml_st.materialize(%z) tile [0, %t, 0] [M, 1, 8] drop [1] : {ROWS}
    %p = tcp.matmul(%m, %v) : {ROWS}
    %n = gml_st.materialize(%z) tile [0, 2 - %t, 0] [M, 1, 8] drop [1] : {ROWS}
    %q = tcp.matmul(%n, %v) : {ROWS}
    %s = tcp.softmax(%p) {{dim = 1}} : {ROWS}
    %e = tcp.add(%s, %q) : {ROWS}
    gml_st.yield(%e, %d) tile [0, 0] [M, 8]
  }} : {ROWS}
  tcp.return(%y)
}}
"""
IN_PLACE = LOOPS.replace("yield(%s", "yield(%e").replace("yield(%m", "yield(%o").replace("sigmoid(%q)", "neg(%q)")
WIDE = IN_PLACE.replace("8x8x", "600x600x").replace("]x8xf32", "]x600xf32").replace(" 8]", " 600]")
SUMS = WIDE.replace("sigmoid(%p)", "add(%p, %h)").replace("sigmoid(%r)", "add(%r, %i)")
OTHER_BRANCH = branches("%go").replace("tcp.yield(%g)", "tcp.yield(%e)").replace("matmul(%h, %w)", "matmul(%e, %w)")
PARALLEL = """\
func @f(%x: tensor<8x8xf32>, %v: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %o = tcp.empty : tensor<8x8xf32>
  %y = gml_st.parallel %i in 0 to 8 step 2 (%d = %o) {
    %m = gml_st.materialize(%x) tile [%i, 0] [2, 8] : tensor<2x8xf32>
    %p = tcp.matmul(%m, %v) : tensor<2x8xf32>
    gml_st.yield(%p, %d) tile [%i, 0] [2, 8]
  } : tensor<8x8xf32>
  %r = tcp.empty : tensor<8x8xf32>
  %z = gml_st.parallel %i in 0 to 8 step 2 (%e = %r) {
    %n = gml_st.materialize(%x) tile [%i, 0] [2, 8] : tensor<2x8xf32>
    %q = tcp.matmul(%n, %v) : tensor<2x8xf32>
    gml_st.yield(%q, %e) tile [%i, 0] [2, 8]
  } : tensor<8x8xf32>
  tcp.return(%y, %z)
}
"""
RAGGED = (
    PARALLEL.replace("parallel", "for").replace("[2, 8]", "[min(3, 8 - %i), 8]").replace("<2x", "<[min(3, 8 - %i)]x")
)


@pytest.mark.parametrize("text", [COLUMNS, READ_COLUMNS, IN_PLACE, SUMS, OTHER_BRANCH, PARALLEL, RAGGED], ids=[
    "columns of a destination", "columns of an argument", "rows of a destination in registers",
    "added to a destination in its place", "rows of what another branch gives", "parallel loops", "sizes of iterations",
])  # fmt: skip
def test_what_a_call_would_copy_or_not_know_stays(text: str) -> None:
    assert refusal(text, ALL).message == NOTHING


def test_rows_that_no_registers_hold_are_computed_beside_a_destination() -> None:
    """With and without calls, the destination has two places, and each iteration writes the other one."""
    assert inside(run(WIDE, ALL).module) == [["materialize", "call", "softmax", "yield"]] * 2


def test_what_a_group_promises_stays() -> None:
    body = 'let p0 = match one "p0" in root\nlet p1 = match one "p1" in root\nlet g = group([p0, p1], promise: nest)\n'
    assert refusal(layers(2), body + ALL).message == NOTHING


ACROSS = f"""\
func @f(%x: {ROWS}, %v: tensor<8x8xf32>) -> ({ROWS}, {ROWS}, {ROWS}) symbols [M: 0..] {{
  %l, %y = gml_st.for %t in 0 to 3 step 1 (%d = %x, %c = %x) {{
    %p = tcp.matmul(%x, %v) : {ROWS}
    gml_st.yield(%p, %d) tile [0, 0] [M, 8]
    %n = gml_st.materialize(%d) tile [0, 0] [M, 8] : {ROWS}
    %e = tcp.add(%p, %n) : {ROWS}
    gml_st.yield(%e, %c) tile [0, 0] [M, 8]
  }} : {ROWS}, {ROWS}
  %q = tcp.matmul(%y, %v) : {ROWS}
  %g = tcp.add(%q, %x) : {ROWS}
  %r = tcp.matmul(%l, %v) : {ROWS}
  %h = tcp.add(%r, %x) : {ROWS}
  tcp.return(%g, %h, %y)
}}
"""


def test_what_stands_on_both_sides_of_a_yield_leaves_the_others() -> None:
    done = check(ACROSS, ALL, exact=False)
    assert opcodes(done.module) == ["for", "call", "call", "return"]
    assert [*done.module.funcs] == ["f", "f.g"]


def two_sizes(trips: str) -> str:
    """A large product, and two small ones of other sizes in loops."""
    return f"""\
func @f(%x: tensor<1x256xf32>, %a: tensor<256x512xf32>, %v: tensor<64x64xf32>, %w: tensor<96x96xf32>,
    %y: tensor<1x64xf32>, %z: tensor<1x96xf32>, %n: tensor<[N]xf32>)
    -> (tensor<1x512xf32>, tensor<1x64xf32>, tensor<1x96xf32>) symbols [N: 0..] {{
  %b = tcp.matmul(%x, %a) : tensor<1x512xf32>
  %c = gml_st.for %t in 0 to {trips} step 1 (%d = %y) {{
    %h = gml_st.materialize(%d) tile [0, 0] [1, 64] : tensor<1x64xf32>
    %p = tcp.matmul(%h, %v) : tensor<1x64xf32>
    %s = tcp.softmax(%p) {{dim = 1}} : tensor<1x64xf32>
    gml_st.yield(%s, %d) tile [0, 0] [1, 64]
  }} : tensor<1x64xf32>
  %e = gml_st.for %u in 0 to {trips} step 1 (%k = %z) {{
    %i = gml_st.materialize(%k) tile [0, 0] [1, 96] : tensor<1x96xf32>
    %q = tcp.matmul(%i, %w) : tensor<1x96xf32>
    %m = tcp.softmax(%q) {{dim = 1}} : tensor<1x96xf32>
    gml_st.yield(%m, %k) tile [0, 0] [1, 96]
  }} : tensor<1x96xf32>
  tcp.return(%b, %c, %e)
}}
"""


MINOR = "share(match any contract in root, minor: 0.2)"


def test_what_runs_once_is_of_a_family() -> None:
    assert inside(run(two_sizes("1"), MINOR).module) == [["materialize", "call", "softmax", "yield"]] * 2


@pytest.mark.parametrize("trips", ["1000", "N"])
def test_what_runs_often_is_of_no_family(trips: str) -> None:
    """They take most of the time, or nobody knows."""
    assert refusal(two_sizes(trips), MINOR).message == NOTHING
