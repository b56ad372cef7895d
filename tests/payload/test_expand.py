"""Dims of which a call says whether they are 1: `tcp.expand`, beside NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tcpx
from tcpx.payload.builder import Builder, expand, tensor
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, TcpxError
from tcpx.payload.ops.elementwise import Add
from tcpx.payload.ops.expand import Expand
from tcpx.payload.ops.gml_st import If, Materialize
from tcpx.payload.sizes import Symbol
from tcpx.payload.text.parser import parse
from tcpx.payload.types import f32
from tests.comparison import structurally_equal

WIDE = "tensor<[B]x[N]xf32>"
ADDED = f"""\
func @f(%x: {WIDE}, %b: tensor<[C]x[D]xf32>) -> {WIDE} symbols [B, C, D, N] {{
  %y = tcp.add(%x, expand(%b, [0, 1])) : {WIDE}
  tcp.return(%y)
}}
"""
BOTH = """\
func @f(%a: tensor<[A]x[D]xsi32>, %b: tensor<[B]x[E]xsi32>, %n: index as [E], %c: tensor<1x[D]xsi32>)
    -> tensor<[max(A, B)]x[D]xsi32> symbols [A: 1.., B: 1.., D, E] {
  %s = tcp.mul(expand(%a, [0, 1]), expand(%b, [0, 1])) : tensor<[max(A, B)]x[D]xsi32>
  %y = tcp.sub(%s, expand(%c, [0, 1])) : tensor<[max(A, B)]x[D]xsi32>
  tcp.return(%y)
}
"""
INNER = """\
func @f(%x: tensor<[B]x3x[M]x[N]xf32>, %b: tensor<[C]x[N]xf32>, %s: tensor<[E]x1x[M]x1xf32>)
    -> tensor<[B]x3x[M]x[N]xf32> symbols [B, C, E, M, N] {
  %w = tcp.expand(%b) {dims = [2, 3]} : tensor<[B]x3x[M]x[N]xf32> name "bias"
  %p = tcp.max(%x, %w) : tensor<[B]x3x[M]x[N]xf32>
  %y = tcp.mul(%p, expand(%s, [0, 1, 2, 3])) : tensor<[B]x3x[M]x[N]xf32>
  tcp.return(%y)
}
"""
ROW = "func @f(ARGUMENTS) -> tensor<[B]x8xf32> symbols [B, C: 0.., P: 2..] {\n  STATEMENT\n  tcp.return(%y)\n}\n"


def drawn(shape: tuple[int, ...], seed: int = 0, integers: bool = False) -> np.ndarray:
    random = np.random.default_rng(seed)
    if integers:
        return random.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32)
    return random.standard_normal(shape).astype(np.float32)


def refused(text: str) -> Diagnostic:
    with pytest.raises(TcpxError) as caught:
        parse(text, "f.tcp")
    return caught.value.diagnostic


@pytest.mark.parametrize("target", ["generic", "x86_avx2", "x86_avx512"])
def test_one_operand_is_what_numpy_computes(target: str) -> None:
    module = parse(ADDED)
    kernel = tcpx.compile(module, target=target)
    assert not kernel.remarks
    for b, n in ((5, 33), (1, 17), (3, 1), (1, 1), (0, 4), (4, 0), (2, 64)):
        for c, d in product({1, b}, {1, n}):
            x, y = drawn((b, n)), drawn((c, d), 1)
            np.testing.assert_array_equal(kernel(x, y), x + y)
            np.testing.assert_array_equal(tcpx.evaluate(module, x, y), x + y)


@pytest.mark.parametrize(("target", "threads"), [("generic", 1), ("x86_avx512", 2)])
def test_either_operand_may_be_one(target: str, threads: int) -> None:
    module = parse(BOTH)
    kernel = tcpx.compile(module, target=target, threads=threads)
    sizes = ((1, 1, 5, 5), (7, 7, 33, 33), (1, 7, 33, 1), (7, 1, 33, 33), (7, 1, 17, 1), (7, 7, 0, 0), (3, 1, 0, 1))
    for a, b, d, e in sizes:
        x, y, z = drawn((a, d), 0, True), drawn((b, e), 1, True), drawn((1, d), 2, True)
        np.testing.assert_array_equal(kernel(x, y, e, z), x * y - z)
        np.testing.assert_array_equal(tcpx.evaluate(module, x, y, np.asarray(e), z), x * y - z)


@pytest.mark.parametrize("strided", [False, True])
def test_inner_dims_and_static_ones(strided: bool) -> None:
    module = parse(INNER)
    kernel = tcpx.compile(module, strided=strided, target="x86_avx2")
    for b, m, n in ((2, 5, 19), (1, 1, 4), (3, 2, 1)):
        for c, e in product({1, m}, {1, b}):
            x, y, s = drawn((b, 3, m, 2 * n))[..., :n], drawn((c, n), 1), drawn((e, 1, m, 1), 2)
            np.testing.assert_array_equal(kernel(x, y, s), np.maximum(x, y) * s)
            np.testing.assert_array_equal(tcpx.evaluate(module, x, y, s), np.maximum(x, y) * s)


def test_any_other_size_is_refused_where_it_is_written() -> None:
    module = parse(ADDED, "f.tcp")
    kernel = tcpx.compile(module, target="generic")
    for run in (kernel, lambda *args: tcpx.evaluate(module, *args)):
        for shape, dim in (((2, 7), 0), ((0, 7), 0), ((5, 6), 1)):
            with pytest.raises(ArgumentError) as caught:
                run(drawn((5, 7)), drawn(shape))
            error = caught.value.diagnostic
            assert error.message == f"dim {dim} of %b is 1, or as long as what it becomes"
            assert error.required == ("C == B, or C == 1" if dim == 0 else "D == N, or D == 1")
            assert str(error.payload)[:7] == "f.tcp:2"


def test_a_function_that_is_called_demands_it_of_the_call() -> None:
    text = ADDED.replace("@f", "@main").replace("tcp.add(%x, expand(%b, [0, 1]))", "tcp.call @added(%x, %b)")
    module = parse(text + ADDED.replace("@f", "@added"))
    kernel = tcpx.compile(module, target="generic")
    x, y = drawn((5, 7)), drawn((1, 7), 1)
    np.testing.assert_array_equal(kernel(x, y), x + y)
    with pytest.raises(ArgumentError, match="dim 0 of %b is 1"):
        kernel(x, drawn((3, 7)))


def test_what_it_stands_for() -> None:
    module = parse(ADDED)
    assert structurally_equal(module, parse(module.text())) is None
    ops = module.main.body.ops
    assert [op.opcode for op in ops[:4]] == ["tcp.assert", "tcp.assert", "gml_st.if", "tcp.add"]
    assert isinstance(ops[2], If)
    assert ops[2].name == "y.rhs"
    reads = [op for op in ops[2].walk() if isinstance(op, Materialize)]
    assert [read.subset.dropped for read in reads] == [(), (1,), (0,), (0, 1)]
    known = parse(ROW.replace("ARGUMENTS", "%x: tensor<8xf32>, %z: tensor<[B]x[C]x[P]xf32>").replace(
        "STATEMENT", "%y = tcp.expand(%x) {dims = [1]} : tensor<[B]x8xf32>"))  # fmt: skip
    assert [op.opcode for op in known.main.body.ops] == ["tcp.broadcast", "tcp.return"]


def test_builder_makes_the_same() -> None:
    b, c, d, n = (Symbol(name) for name in "BCDN")
    for in_place in (True, False):
        builder = Builder()
        with builder.func("f", {"x": tensor([b, n], f32), "b": tensor([c, d], f32)}, [b, c, d, n]) as (x, bias):
            wide = expand(bias, [0, 1]) if in_place else builder.values(Expand.of(bias, [0, 1], x.type), "y.rhs")[0]
            builder.returns(builder.op(Add, [x, wide], name="y"))
        made, written = ([*module.walk()] for module in (builder.finish(), parse(ADDED)))
        assert [(op.opcode, op.attributes) for op in made] == [(op.opcode, op.attributes) for op in written]
        assert [op.name for op in builder.module.main.body.ops] == ["", "", "y.rhs", "y", ""]
        assert structurally_equal(builder.module, parse(builder.module.text())) is None


@pytest.mark.parametrize(
    ("arguments", "statement", "message", "required"),
    [
        ("%x: tensor<3x8xf32>", "%y = tcp.expand(%x) {dims = [0, 1]} : tensor<[B]x8xf32>",
         "dim 0 of %x is never 1, and not known to be as long as dim 0", "1, B, or a symbol that may be 1"),
        ("%x: tensor<[P]x8xf32>", "%y = tcp.expand(%x) {dims = [0, 1]} : tensor<[B]x8xf32>",
         "dim 0 of %x is never 1, and not known to be as long as dim 0", "1, B, or a symbol that may be 1"),
        ("%x: tensor<[C]x8xf32>", "%y = tcp.expand(%x) {dims = [1]} : tensor<[B]x8xf32>",
         "`dims` places each operand dim in the result", "2 increasing dims below 2"),
        ("%x: tensor<[C]x8xf32>", "%y = tcp.expand(%x) {dims = [1, 0]} : tensor<[B]x8xf32>",
         "`dims` places each operand dim in the result", "2 increasing dims below 2"),
        ("%x: tensor<[C]x8xsi32>", "%y = tcp.expand(%x) {dims = [0, 1]} : tensor<[B]x8xf32>",
         "operand and result have one dtype", "tensor<[B]x8xsi32>"),
    ],
)  # fmt: skip
def test_refused(arguments: str, statement: str, message: str, required: str) -> None:
    others = ", %o: tensor<[B]x[C]x[P]xf32>"
    error = refused(ROW.replace("ARGUMENTS", arguments + others).replace("STATEMENT", statement))
    assert (error.message, error.required) == (f"%y (tcp.expand): {message}", required)
    assert error.payload is not None
    assert error.payload.span.startswith("%y = ")


def test_in_a_loop_sizes_have_to_be_known_before() -> None:
    error = refused(ADDED.replace(
        "  %y = tcp.add(%x, expand(%b, [0, 1])) : tensor<[B]x[N]xf32>",
        """\
  %y = gml_st.for %i in 0 to B step 4 (%d = %x) {
    %t = gml_st.materialize(%b) tile [0, 0] [min(i, C), D] : tensor<[min(i, C)]x[D]xf32>
    %w = tcp.expand(%t) {dims = [0, 1]} : tensor<[min(4, B - i)]x[N]xf32>
    gml_st.yield(%w, %d) tile [i, 0] [min(4, B - i), N]
  } : tensor<[B]x[N]xf32>""".replace("min(i", "min(%i").replace("- i", "- %i").replace("[i,", "[%i,"),
    ))  # fmt: skip
    assert error.message == "%w (tcp.expand): whether dim 0 of %t is 1 changes while the kernel runs"


def test_what_is_broadcast_by_size_says_what_to_write() -> None:
    error = refused(ADDED.replace("expand(%b", "broadcast(%b"))
    assert error.fix == "if it may be 1: tcp.expand(%b) {dims = [0, 1]} : tensor<[B]x[N]xf32>"
