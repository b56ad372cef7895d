"""Numbers and broadcasts as operands: what they stand for, how they are printed, and what is refused."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tcpx
from tcpx.payload.builder import Builder, broadcast, tensor
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.ops.elementwise import Add, Max
from tcpx.payload.ops.reduce import ReduceSum
from tcpx.payload.short_operands import number_text
from tcpx.payload.sizes import Symbol
from tcpx.payload.text.parser import load, parse
from tcpx.payload.types import SCALARS, ScalarKind, f32, i1
from tests.comparison import structurally_equal

SAMPLE = Path(__file__).parent / "samples" / "short.tcp"
HEAD = "func @f(%x: tensor<[N]x8xf32>, %b: tensor<8xf32>, %c: tensor<[N]x8xi1>) -> tensor<[N]x8xf32> symbols [N] {\n"
WIDE = "tensor<[N]x8xf32>"


def function(*statements: str) -> str:
    return HEAD + "".join(f"  {s}\n" for s in statements) + "  tcp.return(%y)\n}\n"


def test_sample_is_printed_as_it_is_written() -> None:
    module = load(SAMPLE)
    text = module.text()
    assert text == SAMPLE.read_text(encoding="utf-8")
    assert structurally_equal(module, parse(text)) is None


def test_what_they_stand_for() -> None:
    short = function(f"%y = tcp.clamp(broadcast(%b, [1]), 0, 1.5) : {WIDE}")
    long = function(
        f"%y.a = tcp.broadcast(%b) {{dims = [1]}} : {WIDE}",
        f"%y.low = tcp.fill {{value = 0.0}} : {WIDE}",
        f"%y.high = tcp.fill {{value = 1.5}} : {WIDE}",
        f"%y = tcp.clamp(%y.a, %y.low, %y.high) : {WIDE}",
    )
    assert [op.name for op in parse(short).main.body.ops[:-1]] == [op.name for op in parse(long).main.body.ops[:-1]]
    assert structurally_equal(parse(short), parse(long)) is None
    assert parse(long).text() == short.replace("0, 1.5", "0.0, 1.5")
    x, b = np.zeros((3, 8), np.float32), np.linspace(-1, 2, 8, dtype=np.float32)
    found = tcpx.evaluate(parse(short), x, b, np.zeros((3, 8), bool))
    np.testing.assert_array_equal(np.asarray(found), np.broadcast_to(np.clip(b, 0, 1.5), (3, 8)))


@pytest.mark.parametrize(
    "statements",
    [
        # another name, a name of its own, between other operations, used twice, an operand twice, another order
        (f"%one = tcp.fill {{value = 1.0}} : {WIDE}", f"%y = tcp.add(%x, %one) : {WIDE}"),
        (f'%y.rhs = tcp.fill {{value = 1.0}} : {WIDE} name "one"', f"%y = tcp.add(%x, %y.rhs) : {WIDE}"),
        (
            f"%y.rhs = tcp.fill {{value = 1.0}} : {WIDE}",
            f"%z = tcp.exp(%x) : {WIDE}",
            f"%y = tcp.add(%z, %y.rhs) : {WIDE}",
        ),
        (
            f"%y.rhs = tcp.fill {{value = 1.0}} : {WIDE}",
            f"%y = tcp.add(%x, %y.rhs) : {WIDE}",
            f"%z = tcp.add(%y, %y.rhs) : {WIDE}",
        ),
        (f"%y.lhs = tcp.fill {{value = 1.0}} : {WIDE}", f"%y = tcp.add(%y.lhs, %y.lhs) : {WIDE}"),
        (
            f"%y.high = tcp.fill {{value = 2.0}} : {WIDE}",
            f"%y.low = tcp.fill {{value = 1.0}} : {WIDE}",
            f"%y = tcp.clamp(%x, %y.low, %y.high) : {WIDE}",
        ),
        (f"%y.rhs = tcp.fill {{value = 1}} : {WIDE}", f"%y = tcp.add(%x, %y.rhs) : {WIDE}"),
    ],
)
def test_what_is_written_out_stays_so(statements: tuple[str, ...]) -> None:
    text = function(*statements)
    assert parse(text).text() == text


def test_names_that_are_taken() -> None:
    text = function(f"%y.rhs = tcp.exp(%x) : {WIDE}", f"%y = tcp.add(%y.rhs, 1.0) : {WIDE}")
    module = parse(text)
    assert [op.name for op in module.main.body.ops[:-1]] == ["y.rhs", "y.rhs1", "y"]
    assert parse(module.text()).text() == module.text()
    two = text + text.replace("@f", "@g").replace("%y.rhs", "%z")
    assert parse(two).funcs["g"].body.ops[1].name == "y.rhs"


@pytest.mark.parametrize(
    ("statement", "message", "span", "fix"),
    [
        (f"%y = tcp.add(%x, 1e39) : {WIDE}", "the value of a constant is one of its type f32", "1e39", None),
        (f"%y = tcp.add(%x, b) : {WIDE}", "`b` is no operand", "b", "write %b"),
        (f"%y = tcp.add(%x, -nan) : {WIDE}", "`-nan` is no operand", "-nan", None),
        (f"%y = tcp.add(%x, true) : {WIDE}", "a truth value is no f32", "true", None),
        (
            "%y = tcp.less(1.0, 2.0) : tensor<[N]x8xi1>",
            "no dtype follows for the number 1.0",
            "1.0",
            "write `%c = tcp.fill {value = 1.0} : TYPE` before it, and %c in its place",
        ),
        (
            "%y = tcp.reduce_sum(1.0) {dims = [1]} : tensor<[N]xf32>",
            "tcp.reduce_sum has no operands that are written in place",
            "1.0",
            "write `%c = tcp.fill {value = 1.0} : TYPE` before it, and %c in its place",
        ),
        (
            f"%y = tcp.softmax(broadcast(%b, [1])) {{dim = 1}} : {WIDE}",
            "tcp.softmax has no operands that are written in place",
            "broadcast(%b, [1])",
            "write `%c = tcp.broadcast(%b) {dims = [1]} : TYPE` before it, and %c in its place",
        ),
        (f"%y = tcp.fill(inf) : {WIDE}", "tcp.fill has no operands that are written in place", "inf",
         "write tcp.fill {value = inf}"),
        (
            f"%y = tcp.add(%x, exp(%b, [1])) : {WIDE}",
            "`exp` is written in a statement of its own",
            "exp(%b, [1])",
            "write `%c = tcp.exp(%b) : TYPE` before it, and %c in its place",
        ),
        (f"%y = tcp.add(%x, broadcast(%b, [2])) : {WIDE}", "`dims` places each operand dim in the result",
         "broadcast(%b, [2])", None),
        (f"%y = tcp.add(%x, broadcast(%b, [0])) : {WIDE}",
         "dim 0 of `operand` does not agree with `d0`", "broadcast(%b, [0])", "broadcast(%b, [1])"),
    ],
)  # fmt: skip
def test_refused(statement: str, message: str, span: str, fix: str | None) -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        parse(function(statement))
    found = caught.value.diagnostic
    assert found.message.rpartition("): ")[2] == message
    assert found.payload is not None
    assert found.payload.span == span
    assert found.fix == fix


def test_builder() -> None:
    n = Symbol("N")
    b = Builder()
    with b.func("f", {"x": tensor([n, 8], f32), "b": tensor([8], f32)}, [n]) as (x, bias):
        s = b.op(Add, [x, broadcast(bias, [1])], name="s")
        b.returns(b.op(Max, [0, s]))
    text = b.finish().text()
    assert "%s = tcp.add(%x, broadcast(%b, [1])) : tensor<[N]x8xf32>\n  %max = tcp.max(0.0, %s) :" in text
    assert parse(text).text() == text
    with b.func("g", {"x": tensor([n, 8], f32)}, [n]) as (x,), pytest.raises(VerifyError) as caught:
        b.op(ReduceSum, [1.0], x.type)
    assert caught.value.diagnostic.message == "tcp.reduce_sum has no operands that are written in place"


@given(st.data())
def test_every_number_of_every_dtype_is_read_as_printed(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([d for d in SCALARS.values() if d.kind is not ScalarKind.INDEX]))
    if dtype.is_float:
        most = float(ml_dtypes.finfo(dtype.numpy).max)
        number: float | int | bool = data.draw(st.floats(-most, most) | st.sampled_from([inf, -inf, nan, -0.0]))
    else:
        number = data.draw(st.integers(int(dtype.minimum), int(dtype.maximum)))
        number = bool(number) if dtype == i1 else number
    b = Builder()
    with b.func("f", {"x": tensor([3], dtype)}) as (x,):
        b.returns(b.op(Add, [x, number], name="y"))
    module = b.finish()
    text = module.text()
    assert f"tcp.add(%x, {number_text(number)})" in text
    assert structurally_equal(module, parse(text)) is None
    assert parse(text).text() == text


def test_a_long_sum_beside_a_number() -> None:
    """Names that are free are looked for in syntax of any depth."""
    extent = " + ".join(["N", *["1"] * 2000])
    module = parse(
        f"func @f(%x: tensor<[{extent}]xf32>) -> tensor<[N + 2000]xf32> symbols [N] {{\n"
        f"  %y = tcp.add(%x, 1.0) : tensor<[{extent}]xf32>\n  tcp.return(%y)\n}}\n"
    )
    assert "tcp.add" in module.text()
