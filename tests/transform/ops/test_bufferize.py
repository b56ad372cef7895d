"""bufferize: what is in place, what is copied and why, and the same numbers before and after."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Operation, register
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.types import BufferType
from tcpx.transform.declaration import find
from tcpx.transform.ops.bufferize import bufferize
from tests.transform.bufferized import Bufferized, check_bufferized
from tests.transform.payloads import INTEGERS, MIN_PLUS, RELU, ROWS, SOFTMAX, TRANSPOSED, TWO_K, run

SMALL = (0, 1, 5)


def in_place(text: str, allocations: int = 0, exact: bool = True) -> Bufferized:
    """A payload that makes so many buffers, and copies nothing."""
    done = check_bufferized(text, exact=exact)
    assert done.remarks == ()
    assert "remarks" not in done.module.main.attributes
    assert len(done.allocations) == allocations, done.module.text()
    return done


def copies(text: str, *wanted: str, allocations: int | None = None) -> Bufferized:
    """A payload that needs just these copies; each text is a part of its remark."""
    done = check_bufferized(text)
    assert len(done.remarks) == len(wanted), done.remarks
    for part, remark in zip(wanted, done.remarks, strict=True):
        assert part in remark
    if allocations is not None:
        assert len(done.allocations) == allocations, done.module.text()
    return done


def test_a_whole_operation_is_a_loop_nest() -> None:
    done = in_place("""
func @scale(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %r = tcp.mul(%x, %y) : tensor<[N]xf32>
  tcp.return(%r)
}
""")
    assert (
        done.module.text()
        == """\
func @scale(%x: buffer<[N]xf32, strides [1], space argument>, %y: buffer<[N]xf32, strides [1], space argument>, \
%out: buffer<[N]xf32, strides [1], space result>) symbols [N] {results = 1} {
  gml_st.for %r/d0 in 0 to N step 1 {
    %r.1 = vector.read(%x) tile [%r/d0] [1] drop [0] {value = 0.0} : f32
    %r.2 = vector.read(%y) tile [%r/d0] [1] drop [0] {value = 0.0} : f32
    %r = tcp.mul(%r.1, %r.2) : f32
    vector.write(%r, %out) tile [%r/d0] [1] drop [0]
  }
  tcp.return
}
"""
    )


# -- in place ----------------------------------------------------------------------------------------------------------

WORKED_EXAMPLE = """
func @gemm(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %e = tcp.empty : tensor<[M]x[N]xf32>
  %t = gml_st.for %j in 0 to N step 8 (%tj = %e) {
    %z = tcp.fill {value = 0.0} : tensor<[M]x[min(8, N - %j)]xf32>
    %q = gml_st.for %p in 0 to K step 3 (%tp = %z) {
      %cp = gml_st.materialize(%tp) tile [0, 0] [M, min(8, N - %j)] : tensor<[M]x[min(8, N - %j)]xf32>
      %s = gml_st.parallel %i in 0 to M step 6 (%ti = %cp) {
        %ci = gml_st.materialize(%ti) tile [%i, 0] [min(6, M - %i), min(8, N - %j)]
          : tensor<[min(6, M - %i)]x[min(8, N - %j)]xf32>
        %sj = gml_st.for %jj in 0 to min(8, N - %j) step 4 (%tjj = %ci) {
          %cj = gml_st.materialize(%tjj) tile [0, %jj] [min(6, M - %i), min(4, min(8, N - %j) - %jj)]
            : tensor<[min(6, M - %i)]x[min(4, min(8, N - %j) - %jj)]xf32>
          %si = gml_st.for %ii in 0 to min(6, M - %i) step 2 (%tii = %cj) {
            %a = gml_st.materialize(%x) tile [%i + %ii, %p] [min(2, min(6, M - %i) - %ii), min(3, K - %p)]
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(3, K - %p)]xf32>
            %b = gml_st.materialize(%w) tile [%p, %j + %jj] [min(3, K - %p), min(4, min(8, N - %j) - %jj)]
              : tensor<[min(3, K - %p)]x[min(4, min(8, N - %j) - %jj)]xf32>
            %c = gml_st.materialize(%tii)
              tile [%ii, 0] [min(2, min(6, M - %i) - %ii), min(4, min(8, N - %j) - %jj)]
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(4, min(8, N - %j) - %jj)]xf32>
            %mm = tcp.matmul(%a, %b, init = %c)
              : tensor<[min(2, min(6, M - %i) - %ii)]x[min(4, min(8, N - %j) - %jj)]xf32>
            gml_st.yield(%mm, %tii) tile [%ii, 0] [min(2, min(6, M - %i) - %ii), min(4, min(8, N - %j) - %jj)]
          } : tensor<[min(6, M - %i)]x[min(4, min(8, N - %j) - %jj)]xf32>
          gml_st.yield(%si, %tjj) tile [0, %jj] [min(6, M - %i), min(4, min(8, N - %j) - %jj)]
        } : tensor<[min(6, M - %i)]x[min(8, N - %j)]xf32>
        gml_st.yield(%sj, %ti) tile [%i, 0] [min(6, M - %i), min(8, N - %j)]
      } : tensor<[M]x[min(8, N - %j)]xf32>
      gml_st.yield(%s, %tp) tile [0, 0] [M, min(8, N - %j)]
    } : tensor<[M]x[min(8, N - %j)]xf32>
    gml_st.yield(%q, %tj) tile [0, %j] [M, min(8, N - %j)]
  } : tensor<[M]x[N]xf32>
  tcp.return(%t)
}
"""


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


# -- every operation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [RELU, TRANSPOSED, INTEGERS, TWO_K, MIN_PLUS, ROWS])
def test_unscheduled_payloads(text: str) -> None:
    done = check_bufferized(text, extents=SMALL)
    assert done.remarks == ()


def test_composites_are_decomposed() -> None:
    done = check_bufferized(SOFTMAX, exact=False, extents=SMALL)
    assert set(done.allocations) == {"y.1.buf", "y.5.buf"}
    assert done.op("y").opcode == "tcp.div"


def test_digits() -> None:
    module = tcpx.load("examples/digits/digits.tcp")
    x = np.random.default_rng(0).uniform(0, 1, (3, 64)).astype(np.float32)
    (wanted,) = evaluate_func(module, module.main, [x])
    assert bufferize(Rewriter(module), module.main) == ()
    (found,) = evaluate_func(module, module.main, [x])
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=0, atol=1e-6)


def test_a_convolution_reads_windows() -> None:
    in_place("""
func @conv(%x: tensor<[N + 2]xsi32>, %w: tensor<3xsi32>, %y: tensor<[N]xsi32>) -> tensor<[N]xsi32> symbols [N] {
  %c = tcp.generic(%x, %w, init = %y) {iterators = [["k", "reduction"], ["n", "parallel"]],
      maps = [[k + n], [k], [n]], combiner = "tcp.add"} ({ (%a: si32, %b: si32, %acc: si32):
    %p = tcp.mul(%a, %b) : si32
    %s = tcp.add(%acc, %p) : si32
    tcp.yield(%s)
  }) : tensor<[N]xsi32>
  tcp.return(%c)
}
""")


@pytest.mark.parametrize("dtype", ["si8", "ui16", "si64", "f64", "bf16", "f16"])
def test_dtypes(dtype: str) -> None:
    check_bufferized(f"""
func @types(%x: tensor<[M]x3x{dtype}>, %y: tensor<3x[M]x{dtype}>) -> (tensor<[M]x3x{dtype}>, tensor<3xf32>) symbols [M] {{
  %t = tcp.transpose(%y) {{permutation = [1, 0]}} : tensor<[M]x3x{dtype}>
  %s = tcp.sub(%x, %t) : tensor<[M]x3x{dtype}>
  %c = tcp.cast(%s) : tensor<[M]x3xf32>
  %m = tcp.reduce_max(%c) {{dims = [0]}} : tensor<3xf32>
  tcp.return(%s, %m)
}}
""")  # noqa: E501


def test_scalars_and_vectors_come_and_go_in_memory() -> None:
    done = check_bufferized("""
func @registers(%a: f32, %v: vector<4xf32>, %x: tensor<4xf32>) -> (tensor<4xf32>, f32, tensor<f32>, vector<4xf32>) {
  %at = tcp.broadcast(%a) {dims = []} : tensor<4xf32>
  %s = tcp.add(%x, %at) : tensor<4xf32>
  %r = tcp.reduce_sum(%s) {dims = [0]} : tensor<f32>
  %n = gml_st.materialize(%s) tile [2] [1] drop [0] : f32
  %m = tcp.mul(%n, %a) : f32
  %p = tcp.max(%v, %v) : vector<4xf32>
  tcp.return(%s, %m, %r, %p)
}
""")
    assert [str(a.type).partition(",")[0] for a in done.module.main.args] == [
        "buffer<f32", "buffer<4xf32", "buffer<4xf32", "buffer<4xf32", "buffer<f32", "buffer<f32", "buffer<4xf32",
    ]  # fmt: skip


def test_a_reshape_of_a_part_is_copied_by_index() -> None:
    copies("""
func @parts(%x: tensor<4x[2*N]xsi32>, %n: tensor<[N]xsi32>) -> tensor<[N]x4xsi32> symbols [N] {
  %h = gml_st.materialize(%x) tile [0, 1] [2, 2*N - 1] : tensor<2x[2*N - 1]xsi32>
  %f = tcp.reshape(%h) : tensor<[4*N - 2]xsi32>
  %p = tcp.pad(%f) {value = 7} : tensor<[4*N]xsi32>
  %r = tcp.reshape(%p) : tensor<[N]x4xsi32>
  tcp.return(%r)
}
""".replace("symbols [N]", "symbols [N: 1..]"), "copies %h: tensor<2x[2*N - 1]xsi32> for %f (tcp.reshape)", allocations=0)  # fmt: skip  # noqa: E501


def test_strided_and_dropped_subsets() -> None:
    in_place("""
func @strided(%x: tensor<[M]x9xsi32>) -> tensor<[M]x4xsi32> symbols [M] {
  %e = tcp.empty : tensor<[M]x4xsi32>
  %r = gml_st.parallel %i in 0 to M (%d = %e) {
    %a = gml_st.materialize(%x) tile [%i, 1] [1, 4] [1, 2] drop [0] : tensor<4xsi32>
    %b = gml_st.materialize(%a) tile [1] [2] [2] : tensor<2xsi32>
    %p = tcp.pad(%b) {value = 3} : tensor<4xsi32>
    %s = tcp.add(%a, %p) : tensor<4xsi32>
    gml_st.yield(%s, %d) tile [%i, 0] [1, 4] drop [0]
  } : tensor<[M]x4xsi32>
  tcp.return(%r)
}
""")


def test_vectors_and_tensors_in_one_operation() -> None:
    check_bufferized("""
func @mixed(%x: tensor<2x4xsi32>, %y: tensor<4x4xsi32>) -> tensor<2x4xsi32> {
  %v = vector.read(%x) tile [0, 0] [2, 4] : vector<2x4xsi32>
  %m = tcp.matmul(%v, %y) : vector<2x4xsi32>
  %t = tcp.matmul(%m, %y) : tensor<2x4xsi32>
  tcp.return(%t)
}
""")


def test_static_extents_of_one_and_none() -> None:
    done = check_bufferized("""
func @small(%x: tensor<1x0xf32>, %y: tensor<1x3xf32>) -> (tensor<1xf32>, tensor<1x3xf32>, tensor<0xf32>) {
  %s = tcp.reduce_sum(%x) {dims = [1]} : tensor<1xf32>
  %p = tcp.mul(%y, %y) : tensor<1x3xf32>
  %f = tcp.reshape(%x) : tensor<0xf32>
  %g = tcp.add(%f, %f) : tensor<0xf32>
  tcp.return(%s, %p, %g)
}
""")
    assert [op.name for op in done.module.walk() if isinstance(op, Loop)] == ["s/d1", "p/d1", "g/d0"]


def test_buffers_are_bounded_where_sizes_depend_on_loops() -> None:
    done = check_bufferized("""
func @bounded(%x: tensor<[M]x[M]xsi32>) -> tensor<[M]x[M]xsi32> symbols [M] {
  %e = tcp.empty : tensor<[M]x[M]xsi32>
  %r = gml_st.for %i in 0 to M step 3 (%d = %e) {
    %a = gml_st.materialize(%x) tile [%i, 0] [min(3, M - %i), M] : tensor<[min(3, M - %i)]x[M]xsi32>
    %t = tcp.transpose(%a) {permutation = [1, 0]} : tensor<[M]x[min(3, M - %i)]xsi32>
    %g = tcp.matmul(%a, %t) : tensor<[min(3, M - %i)]x[min(3, M - %i)]xsi32>
    %p = tcp.matmul(%g, %a) : tensor<[min(3, M - %i)]x[M]xsi32>
    gml_st.yield(%p, %d) tile [%i, 0] [min(3, M - %i), M]
  } : tensor<[M]x[M]xsi32>
  tcp.return(%r)
}
""")
    assert {n: str(b) for n, b in done.allocations.items()} == {
        "t.buf": "buffer<[M]x[min(3, M)]xsi32, strides [min(3, M), 1], space arena>",
        "g.buf": "buffer<[min(3, M)]x[min(3, M)]xsi32, strides [min(3, M), 1], space arena>",
    }


@pytest.mark.parametrize(("columns", "space"), [(4096, "stack"), (4097, "arena")])
def test_small_static_buffers_are_on_the_stack(columns: int, space: str) -> None:
    module = parse(f"""
func @columns(%x: tensor<1x{columns}xf32>) -> tensor<1x1xf32> {{
  %s = tcp.add(%x, %x) : tensor<1x{columns}xf32>
  %t = tcp.transpose(%s) {{permutation = [1, 0]}} : tensor<{columns}x1xf32>
  %p = tcp.matmul(%s, %t) : tensor<1x1xf32>
  tcp.return(%p)
}}
""")
    bufferize(Rewriter(module), module.main)
    types = [op.results[0].type for op in module.walk() if op.opcode == "buffer.alloc"]
    assert [t.space for t in types if isinstance(t, BufferType)] == [space, space]


# -- handles and errors ------------------------------------------------------------------------------------------------


def test_loops_stay_and_handles_follow() -> None:
    module = parse(WORKED_EXAMPLE)
    rewriter = Rewriter(module)
    ops = {op.name: op for op in module.walk() if op.name}
    origins = {name: op.origins[0] for name, op in ops.items()}
    bufferize(rewriter, module.main)
    for name in ("j", "p", "i", "jj", "ii"):
        assert rewriter.origins[origins[name]] == [ops[name]]
    (product,) = rewriter.origins[origins["mm"]]
    assert product.opcode == "tcp.add"
    assert [a.name for a in product.ancestors() if isinstance(a, Loop)] == [
        "mm/k", "mm/n", "mm/m", "ii", "jj", "i", "p", "j",
    ]  # fmt: skip
    assert product.location == ops["mm"].location
    (start,) = rewriter.origins[origins["z"]]
    assert start.opcode == "vector.write"
    assert rewriter.origins[origins["a"]] == []
    assert rewriter.ended[origins["a"]] == "bufferize left nothing of it: it is read where it lives"


def test_copies_of_an_operation_stay_apart() -> None:
    module = run(RELU, 'let mm = match one "mm" in root\nlet i = tile(mm, [m: 6], tail: peel)').module
    paths = {op.name: op.copy_path for op in module.walk() if op.copy_path and op.opcode == "tcp.matmul"}
    bufferize(Rewriter(module), module.main)
    kept = {op.name: op.copy_path for op in module.walk() if op.opcode == "tcp.add" and op.copy_path}
    assert len(paths) == 2
    assert kept == paths


def test_bufferizing_twice_changes_nothing() -> None:
    module = parse(RELU)
    rewriter = Rewriter(module)
    bufferize(rewriter, module.main)
    mark = rewriter.mark()
    assert bufferize(rewriter, module.main) == ()
    assert rewriter.mark() == mark


@register
class Opaque(Operation):
    """An operation that says nothing about itself."""

    __slots__ = ()
    opcode = "test.opaque"
    operand_names = ("operand",)


def test_an_operation_that_says_nothing_is_refused() -> None:
    module = parse("""func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = test.opaque(%x) : tensor<4xf32>
  tcp.return(%y)
}
""")
    before = module.text()
    rewriter = Rewriter(module)
    mark = rewriter.mark()
    with pytest.raises(VerifyError) as caught:
        bufferize(rewriter, module.main)
    diagnostic = caught.value.diagnostic
    assert diagnostic.message == "%y (test.opaque): this operation on tensors has no form on buffers"
    assert (diagnostic.found, diagnostic.fix) == ("test.opaque", "give it the interface Structured, or Composite")
    assert diagnostic.payload is not None
    assert diagnostic.payload.line == 2
    rewriter.rollback(mark)
    assert module.text() == before


def test_it_is_a_statement() -> None:
    done = run(RELU, "bufferize(root)")
    assert done.module.main.attributes["results"] == 1
    assert find("bufferize").signature() == "bufferize(func: func)"
