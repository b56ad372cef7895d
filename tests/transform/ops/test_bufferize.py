"""bufferize: every operation, dtype and size; handles and errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Array, Evaluation, evaluate_func
from tcpx.payload.fields import Operand
from tcpx.payload.ir import Operation, register
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.types import BufferType, shape_of
from tcpx.payload.verifier import verify_module
from tcpx.transform.bufferization.lowering import BUFFERIZED, Lowering
from tcpx.transform.declaration import find
from tcpx.transform.ops.bufferize import bufferize
from tests.transform.bufferized import WORKED_EXAMPLE, check_bufferized, copies, in_place
from tests.transform.payloads import INTEGERS, MIN_PLUS, RELU, ROWS, SOFTMAX, TRANSPOSED, TWO_K, run

SMALL = (0, 1, 5)


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


# -- every operation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [RELU, TRANSPOSED, INTEGERS, TWO_K, MIN_PLUS, ROWS])
def test_unscheduled_payloads(text: str) -> None:
    done = check_bufferized(text, extents=SMALL)
    assert done.remarks == ()


def test_composites_are_decomposed() -> None:
    done = check_bufferized(SOFTMAX, exact=False, extents=SMALL)
    assert set(done.allocations) == {"y.1.buf", "y.6.buf"}
    assert done.op("y").opcode == "tcp.mul"


def test_digits() -> None:
    module = tcpx.load(Path(__file__).parents[3] / "examples" / "digits" / "digits.tcp")
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
        assert list(rewriter.origins[origins[name]]) == [ops[name]]
    (product,) = rewriter.origins[origins["mm"]]
    assert product.opcode == "tcp.add"
    assert [a.name for a in product.ancestors() if isinstance(a, Loop)] == [
        "mm/k", "mm/n", "mm/m", "ii", "jj", "i", "p", "j",
    ]  # fmt: skip
    assert product.location == ops["mm"].location
    (start,) = rewriter.origins[origins["z"]]
    assert start.opcode == "vector.write"
    assert not rewriter.origins[origins["a"]]
    assert rewriter.ended[origins["a"]] == "bufferize left nothing of it: it is read where it lives"


def test_copies_of_an_operation_stay_apart() -> None:
    module = run(RELU, 'let mm = match one "mm" in root\nlet i = tile(mm, [m: 6], tail: peel)').module
    paths = {op.name: op.copy_path for op in module.walk() if op.copy_path and op.opcode == "tcp.matmul"}
    bufferize(Rewriter(module), module.main)
    kept = {op.name: op.copy_path for op in module.walk() if op.opcode == "tcp.add" and op.copy_path}
    assert len(paths) == 2
    assert kept == paths


STRIDED = """
func @scale(%x: tensor<[B]x[M]x[N]xf32> strided, %y: tensor<[N]xf32>) -> tensor<[B]x[M]x[N]xf32> strided
    symbols [B, M, N, x_stride0] {
  %s = tcp.broadcast(%y) {dims = [2]} : tensor<[B]x[M]x[N]xf32>
  %r = tcp.mul(%x, %s) : tensor<[B]x[M]x[N]xf32>
  tcp.return(%r)
}
"""


def test_strides_are_symbols() -> None:
    module = parse(STRIDED.replace(", x_stride0", ""))
    rewriter = Rewriter(module)
    before, mark = module.text(), rewriter.mark()
    bufferize(rewriter, module.main)
    assert module.text().startswith("""\
func @scale(%x: buffer<[B]x[M]x[N]xf32, strides [x_stride0, x_stride1, 1], space argument>, \
%y: buffer<[N]xf32, strides [1], space argument>, \
%out: buffer<[B]x[M]x[N]xf32, strides [out_stride0, out_stride1, 1], space result>) \
symbols [B, M, N, x_stride0, x_stride1, out_stride0, out_stride1] {results = 1} {
""")
    verify_module(module)
    assert parse(module.text()).text() == module.text()
    x, y = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x, y])[0], x * y)
    rewriter.rollback(mark)
    assert module.text() == before


def test_symbols_of_strides_get_free_names() -> None:
    module = parse(STRIDED.replace("%y: tensor<[N]xf32>", "%y: tensor<[N]xf32>, %z: tensor<[x_stride0]xf32>"))
    bufferize(Rewriter(module), module.main)
    assert "strides [x__stride0, x__stride1, 1]" in module.text()


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
    operand = Operand()


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
    assert diagnostic.found == "none of these"
    assert diagnostic.fix == "give it the interface Structured, or Composite, or a recipe (`BUFFERIZED`)"
    assert diagnostic.payload is not None
    assert diagnostic.payload.line == 2
    rewriter.rollback(mark)
    assert module.text() == before


@register
class Sevens(Operation):
    """A tensor of sevens, whatever the operand."""

    __slots__ = ()
    opcode = "test.sevens"
    operand = Operand()
    computes_result = True

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.full(evaluation.shape(self.result.type), 7, np.float32),)


@register
class OddSevens(Sevens):
    """One for which there is a recipe of its own, that leaves it to the one above."""

    __slots__ = ()
    opcode = "test.odd_sevens"


@pytest.mark.parametrize("opcode", ["test.sevens", "test.odd_sevens"])
def test_a_recipe_from_outside(opcode: str) -> None:
    def filled(run: Lowering, op: Operation) -> None:
        stored = run.loops.fill(op, 7.0, run.effects.place(op.result), shape_of(op.result.type))
        run.loops.continue_as_write(op, stored)
        run.erase_later(op)

    BUFFERIZED.add(filled, Sevens)
    BUFFERIZED.add(lambda run, op: False, OddSevens)
    check_bufferized(f"""func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {{
  %y = {opcode}(%x) : tensor<[N]xf32>
  %z = tcp.add(%y, %x) : tensor<[N]xf32>
  tcp.return(%z)
}}
""")


def test_it_is_a_statement() -> None:
    done = run(RELU, "bufferize(root)")
    assert done.module.main.attributes["results"] == 1
    assert find("bufferize").signature() == "bufferize(func: func)"
