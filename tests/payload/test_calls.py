"""Calls of functions on values: what they compute, their text, and what the verifier refuses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.limits import DEEPEST_CALLS
from tcpx.payload.builder import Builder, tensor
from tcpx.payload.diagnostics import Diagnostic, TcpxError, UnprovenError, VerifyError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import CloneMap
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Symbol
from tcpx.payload.structural_difference import structural_differences
from tcpx.payload.text.parser import parse
from tcpx.payload.types import f32

LAYER = """
func @layer(%x: tensor<[B]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> (tensor<[B]x[N]xf32>, tensor<[N]xf32>)
    symbols [B, K: 1.., N] {
  %y = tcp.matmul(%x, %w) : tensor<[B]x[N]xf32>
  %e = tcp.exp(%y) : tensor<[B]x[N]xf32>
  %s = tcp.reduce_sum(%e) {dims = [0]} : tensor<[N]xf32>
  tcp.return(%e, %s)
}
"""
NET = """
func @net(%x: tensor<[M]x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x[P]xf32>) -> (tensor<[M]x[P]xf32>, tensor<8xf32>)
    symbols [M, P] {
  %h, %s = tcp.call @layer(%x, %w) : tensor<[M]x8xf32>, tensor<8xf32>
  %y, %t = tcp.call @layer(%h, %v) : tensor<[M]x[P]xf32>, tensor<[P]xf32>
  tcp.return(%y, %s)
}
"""
ROW = """
func @row(%x: tensor<[N]xf32>, %y: tensor<[2*N]xf32>) -> tensor<[N]xf32> symbols [N: 4..64 multiple_of 4] {
  %z = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%z)
}
"""
CALLER = """
func @main(%a: tensor<[M]xf32>, %b: tensor<[L]xf32>, %c: tensor<8x[M]xf32>) symbols [M: 4..32 multiple_of 8, L] {{
  {}
  tcp.return
}}
"""
STEP = (
    "func @{0}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  %y = tcp.call @{1}(%x) : tensor<4xf32>\n  tcp.return(%y)\n}}\n"
)


def random(*shape: int) -> npt.NDArray[np.floating]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 8


def close(found: Array | tuple[Array, ...], wanted: npt.NDArray[np.floating]) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted, rtol=1e-5)


@pytest.mark.parametrize(("m", "p"), [(0, 3), (1, 1), (5, 7), (3, 0)])
@pytest.mark.parametrize("text", [NET + LAYER, LAYER + NET], ids=["before", "behind"])
def test_values(text: str, m: int, p: int) -> None:
    x, w, v = random(m, 8), random(8, 8), random(8, p)
    y, s = tcpx.evaluate(parse(text), x, w, v)
    h = np.exp(np.matmul(x, w))
    close(y, np.exp(np.matmul(h, v)))
    close(s, h.sum(0))


def test_text_both_ways() -> None:
    module = parse(NET + LAYER)
    again = parse(module.text())
    assert again.text() == module.text()
    assert "  %h, %s = tcp.call @layer(%x, %w) : tensor<[M]x8xf32>, tensor<8xf32>\n" in module.text()
    assert [func.name for func in module.reached(module.main)] == ["layer", "net"]


def test_entry() -> None:
    assert parse(NET + LAYER).main.name == "net"
    assert parse(LAYER + NET + LAYER.replace("layer", "main")).main.name == "main"
    with pytest.raises(TcpxError) as caught:
        tcpx.evaluate(parse(LAYER + NET + LAYER.replace("layer", "other")))
    found = caught.value.diagnostic
    assert (found.message, found.required, found.found) == (
        "cannot tell which function is meant",
        "one function, one called @main, or one that no other calls",
        "@net, @other",
    )


def test_builder() -> None:
    n = Symbol("N", 1)
    b = Builder()
    with b.func("twice", {"x": tensor([n], f32)}, [n]) as (x,):
        b.returns(b.op(Exp, [x]))
    with b.func("f", {"x": tensor([n, 4], f32), "y": tensor([4], f32)}, [n]) as (_, y):
        made = b.insert(Call.of(b.module.funcs["twice"], [y]), "z")
        b.returns(made.result)
    module = b.finish()
    assert "  %z = tcp.call @twice(%y) : tensor<4xf32>\n" in module.text()
    close(tcpx.evaluate(module, random(3, 4), random(4)), np.exp(random(4)))


def test_in_a_loop() -> None:
    module = parse(
        """
func @main(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
  %o = tcp.empty : tensor<[M]x8xf32>
  %y = gml_st.parallel %i in 0 to M step 3 (%d = %o) {
    %t = gml_st.materialize(%x) tile [%i, 0] [min(3, M - %i), 8] : tensor<[min(3, M - %i)]x8xf32>
    %e = tcp.call @rows(%t) : tensor<[min(3, M - %i)]x8xf32>
    gml_st.yield(%e, %d) tile [%i, 0] [min(3, M - %i), 8]
  } : tensor<[M]x8xf32>
  tcp.return(%y)
}
func @rows(%x: tensor<[R]x8xf32>) -> tensor<[R]x8xf32> symbols [R: 0..3] {
  %y = tcp.exp(%x) : tensor<[R]x8xf32>
  tcp.return(%y)
}
"""
    )
    for m in (0, 1, 3, 7):
        close(tcpx.evaluate(module, random(m, 8)), np.exp(random(m, 8)))


def test_structure() -> None:
    module, other = parse(NET + LAYER), parse((NET + LAYER).replace("layer", "dense"))
    assert tcpx.fingerprint(module) == tcpx.fingerprint(other)
    assert structural_differences(module.main, other.main) == ()
    changed = parse((NET + LAYER).replace("tcp.exp(%y)", "tcp.silu(%y)"))
    assert tcpx.fingerprint(module) != tcpx.fingerprint(changed)
    shown = [difference.text for difference in structural_differences(module.main, changed.main)]
    assert shown == [
        "%h (tcp.call): in @layer: %e (tcp.exp) is not there any more",
        "%h (tcp.call): in @layer: %e (tcp.silu) is new",
    ]


def refused(text: str) -> Diagnostic:
    with pytest.raises(TcpxError) as caught:
        parse(text)
    return caught.value.diagnostic


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (
            "%y = tcp.call @rows(%a, %b) : tensor<[M]xf32>",
            ["there is no function @rows", "a function of the payload", "@main, @row", "did you mean @row?"],
        ),
        (
            "%y = tcp.call @row(%a) : tensor<[M]xf32>",
            [
                "@row has another number of arguments",
                "2: %x: tensor<[N]xf32>, %y: tensor<[2*N]xf32>",
                "1: %a: tensor<[M]xf32>",
            ],
        ),
        (
            "tcp.call @row(%a, %b)",
            ["a call gives something", "a result or more", "none, of @row"],
        ),
        (
            "%y, %z = tcp.call @row(%a, %b) : tensor<4xf32>, f32",
            [
                "@row has another number of results",
                "1: %z: tensor<[N]xf32>",
                "2: %y: tensor<4xf32>, %z: f32",
            ],
        ),
        (
            "%y = tcp.call @row(%c, %b) : tensor<[M]xf32>",
            ["%c is not the argument %x of @row", "rank 1: tensor<[N]xf32>", "rank 2: tensor<8x[M]xf32>"],
        ),
        (
            "%y = tcp.call @row(%a, %b) : tensor<[M]xf32>",
            ["%b is not the argument %y of @row", "tensor<[2*N]xf32>", "tensor<[L]xf32>"],
        ),
        (
            "%y = tcp.call @row(%b, %a) : tensor<[L]xf32>",
            [
                "the size `N` of @row is not known to be in its range",
                "4..64 multiple_of 4",
                "N = L",
                "declare the range in @main",
            ],
        ),
        (
            "%d = tcp.const {value = 1.0} : tensor<6xf32>\n  %e = tcp.const {value = 1.0} : tensor<12xf32>\n"
            "  %y = tcp.call @row(%d, %e) : tensor<6xf32>",
            ["the size `N` of @row is not known to be in its range", "4..64 multiple_of 4", "N = 6"],
        ),
        (
            "%d = tcp.const {value = 1.0} : tensor<8xf32>\n  %e = tcp.const {value = 1.0} : tensor<16xf32>\n"
            "  %y = tcp.call @row(%d, %e) : tensor<9xf32>",
            [
                "%y is not the result %z of @row",
                "tensor<[N]xf32>, where N = 8",
                "tensor<9xf32>",
                "write tensor<8xf32>",
            ],
        ),
    ],
)
def test_refusals(call: str, lines: Sequence[str]) -> None:
    found = refused(CALLER.format(call) + ROW)
    assert found.message.partition(": ")[2] == lines[0]
    assert (found.required, found.found) == tuple(lines[1:3])
    if len(lines) > 3:
        assert found.fix == lines[3]
    assert found.payload is not None


def test_what_is_not_proved_is_said_so() -> None:
    text = CALLER.format("%y = tcp.call @row(%b, %a) : tensor<[L]xf32>") + ROW
    with pytest.raises(UnprovenError):
        parse(text)


def test_a_branch_proves_a_range() -> None:
    text = """
func @main(%a: tensor<[L]xf32>, %b: tensor<[2*L]xf32>) -> tensor<[L]xf32> symbols [L: 0..128 multiple_of 4] {
  %y = gml_st.if L >= 4 and L <= 64 {
    %z = tcp.call @row(%a, %b) : tensor<[L]xf32>
    tcp.yield(%z)
  } else {
    tcp.yield(%a)
  } : tensor<[L]xf32>
  tcp.return(%y)
}
"""
    a = random(8)
    close(tcpx.evaluate(parse(text + ROW), a, random(16)), np.exp(a))
    assert "is not known to be in its range" in refused(text.replace(" and L <= 64", "") + ROW).message


def test_no_recursion() -> None:
    found = refused(STEP.format("a", "b") + STEP.format("b", "c") + STEP.format("c", "b"))
    assert found.message == "%y (tcp.call): a function does not call itself"
    assert (found.required, found.found) == ("calls that come to an end", "@b calls @c calls @b")
    found = refused(STEP.format("a", "a"))
    assert found.message == "%y (tcp.call): a function does not call itself"
    assert found.found == "@a calls @a"
    last = "func @f{0}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  tcp.return(%x)\n}}\n"
    chain = [STEP.format(f"f{k}", f"f{k + 1}") for k in range(DEEPEST_CALLS)]
    parse("".join(chain) + last.format(DEEPEST_CALLS))
    chain.append(STEP.format(f"f{DEEPEST_CALLS}", f"f{DEEPEST_CALLS + 1}"))
    found = refused("".join(chain) + last.format(DEEPEST_CALLS + 1))
    assert found.message == "%y (tcp.call): the calls stand too deep within one another"
    assert (found.required, found.found) == (f"at most {DEEPEST_CALLS} calls within one another", "more than that")


def test_numbers_are_tensors() -> None:
    text = """
func @main(%x: f32) {
  %y = tcp.call @f(%x) : f32
  tcp.return
}
func @f(%x: f32) -> f32 {
  tcp.return(%x)
}
"""
    found = refused(text)
    assert found.message == "%y (tcp.call): a call takes and gives tensors"
    assert (found.required, found.found) == ("tensor<f32> for a number", "the argument %x of @f: f32")


def test_only_calls_name_a_function() -> None:
    found = refused("func @f(%x: tensor<4xf32>) {\n  %y = tcp.exp @f(%x) : tensor<4xf32>\n  tcp.return\n}\n")
    assert (found.message, found.required, found.found) == ("tcp.exp calls no function", "operands", "@f")
    found = refused("func @f(%x: tensor<4xf32>) {\n  %y = tcp.call(%x) : tensor<4xf32>\n  tcp.return\n}\n")
    assert found.message == "%y (tcp.call): the attribute `callee` is missing"


ROWS = """\
func @main(%x: buffer<4x8xf32, strides [8, 1], space argument>, %out: buffer<6x8xf32, strides [8, 1], space result>)
    {results = 1} {
  buffer.row @row(%x, %out) {sizes = [4], tiles = [tile [0, 0] [4, 8], tile [1, 0] [4, 8]]}
  tcp.return
}

func @row(%a: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M: 0..4] {row = "row"} {
  %r = tcp.add(%a, %a) : tensor<[M]x8xf32>
  tcp.return(%r)
}
"""


def test_a_row_works_on_parts_of_buffers() -> None:
    module = parse(ROWS)
    assert module.main.name == "main"
    assert parse(module.text()).text() == module.text()
    assert module.reached(module.main) == [module.main]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    (out,) = evaluate_func(module, module.main, [x])
    np.testing.assert_array_equal(out[1:5], 2 * x)
    assert np.isnan(out[[0, 5]]).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('{row = "row"} ', "", "@row stands for no row of the target"),
        ("(%x, %out)", "(%x)", "the row row has another number of operands, tiles or sizes"),
        ("sizes = [4]", "sizes = [4, 4]", "the row row has another number of operands, tiles or sizes"),
        ("sizes = [4]", "sizes = [5]", "the size `M` of @row is not known to be in its range"),
        ("tile [1, 0] [4, 8]", "tile [1] [4]", "a row works on parts of buffers"),
        ("tile [1, 0] [4, 8]", "tile [1, 0] [3, 8]", "%out is not the result of the row row"),
        ("6x8xf32, strides [8, 1]", "6x8xf32, strides [9, 1]", "%out does not lie as the row row takes the result"),
        ('{row = "row"}', '{row = "row", alignment = [16]}', "%a of the row row is not known to be aligned"),
        ('{row = "row"}', '{row = "row", in_place = 0}', "the row row has another number of operands, tiles or sizes"),
        ("@row(%x,", "@rows(%x,", "there is no function @rows"),
    ],
)
def test_rows_on_buffers_are_checked(old: str, new: str, message: str) -> None:
    assert ROWS.count(old) == 1
    with pytest.raises(VerifyError) as caught:
        parse(ROWS.replace(old, new))
    assert message in caught.value.diagnostic.message


def test_a_row_is_written_over_an_argument_it_has() -> None:
    text = """\
func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tcp.call @row(%x) : tensor<4xf32>
  tcp.return(%y)
}

func @row(%a: tensor<4xf32>) -> tensor<4xf32> {row = "row", in_place = 1} {
  %r = tcp.add(%a, %a) : tensor<4xf32>
  tcp.return(%r)
}
"""
    with pytest.raises(VerifyError, match="@row writes its result over an argument that it has not"):
        parse(text)
    module = parse(text.replace("in_place = 1", "in_place = 0"))
    np.testing.assert_array_equal(tcpx.evaluate(module, np.ones(4, np.float32)), np.full(4, 2, np.float32))


def test_calls_that_come_and_go_are_seen() -> None:
    module = parse(NET + LAYER)
    net, rewriter = module.main, Rewriter(module)
    first, *others = net.call_operations()
    mark = rewriter.mark()
    copy = rewriter.clone(first, InsertPoint.after(first), CloneMap())
    assert net.call_operations() == (first, copy, *others)
    rewriter.erase(copy)
    assert net.call_operations() == (first, *others)
    rewriter.rollback(mark)
    assert net.call_operations() == (first, *others)
    assert module.funcs["layer"].callers() == [first, *others]
