"""Reductions over any dims: minimum, product, any, all."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.text.parser import parse
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers

SHAPES = ((7, 33), (3, 8), (1, 1), (0, 4), (3, 0))


def _reduced(opcode: str, dims: str, kept: str, dtype: str = "f32", result: str = "", producer: str = "mul") -> str:
    wide = f"tensor<[M]x[N]x{dtype}>"
    made = f"tensor<{kept}{result or dtype}>"
    return (
        f"func @f(%x: {wide}) -> {made} symbols [M, N] {{\n  %p = tcp.{producer}(%x, %x) : {wide}\n"
        f"  %v = {opcode}(%p) {{dims = {dims}}} : {made}\n  %c = tcp.max(%v, %v) : {made}\n  tcp.return(%c)\n}}\n"
    )


def _calls(dtype: str = "float32", special: tuple[float, ...] = ()) -> list[list[Array]]:
    return [[numbers(*shape, dtype=dtype, special=special)] for shape in SHAPES]


FEW = ("tiled", "vectorized", "default")
CASES = {
    "min of rows": Case(
        _reduced("tcp.reduce_min", "[1]", "[M]x"),
        lambda x: [np.min(x * x, 1, initial=np.inf)],
        _calls(special=(np.nan, np.inf)),
    ),
    "min of columns": Case(
        _reduced("tcp.reduce_min", "[0]", "[N]x", "si8", producer="add"),
        lambda x: [np.min(x + x, 0, initial=127)],
        _calls("int8"),
        columns=FEW,
    ),
    "min of nothing but all": Case(
        _reduced("tcp.reduce_min", "[0, 1]", "", "ui64", producer="add"),
        lambda x: [np.min(x + x, initial=2**64 - 1)],
        _calls("uint64"),
        columns=FEW,
    ),
    "product of rows": Case(
        _reduced("tcp.reduce_prod", "[1]", "[M]x"),
        lambda x: [np.prod((x * x).astype(np.float64), 1)],
        _calls(),
        tolerance=1e-5,
        columns=FEW,
    ),
    "product that wraps": Case(
        _reduced("tcp.reduce_prod", "[0]", "[N]x", "si32", producer="add"),
        lambda x: [np.prod(x + x, 0, dtype=np.int32)],
        _calls("int32"),
        columns=FEW,
    ),
    "any of rows": Case(
        _reduced("tcp.reduce_any", "[1]", "[M]x", "f32", "i1"), lambda x: [np.any(x * x, 1)], _calls(special=(np.nan,))
    ),
    "any of truth values": Case(
        _reduced("tcp.reduce_any", "[0]", "[N]x", "i1"), lambda x: [np.any(x, 0)], _calls("bool"), columns=FEW
    ),
    "all of rows": Case(
        _reduced("tcp.reduce_all", "[1]", "[M]x", "si16", "i1", "add"),
        lambda x: [np.all(x, 1)],
        _calls("int16"),
        columns=FEW,
    ),
    "all of all": Case(
        _reduced("tcp.reduce_all", "[0, 1]", "", "i1"), lambda x: [np.all(x)], _calls("bool"), columns=FEW
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


def test_columns() -> None:
    check_columns(CASES)


def test_truth_is_the_result() -> None:
    with pytest.raises(TcpxError) as caught:
        parse(_reduced("tcp.reduce_any", "[1]", "[M]x"))
    diagnostic = caught.value.diagnostic
    assert diagnostic.message == "%v (tcp.reduce_any): the result is a truth value"
    assert (diagnostic.required, diagnostic.found) == ("i1", "tensor<[M]xf32>")
    assert diagnostic.fix == "write `: tensor<[M]xi1>`"
