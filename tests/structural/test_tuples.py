"""Reductions to several results and cumulative operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.text.parser import parse
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers

FILLED = ((7, 33), (3, 8), (1, 1), (0, 4))
SHAPES = (*FILLED, (3, 0))
SPECIAL = (np.nan, np.inf, -np.inf, -0.0)


def _reduced(opcode: str, dims: str, kept: str, results: Sequence[str], dtype: str = "f32", least: int = 1) -> str:
    wide, types = f"tensor<[M]x[N]x{dtype}>", [f"tensor<{kept}{r}>" for r in results]
    names = [f"%v{k}" if k else "%v" for k in range(len(types))]
    producer = "mul" if dtype == "f32" else "add"
    return (
        f"func @f(%x: {wide}) -> ({', '.join(types)}) symbols [M: {least}.., N: {least}..] {{\n"
        f"  %p = tcp.{producer}(%x, %x) : {wide}\n"
        f"  {', '.join(names)} = {opcode}(%p) {{dims = {dims}}} : {', '.join(types)}\n"
        f"  %c = tcp.add({names[-1]}, {names[-1]}) : {types[-1]}\n"
        f"  tcp.return({', '.join([*names[:-1], '%c'])})\n}}\n"
    )


def _calls(
    shapes: Sequence[tuple[int, int]], dtype: str = "float32", special: Sequence[float] = ()
) -> list[list[Array]]:
    return [[numbers(*shape, dtype=dtype, special=special)] for shape in shapes]


def _arg(of: str, axis: int | None, produce: Callable[[Array], Array] = np.square) -> Callable[[Array], list[Array]]:
    def wanted(x: Array) -> list[Array]:
        made = produce(x)
        return [getattr(np, of)(made, axis), 2 * np.asarray(getattr(np, f"arg{of}")(made, axis))]

    return wanted


def _moments(axis: tuple[int, ...]) -> Callable[[Array], list[Array]]:
    def wanted(x: Array) -> list[Array]:
        square = np.square(x).astype(np.float64)
        count = np.prod([x.shape[k] for k in axis])
        mean = np.sum(square, axis) / max(1, count)
        squares = np.sum((square - np.expand_dims(mean, axis)) ** 2, axis)
        return [np.full(mean.shape, float(count)), mean, 2 * squares]

    return wanted


def _scan(opcode: str, dim: int, dtype: str = "f32", attributes: str = "", init: bool = False) -> str:
    wide, kept = f"tensor<[M]x[N]x{dtype}>", f"tensor<[{'MN'[1 - dim]}]x{dtype}>"
    start, argument = (", init = (%p, %z)", f", %z: {kept}") if init else ("", "")
    return (
        f"func @f(%x: {wide}{argument}) -> ({wide}, {kept}) symbols [M, N] {{\n  %p = tcp.add(%x, %x) : {wide}\n"
        f"  %v, %w = {opcode}(%p{start}) {{dim = {dim}{attributes}}} : {wide}, {kept}\n"
        f"  %c = tcp.add(%v, %x) : {wide}\n  tcp.return(%c, %w)\n}}\n"
    )


def _scanned(ufunc: np.ufunc, dim: int, start: float, exclusive: bool = False) -> Callable[..., list[Array]]:
    def wanted(x: Array, *init: Array) -> list[Array]:
        first = init[0] if init else np.full(np.delete(x.shape, dim), start).astype(x.dtype)
        made = ufunc.accumulate(np.concatenate([np.expand_dims(first, dim), x + x], dim), dim, dtype=x.dtype)
        return [np.delete(made, -1 if exclusive else 0, dim) + x, np.take(made, -1, dim)]

    return wanted


THREE = ("f32", "f32", "f32")
FEW = ("tiled", "vectorized", "default")
CASES = {
    "argmax of rows": Case(
        _reduced("tcp.reduce_argmax", "[1]", "[M]x", ("f32", "si64")),
        _arg("max", 1),
        _calls(FILLED[:3], special=SPECIAL),
    ),
    "argmax of columns": Case(
        _reduced("tcp.reduce_argmax", "[0]", "[N]x", ("si8", "si32"), "si8"),
        _arg("max", 0, lambda x: x + x),
        _calls(FILLED[:3], "int8"),
        columns=FEW,
    ),
    "argmin of all": Case(
        _reduced("tcp.reduce_argmin", "[0, 1]", "", ("f32", "si64")), _arg("min", None), _calls(FILLED[:3]), columns=FEW
    ),
    "argmin of rows": Case(
        _reduced("tcp.reduce_argmin", "[1]", "[M]x", ("f32", "si64")),
        _arg("min", 1),
        _calls(FILLED[:3], special=(np.nan,)),
        columns=FEW,
    ),
    "moments of rows": Case(
        _reduced("tcp.reduce_moments", "[1]", "[M]x", THREE, least=0), _moments((1,)), _calls(SHAPES), 1e-5
    ),
    "moments of all": Case(
        _reduced("tcp.reduce_moments", "[0, 1]", "", THREE, least=0), _moments((0, 1)), _calls(SHAPES), 1e-5, {}, FEW
    ),
    "cumsum along rows": Case(_scan("tcp.cumsum", 1), _scanned(np.add, 1, 0), _calls(SHAPES)),
    "cumsum along columns": Case(
        _scan("tcp.cumsum", 0, "si16", init=True),
        _scanned(np.add, 0, 0),
        [[numbers(m, n, dtype="int16"), numbers(n, dtype="int16")] for m, n in SHAPES],
        columns=FEW,
    ),
    "cumsum before each": Case(
        _scan("tcp.cumsum", 1, attributes=", exclusive = true"),
        _scanned(np.add, 1, 0, exclusive=True),
        _calls(SHAPES),
        columns=FEW,
    ),
    "cumprod": Case(_scan("tcp.cumprod", 1, "si32"), _scanned(np.multiply, 1, 1), _calls(SHAPES, "int32"), columns=FEW),
    "cummax": Case(
        _scan("tcp.cummax", 0),
        _scanned(np.maximum, 0, -np.inf),
        _calls(SHAPES, special=(np.nan,)),
        columns=FEW,
    ),
    "cummin": Case(_scan("tcp.cummin", 1, "ui8"), _scanned(np.minimum, 1, 255), _calls(SHAPES, "uint8"), columns=FEW),
}


@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


@pytest.mark.parametrize("part", [0, 1])
def test_columns(part: int) -> None:
    check_columns(dict([*CASES.items()][part::2]))


def _message(text: str) -> tuple[str, str | None, str | None, str | None]:
    with pytest.raises(TcpxError) as caught:
        parse(text)
    diagnostic = caught.value.diagnostic
    return diagnostic.message, diagnostic.required, diagnostic.found, diagnostic.fix


def test_nothing_has_no_first_element() -> None:
    assert _message(_reduced("tcp.reduce_argmax", "[1]", "[M]x", ("f32", "si64"), least=0)) == (
        "%v (tcp.reduce_argmax): dim 1 of %p may be empty, and nothing has no first element",
        "an extent of at least 1",
        "N",
        "symbols [N: 1..]",
    )


@pytest.mark.parametrize(
    ("results", "error"),
    [
        (("f64", "si64"), ("the values are elements of the operand", "f32", "f64", "insert a tcp.cast")),
        (("f32", "f32"), ("the second result is an index", "integers", "f32", None)),
    ],
)
def test_results_of_argmax(results: Sequence[str], error: tuple[str, str, str, str | None]) -> None:
    text = _reduced("tcp.reduce_argmax", "[1]", "[M]x", results)
    assert _message(text) == (f"%v (tcp.reduce_argmax): {error[0]}", *error[1:])


def test_dims_rise() -> None:
    assert _message(_reduced("tcp.reduce_moments", "[1, -2]", "", THREE)) == (
        "%v (tcp.reduce_moments): `dims` names dims of the operand, in their order",
        "rising dims, 0 or more, and below 2",
        "[1, -2]",
        "{dims = [0, 1]}",
    )


def test_moments_are_counted_in_floats() -> None:
    assert _message(_reduced("tcp.reduce_moments", "[1]", "[M]x", ("f16", "f16", "f16")))[:3] == (
        "%v (tcp.reduce_moments): the results have one float type that counts", "f32 or f64", "f16, f16, f16"
    )  # fmt: skip


def test_results_of_a_scan_have_one_dtype() -> None:
    text = _scan("tcp.cumsum", 1).replace("tensor<[M]xf32>", "tensor<[M]xf64>")
    assert _message(text)[:3] == ("%v (tcp.cumsum): the results have one dtype", "f64", "f32")


def test_dim_of_a_scan() -> None:
    assert _message(_scan("tcp.cumsum", 1).replace("dim = 1", "dim = -1")) == (
        "%v (tcp.cumsum): `dim` is a dim of the operand", "0 or more, and below 2", "-1", "{dim = 1}"
    )  # fmt: skip
