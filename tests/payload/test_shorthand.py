"""Operations that are written for others: what text and builder make of them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.builder import Builder, tensor
from tcpx.payload.diagnostics import TcpxError, VerifyError
from tcpx.payload.ops.shorthand import Repeat, Split, TileOfAll
from tcpx.payload.sizes import Symbol
from tcpx.payload.text.parser import parse
from tcpx.payload.types import f32
from tests.comparison import structurally_equal

FUNCTION = """func @f(%x: tensor<[N]x[M]xf32>, %r: index as [R]) -> (RESULTS) symbols [N: 2.., M, R: 0..5] {
  STATEMENT
  tcp.return(VALUES)
}
"""


def function(statement: str) -> str:
    values, _, rest = statement.partition(" = ")
    types = rest.split("} : ")[1].split(" name ")[0]
    return FUNCTION.replace("STATEMENT", statement).replace("VALUES", values).replace("RESULTS", types)


ROWS, REST = "tensor<2x[M]xf32>", "tensor<[N - 2]x[M]xf32>"
SPLIT = f"%a, %b = tcp.split(%x) {{dim = 0}} : {ROWS}, {REST}"
TILE = "%y = tcp.tile(%x) {repeats = [3, R]} : tensor<[3*N]x[M*R]xf32>"
REPEAT = "%y = tcp.repeat(%x) {dim = 1, repeats = R} : tensor<[N]x[M*R]xf32>"


@pytest.mark.parametrize(
    ("statement", "of"),
    [
        (SPLIT, lambda x, r: np.split(x, [2])),
        (TILE, lambda x, r: [np.tile(x, (3, r))]),
        (REPEAT, lambda x, r: [np.repeat(x, r, 1)]),
        (f"{REPEAT} name \"often\"", lambda x, r: [np.repeat(x, r, 1)]),
        ("%y = tcp.tile(%x) {repeats = [1, 1]} : tensor<[N]x[M]xf32>", lambda x, r: [x]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("shape", "times"), [((2, 3), 2), ((5, 17), 3), ((3, 0), 1), ((4, 5), 0)])
def test_is_what_numpy_computes(statement: str, of, shape: tuple[int, int], times: int) -> None:
    module = parse(function(statement))
    assert module.text() == parse(module.text()).text()
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    wanted = of(x, times)
    for found in (tcpx.evaluate(module, x, np.asarray(times)), tcpx.compile(module, target="generic")(x, times)):
        for a, b in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_they_stand_for() -> None:
    assert structurally_equal(parse(function(SPLIT)), parse(
        function(SPLIT).replace(
            SPLIT,
            f"%a = tcp.slice(%x) {{offsets = [0, 0]}} : {ROWS}\n"
            f"  %b = tcp.slice(%x) {{offsets = [2, 0]}} : {REST}",
        )
    )) is None  # fmt: skip
    ops = parse(function(f'{TILE} name "all"')).main.body.ops
    assert [(op.opcode, op.name) for op in ops[:-1]] == [("tcp.broadcast", "y.wide"), ("tcp.reshape", "all")]
    assert [str(op.location)[:8] for op in ops[:2]] == ["<text>:2"] * 2


def test_builder_makes_the_same() -> None:
    n, m, r = Symbol("N", 2), Symbol("M"), Symbol("R", 0, 5)
    for statement, cls, attributes in (
        (TILE, TileOfAll, {"repeats": (3, r)}),
        (REPEAT, Repeat, {"dim": 1, "repeats": r}),
        (SPLIT, Split, {"dim": 0}),
    ):
        module, b = parse(function(statement)), Builder()
        given = {value.name: value.type for value in module.main.args}
        with b.func("f", given, [n, m, r], **module.main.attributes) as (x, _):
            names = [value.name for value in module.main.returned]
            b.returns(*b.values(cls([x], [v.type for v in module.main.returned], attributes), *names))
        assert structurally_equal(b.finish(), module) is None
    with b.func("g", {"x": tensor([4, 2], f32)}, []) as (x,):
        b.returns(b.op(Repeat, [x], tensor([8, 2], f32), dim=0, repeats=2))
    b.finish()


def test_no_payload_has_one() -> None:
    b = Builder()
    with b.func("f", {"x": tensor([4], f32)}) as (x,):
        b.returns(b.insert(TileOfAll([x], [tensor([8], f32)], {"repeats": (2,)})).result)
    with pytest.raises(VerifyError, match="is written for others, and no payload has it"):
        b.finish()


@pytest.mark.parametrize(
    ("statement", "message", "required", "found", "fix"),
    [
        (SPLIT.replace("2x[M]xf32>,", "1x[M]xf32>,"), "the parts are not as long as dim 0 of %x", "N elements",
         "N - 1: %a: tensor<1x[M]xf32>, %b: tensor<[N - 2]x[M]xf32>", None),
        (SPLIT.replace("2x[M]xf32>,", "2x3xf32>,"), "%a has another type than what it is", ROWS, "tensor<2x3xf32>",
         f"write `: {ROWS}, tensor<[N - 2]x[M]xf32>`"),
        (SPLIT.replace("dim = 0", "dim = 2"), "`dim` is a dim of the operand", "0 or more, and below 2", "2", None),
        (TILE.replace("[3, R]", "[3]"), "`repeats` has a number for each dim", "2 of them", "[3]",
         "{repeats = [1, 2]}"),
        (TILE.replace("[3, R]", "[3, 4]"), "%y has another type than what it is", "tensor<[3*N]x[4*M]xf32>",
         "tensor<[3*N]x[M*R]xf32>", "write `: tensor<[3*N]x[4*M]xf32>`"),
        (REPEAT.replace("repeats = R", "repeats = R - 1").replace("M*R", "M*(R - 1)"),
         "nothing is there fewer than 0 times", "0 or more", "1, R - 1", None),
        (REPEAT.replace("dim = 1, ", ""), "the attribute `dim` is missing", "an int", "no `dim`", "{dim = 0}"),
    ],
)  # fmt: skip
def test_refused(statement: str, message: str, required: str, found: str, fix: str | None) -> None:
    with pytest.raises(TcpxError) as caught:
        parse(function(statement))
    error = caught.value.diagnostic
    assert (error.message.split("): ")[1], error.required, error.found, error.fix) == (message, required, found, fix)
    assert error.payload is not None
    assert error.payload.line == 2


def test_a_name_is_of_one_operation() -> None:
    with pytest.raises(TcpxError) as caught:
        parse(function(f'{SPLIT} name "parts"'))
    assert caught.value.diagnostic.message == "tcp.split is written for 2 operations, which have one name each"
