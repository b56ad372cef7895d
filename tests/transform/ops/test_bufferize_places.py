"""bufferize: what is in place, and what is copied and why."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.constants import Constants
from tcpx.payload.ops.gml_st import Loop
from tests.transform.bufferized import WORKED_EXAMPLE, check_bufferized, copies, in_place
from tests.transform.payloads import RELU, run

# -- in place ----------------------------------------------------------------------------------------------------------


def test_the_worked_example_is_in_place() -> None:
    done = in_place(WORKED_EXAMPLE)
    loops = [op for op in done.module.walk() if isinstance(op, Loop)]
    assert [op.name for op in loops[:2]] == ["j", "z/d0"]
    assert all(not op.destinations or op.destinations[0].type == done.op("mm").result.type for op in loops)


PACKED = """
let mm = match one contract in root
let last = epilogue(mm)
let jc = tile(mm, [n: 32])
let pc = tile(mm, [k: 3])
let ic = tile(mm, [m: 12], parallel: true)
let jr, ir = tile(mm, [n: 16, m: 6], tail: pad)
let bp = pack(mm.rhs, [k, n], at: pc, parallel: true)
let ap = pack(mm.lhs, [m, k], at: ic)
fuse(mm.start, into: ir)
fuse(last, into: ir)
let kk = tile(mm, [k: 1])
"""
REGISTERS = "vectorize(ir)\nhoist_accumulator(mm, out_of: kk)\nprefetch(mm.out, at: ir, for: write)\n"


@pytest.mark.parametrize("lowering", ["", "lower_vectors(ir)\n"])
def test_packed_gemm_makes_the_packed_buffers_only(lowering: str) -> None:
    module = run(RELU, PACKED + REGISTERS + lowering).module
    done = check_bufferized(module, extents=(0, 1, 7))
    assert done.remarks == ()
    assert set(done.allocations) == {"mm.rhs.buf", "mm.lhs.buf"}
    assert done.count("buffer.prefetch") == 1


def test_packed_gemm_on_tensors() -> None:
    done = check_bufferized(run(RELU, PACKED).module, extents=(0, 1, 13))
    assert all("min(" not in str(b.strides[-1]) for b in done.allocations.values())


def test_packing_transposed_writes_the_padded_panel_directly() -> None:
    text = PACKED.partition("let bp")[0] + "let ap = pack(mm.lhs, [k, m], at: ic)\n"
    done = check_bufferized(run(RELU, text).module, extents=(0, 1, 13))
    packed = next(op for op in done.module.walk() if op.name == "mm.lhs/pack1")
    assert not any(op.opcode == "buffer.alloc" for op in packed.walk())


def test_a_loop_from_a_fill_writes_the_result() -> None:
    done = in_place("""
func @rows(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %z = tcp.fill {value = 1.0} : tensor<[M]x4xf32>
  %r = gml_st.for %i in 0 to M step 2 (%d = %z) {
    %a = gml_st.materialize(%x) tile [%i, 0] [min(2, M - %i), 4] : tensor<[min(2, M - %i)]x4xf32>
    %c = gml_st.materialize(%d) tile [%i, 0] [min(2, M - %i), 4] : tensor<[min(2, M - %i)]x4xf32>
    %s = tcp.add(%a, %c) : tensor<[min(2, M - %i)]x4xf32>
    gml_st.yield(%s, %d) tile [%i, 0] [min(2, M - %i), 4]
  } : tensor<[M]x4xf32>
  tcp.return(%r)
}
""")
    assert done.count("vector.write") == 2


def test_elementwise_chains_overwrite_their_first_value() -> None:
    in_place(
        """
func @chain(%x: tensor<[M]x[N]xf32>, %b: tensor<[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %bt = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>
  %s = tcp.add(%x, %bt) : tensor<[M]x[N]xf32>
  %p = tcp.mul(%s, %s) : tensor<[M]x[N]xf32>
  %q = tcp.sub(%x, %p) : tensor<[M]x[N]xf32>
  %r = tcp.max(%q, %s) : tensor<[M]x[N]xf32>
  tcp.return(%r)
}
""",
        allocations=1,
    )


def test_a_branch_that_yields_nothing_costs_nothing() -> None:
    done = in_place("""
func @some(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %z = tcp.fill {value = 0.0} : tensor<[M]x4xf32>
  %r = gml_st.for %i in 0 to M (%d = %z) {
    %a = gml_st.materialize(%x) tile [%i, 0] [1, 4] drop [0] : tensor<4xf32>
    gml_st.if %i >= 2 {
      %s = tcp.mul(%a, %a) : tensor<4xf32>
      gml_st.yield(%s, %d) tile [%i, 0] [1, 4] drop [0]
    }
  } : tensor<[M]x4xf32>
  tcp.return(%r)
}
""")
    (branch,) = (op for op in done.module.walk() if op.opcode == "gml_st.if")
    assert [op.opcode for op in branch.regions[1].ops] == ["tcp.yield"]


def test_both_branches_compute_where_their_result_goes() -> None:
    in_place("""
func @first(%x: tensor<[K]x4xf32>) -> tensor<4xf32> symbols [K] {
  %z = tcp.fill {value = 7.0} : tensor<4xf32>
  %r = gml_st.for %k in 0 to K (%d = %z) {
    %start = gml_st.if %k == 0 {
      %f = tcp.fill {value = 0.0} : tensor<4xf32>
      tcp.yield(%f)
    } else {
      %c = gml_st.materialize(%d) tile [0] [4] : tensor<4xf32>
      tcp.yield(%c)
    } : tensor<4xf32>
    %a = gml_st.materialize(%x) tile [%k, 0] [1, 4] drop [0] : tensor<4xf32>
    %s = tcp.add(%start, %a) : tensor<4xf32>
    gml_st.yield(%s, %d) tile [0] [4]
  } : tensor<4xf32>
  tcp.return(%r)
}
""")


def test_a_vector_is_stored_where_its_tensor_goes() -> None:
    done = in_place("""
func @tiles(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %e = tcp.empty : tensor<[M]x4xf32>
  %r = gml_st.for %i in 0 to M step 2 (%d = %e) {
    %v = vector.read(%x) tile [%i, 0] [min(2, M - %i), 4] : vector<2x4xf32>
    %s = tcp.add(%v, %v) : vector<2x4xf32>
    gml_st.yield(%s, %d) tile [%i, 0] [min(2, M - %i), 4]
  } : tensor<[M]x4xf32>
  tcp.return(%r)
}
""")
    assert done.count("gml_st.yield") == 0


def test_loops_carry_vectors_beside_destinations() -> None:
    done = in_place("""
func @running(%x: tensor<[M]x4xf32>) -> (tensor<[M]x4xf32>, tensor<4xf32>) symbols [M] {
  %e = tcp.empty : tensor<[M]x4xf32>
  %zero = tcp.const {value = 0.0} : f32
  %z = tcp.broadcast(%zero) {dims = []} : vector<4xf32>
  %r, %acc = gml_st.for %i in 0 to M (%d = %e, %c = %z) {
    %v = vector.read(%x) tile [%i, 0] [1, 4] drop [0] : vector<4xf32>
    %s = tcp.add(%v, %c) : vector<4xf32>
    gml_st.yield(%s, %d) tile [%i, 0] [1, 4] drop [0]
    gml_st.yield(%s, %c) tile [0] [4]
  } : tensor<[M]x4xf32>, vector<4xf32>
  %total = vector.to_tensor(%acc) : tensor<4xf32>
  tcp.return(%r, %total)
}
""")
    loop = done.op("i")
    assert [r.name for r in loop.results] == ["acc"]
    assert done.count("gml_st.yield") == 1


def test_pad_and_reshape_are_computed_in_their_results() -> None:
    done = in_place("""
func @shapes(%x: tensor<[M]x3xsi32>) -> (tensor<[M]x4xsi32>, tensor<[3*M]xsi32>) symbols [M] {
  %s = tcp.add(%x, %x) : tensor<[M]x3xsi32>
  %p = tcp.pad(%s) {value = 9} : tensor<[M]x4xsi32>
  %q = tcp.mul(%x, %x) : tensor<[M]x3xsi32>
  %f = tcp.reshape(%q) : tensor<[3*M]xsi32>
  tcp.return(%p, %f)
}
""")
    assert done.count("buffer.reshape") == 1


def test_an_argument_is_read_under_another_shape() -> None:
    in_place("""
func @flat(%x: tensor<[M]x6xf32>) -> tensor<[M]x2xf32> symbols [M] {
  %f = tcp.reshape(%x) : tensor<[M]x2x3xf32>
  %s = tcp.reduce_sum(%f) {dims = [2]} : tensor<[M]x2xf32>
  tcp.return(%s)
}
""")


# -- copies ------------------------------------------------------------------------------------------------------------


def test_results_that_are_not_computed_are_copied() -> None:
    copies("""
func @same(%x: tensor<[M]x3xf32>) -> (tensor<[M]x3xf32>, tensor<[M]x3xf32>, tensor<[M]x3xf32>) symbols [M] {
  %s = tcp.add(%x, %x) : tensor<[M]x3xf32>
  tcp.return(%x, %s, %s)
}
""", "copies %x: tensor<[M]x3xf32> for tcp.return", "copies %s: tensor<[M]x3xf32>", allocations=0)  # fmt: skip


def test_a_constant_is_copied_and_a_literal_is_filled_in() -> None:
    text = """
func @constants() -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %w = tcp.const {constant = "w"} : tensor<2x3xf32>
  %l = tcp.const {value = 2.5} : tensor<2x3xf32>
  tcp.return(%w, %l)
}
"""
    done = check_bufferized(text, Constants({"w": np.arange(6, dtype=np.float32).reshape(2, 3)}))
    assert done.remarks == ("copies %w: tensor<2x3xf32> for tcp.return",)
    assert str(done.op("w").results[0].type) == "buffer<2x3xf32, strides [3, 1], space constant>"


UPDATE = """
func @update(%x: tensor<[M]x4xf32>) -> ($TYPES) symbols [M] {
  %y = tcp.add(%x, %x) : tensor<[M]x4xf32>
  %r = gml_st.for %i in 0 to M step 2 (%d = $INIT) {
    %a = gml_st.materialize($READ) tile [0, 0] [min(2, M - %i), 4] : tensor<[min(2, M - %i)]x4xf32>
    %b = gml_st.materialize(%d) tile [%i, 0] [min(2, M - %i), 4] : tensor<[min(2, M - %i)]x4xf32>
    %s = tcp.add(%a, %b) : tensor<[min(2, M - %i)]x4xf32>
    gml_st.yield(%s, %d) tile [%i, 0] [min(2, M - %i), 4]
  } : tensor<[M]x4xf32>
  tcp.return($RETURNED)
}
"""


def update(init: str, read: str, returned: str) -> str:
    types = ", ".join(["tensor<[M]x4xf32>"] * len(returned.split(",")))
    text = UPDATE.replace("$TYPES", types).replace("$INIT", init)
    return text.replace("$READ", read).replace("$RETURNED", returned)


def test_a_first_value_that_nothing_else_reads_is_updated() -> None:
    in_place(update("%y", "%x", "%r"))


def test_a_first_value_that_is_read_behind_the_loop_is_copied() -> None:
    (text,) = copies(update("%y", "%x", "%r, %y"), "copies %y: tensor<[M]x4xf32> for %i (gml_st.for)").remarks
    assert "reads later" not in text


def test_a_first_value_that_is_read_in_the_loop_is_copied() -> None:
    done = copies(update("%y", "%y", "%r"), "for %i (gml_st.for), because", allocations=1)
    assert "would overwrite %y, which %a (gml_st.materialize) reads later" in done.remarks[0]


def test_a_first_value_that_is_an_argument_is_copied() -> None:
    copies(update("%x", "%x", "%r"), "copies %x: tensor<[M]x4xf32> for %i", allocations=1)


def test_a_destination_that_is_read_elsewhere_is_not_written_early() -> None:
    copies("""
func @reverse(%x: tensor<[M]x4xf32>) -> tensor<[M]x4xf32> symbols [M] {
  %y = tcp.add(%x, %x) : tensor<[M]x4xf32>
  %r = gml_st.for %i in 0 to M (%d = %y) {
    %a = gml_st.materialize(%d) tile [%i, 0] [1, 4] : tensor<1x4xf32>
    %s = tcp.add(%a, %a) : tensor<1x4xf32>
    %b = gml_st.materialize(%d) tile [0, 0] [1, 4] : tensor<1x4xf32>
    %t = tcp.mul(%s, %b) : tensor<1x4xf32>
    gml_st.yield(%t, %d) tile [%i, 0] [1, 4]
  } : tensor<[M]x4xf32>
  tcp.return(%r)
}
""", "copies %t: tensor<1x4xf32> for gml_st.yield, because", allocations=1)  # fmt: skip


def test_a_subset_that_is_overwritten_before_it_is_read_is_copied() -> None:
    copies("""
func @shift(%x: tensor<[M]x4xsi32>) -> tensor<[M]x4xsi32> symbols [M] {
  %y = tcp.add(%x, %x) : tensor<[M]x4xsi32>
  %r = gml_st.for %i in 0 to M - 1 (%d = %y) {
    %old = gml_st.materialize(%d) tile [%i, 0] [2, 4] : tensor<2x4xsi32>
    %one = gml_st.materialize(%old) tile [0, 0] [1, 4] : tensor<1x4xsi32>
    %two = gml_st.materialize(%old) tile [1, 0] [1, 4] : tensor<1x4xsi32>
    gml_st.yield(%two, %d) tile [%i, 0] [1, 4]
    gml_st.yield(%one, %d) tile [%i + 1, 0] [1, 4]
  } : tensor<[M]x4xsi32>
  tcp.return(%r)
}
""", "%old", "%two", "%one")  # fmt: skip


def test_a_subset_that_is_moved_by_less_than_its_size_is_copied_through_a_buffer() -> None:
    copies("""
func @moved(%x: tensor<8xsi32>) -> tensor<8xsi32> {
  %y = tcp.add(%x, %x) : tensor<8xsi32>
  %r = gml_st.for %i in 0 to 2 (%d = %y) {
    %a = gml_st.materialize(%d) tile [0] [6] : tensor<6xsi32>
    gml_st.yield(%a, %d) tile [2] [6]
  } : tensor<8xsi32>
  tcp.return(%r)
}
""", "copies %d: tensor<8xsi32> for %a", "copies %a: tensor<6xsi32> for gml_st.yield", allocations=1)  # fmt: skip


def test_a_value_that_only_one_branch_yields_has_memory_of_its_own() -> None:
    copies("""
func @complete(%x: tensor<[K]x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) symbols [K] {
  %z = tcp.fill {value = 0.0} : tensor<4xf32>
  %e = tcp.fill {value = 0.0} : tensor<4xf32>
  %t, %y = gml_st.for %k in 0 to K (%dt = %z, %dy = %e) {
    %c = gml_st.materialize(%dt) tile [0] [4] : tensor<4xf32>
    %a = gml_st.materialize(%x) tile [%k, 0] [1, 4] drop [0] : tensor<4xf32>
    %s = tcp.add(%c, %a) : tensor<4xf32>
    gml_st.if %k + 1 >= K {
      %r = tcp.max(%s, %a) : tensor<4xf32>
      gml_st.yield(%r, %dy) tile [0] [4]
    } else {
      gml_st.yield(%s, %dt) tile [0] [4]
    }
  } : tensor<4xf32>, tensor<4xf32>
  tcp.return(%t, %y)
}
""", "copies %s: tensor<4xf32> for gml_st.yield, because", allocations=1)  # fmt: skip


def test_two_results_of_a_branch_do_not_share_memory() -> None:
    copies("""
func @two(%x: tensor<[M]x4xsi32>) -> tensor<[M]x4xsi32> symbols [M] {
  %a, %b = gml_st.if M >= 2 {
    %s = tcp.add(%x, %x) : tensor<[M]x4xsi32>
    %t = tcp.mul(%x, %x) : tensor<[M]x4xsi32>
    tcp.yield(%s, %t)
  } else {
    %u = tcp.sub(%x, %x) : tensor<[M]x4xsi32>
    tcp.yield(%x, %u)
  } : tensor<[M]x4xsi32>, tensor<[M]x4xsi32>
  %r = tcp.add(%a, %b) : tensor<[M]x4xsi32>
  tcp.return(%r)
}
""", "copies %x", allocations=1)  # fmt: skip


def test_memory_is_not_sized_by_what_a_branch_knows() -> None:
    done = check_bufferized("""
func @known(%x: tensor<[M]x4xsi32>) -> tensor<[M]x4xsi32> symbols [M] {
  %z = tcp.add(%x, %x) : tensor<[M]x4xsi32>
  %r = gml_st.if M == 1 {
    %a = gml_st.for %i in 0 to M (%d = %z) {
      %c = gml_st.materialize(%d) tile [%i, 0] [1, 4] : tensor<1x4xsi32>
      %s = tcp.mul(%c, %c) : tensor<1x4xsi32>
      gml_st.yield(%s, %d) tile [%i, 0] [1, 4]
    } : tensor<[M]x4xsi32>
    %sum = tcp.reduce_sum(%a) {dims = [1]} : tensor<[M]xsi32>
    %t = tcp.broadcast(%sum) {dims = [0]} : tensor<[M]x4xsi32>
    tcp.yield(%t)
  } else {
    tcp.yield(%x)
  } : tensor<[M]x4xsi32>
  tcp.return(%r)
}
""")
    assert str(done.allocations["z.buf"]) == "buffer<[M]x4xsi32, strides [4, 1], space arena>"


CHANGED = """
func @running(%x: tensor<[K]x[M]x4xf32>, %c: tensor<[K]x[M]x4xf32>) -> tensor<[M]x4xf32> symbols [K, M] {{
  %z = tcp.fill {{value = 1.0}} : tensor<[M]x4xf32>
  %r = gml_st.for %k in 0 to K (%d = %z) {{
    %acc = gml_st.materialize(%d) tile [0, 0] [M, 4] : tensor<[M]x4xf32>
    %e = tcp.empty : tensor<[M]x4xf32>
    %changed = gml_st.{loop} %i in 0 to M (%f = %e) {{
      %o = vector.read(%acc) tile [{row}, 0] [1, 4] drop [0] : vector<4xf32>
      %y = vector.read(%c) tile [%k, %i, 0] [1, 1, 4] drop [0, 1] : vector<4xf32>
      %w = tcp.mul(%o, %y) : vector<4xf32>
      gml_st.yield(%w, %f) tile [%i, 0] [1, 4] drop [0]
    }} : tensor<[M]x4xf32>
    %t = gml_st.materialize(%x) tile [%k, 0, 0] [1, M, 4] drop [0] : tensor<[M]x4xf32>
    %s = tcp.add(%changed, %t) : tensor<[M]x4xf32>
    {stores}gml_st.yield(%s, %d) tile [0, 0] [M, 4]
  }} : tensor<[M]x4xf32>
  tcp.return(%r)
}}
"""


@pytest.mark.parametrize("loop", ["for", "parallel"])
def test_what_changes_a_running_result_takes_its_place(loop: str) -> None:
    in_place(CHANGED.format(loop=loop, row="%i", stores=""))


@pytest.mark.parametrize(("loop", "row"), [("for", "0"), ("parallel", "max(0, %i - 1)"), ("for", "M - 1 - %i")])
def test_what_a_later_iteration_reads_is_kept(loop: str, row: str) -> None:
    assert len(check_bufferized(CHANGED.format(loop=loop, row=row, stores="")).allocations) == 1


def test_a_running_result_that_is_read_behind_its_change_is_kept() -> None:
    stores = "%u = tcp.add(%s, %acc) : tensor<[M]x4xf32>\n    "
    text = CHANGED.format(loop="for", row="%i", stores=stores).replace("yield(%s, %d)", "yield(%u, %d)")
    assert len(check_bufferized(text).allocations) == 1
