"""Reductions made of sums: mean, variance, Euclidean norm; what 16 bits are added up in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tests.guard_pages import run_guarded
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers

SHAPES = ((7, 33), (3, 8), (1, 1), (2, 1))
FEW = ("default", "decomposed")


def _reduced(opcode: str, dims: str, kept: str, dtype: str = "f32", result: str = "", more: str = "") -> str:
    wide, made = f"tensor<[M]x[N]x{dtype}>", f"tensor<{kept}{result or dtype}>"
    return (
        f"func @f(%x: {wide}) -> {made} symbols [M, N] {{\n  %p = tcp.add(%x, %x) : {wide}\n"
        f"  %v = {opcode}(%p) {{dims = {dims}{more}}} : {made}\n  %c = tcp.max(%v, %v) : {made}\n  tcp.return(%c)\n}}\n"
    )


def _calls(dtype: str = "float32", empty: bool = True) -> list[list[Array]]:
    return [[numbers(*shape, dtype=dtype)] for shape in (*SHAPES, *(((0, 4), (3, 0)) if empty else ()))]


def _of(function: Callable[..., Any], axis: int | tuple[int, ...], **more: int) -> Callable[[Array], list[Any]]:
    return lambda x: [function((x + x).astype(np.float64), axis=axis, **more)]


def _norm(x: Array, axis: int | tuple[int, ...]) -> Array:
    return np.asarray(np.sqrt(np.sum(x * x, axis=axis)))


def _powers(x: Array) -> list[Any]:
    with np.errstate(all="ignore"):
        return [np.log(np.sum(np.exp((x + x).astype(np.float64)), 1))]


def _infinite() -> Array:
    """Rows of -inf, of inf, of both, and of numbers whose powers are no f32."""
    return np.array([[-np.inf] * 2, [np.inf, 1], [-np.inf, np.inf], [200, 201], [-300, 0]], np.float32)


CASES = {
    "mean of rows": Case(_reduced("tcp.reduce_mean", "[1]", "[M]x"), _of(np.mean, 1), _calls(), 1e-5),
    "mean of all": Case(_reduced("tcp.reduce_mean", "[0, 1]", ""), _of(np.mean, (0, 1)), _calls(), 1e-5, columns=FEW),
    "mean of bytes": Case(
        _reduced("tcp.reduce_mean", "[0]", "[N]x", "si8", "f64"), _of(np.mean, 0), _calls("int8"), 1e-12, columns=FEW
    ),
    "mean of f16": Case(
        _reduced("tcp.reduce_mean", "[0]", "[N]x", "f16"), _of(np.mean, 0), _calls("float16"), 1e-3, columns=FEW
    ),
    "variance of rows": Case(_reduced("tcp.reduce_variance", "[1]", "[M]x"), _of(np.var, 1), _calls(), 1e-5),
    "variance of samples": Case(
        _reduced("tcp.reduce_variance", "[0]", "[N]x", more=", correction = 1"),
        _of(np.var, 0, ddof=1),
        _calls(),
        1e-5,
        columns=FEW,
    ),
    "variance of bf16": Case(
        _reduced("tcp.reduce_variance", "[0, 1]", "", "bf16"),
        _of(np.var, (0, 1)),
        _calls("bfloat16"),
        1e-2,
        columns=FEW,
    ),
    "length of rows": Case(_reduced("tcp.reduce_l2", "[1]", "[M]x"), _of(_norm, 1), _calls(), 1e-5),
    "logarithm of powers of rows": Case(
        _reduced("tcp.reduce_logsumexp", "[1]", "[M]x"), _powers, [*_calls(), [_infinite()]], 1e-5, columns=FEW
    ),
    "length of all": Case(
        _reduced("tcp.reduce_l2", "[0, 1]", "", "f64"), _of(_norm, (0, 1)), _calls("float64"), 1e-12, columns=FEW
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns() -> None:
    check_columns(CASES)


def test_variance_far_from_zero() -> None:
    """The mean is known before differences are squared: no digit is lost to it."""
    payload = "func @f(%x: tensor<[N]xf32>) -> tensor<f32> symbols [N] {\n"
    payload += "  %v = tcp.reduce_variance(%x) {dims = [0]} : tensor<f32>\n  tcp.return(%v)\n}\n"
    x = (np.random.default_rng(0).standard_normal(1000) + 4096).astype(np.float32)
    found = run_guarded(tcpx.compile(tcpx.parse(payload)), x)[0]
    assert found == pytest.approx(np.var(x.astype(np.float64)), rel=1e-5)


ONES = """func @f(%x: tensor<[M]x[N]xDTYPE>) -> tensor<[M]xDTYPE> symbols [M, N] {
  %v = OPERATION : tensor<[M]xDTYPE>
  tcp.return(%v)
}
"""


SUMS = ("tcp.reduce_sum(%x) {dims = [1]}", 'tcp.contract(%x, %x) {lhs = ["m", "k"], rhs = ["m", "k"], out = ["m"]}')


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("operation", SUMS)
def test_16_bits_are_added_up_in_32(dtype: str, operation: str) -> None:
    """A thousand ones are a thousand, however the sum is cut; bf16 counts to 256 and f16 to 2048 by itself."""
    module = tcpx.parse(ONES.replace("OPERATION", operation).replace("DTYPE", dtype))
    x = np.ones((3, 3000), np.float16 if dtype == "f16" else ml_dtypes.bfloat16)
    wanted = np.full(3, 3000).astype(x.dtype)
    reduced = "d1" if "reduce" in operation else "k"
    steps = f'let v = match one "v" in root\nlet i = tile(v, [{reduced}: 7])'
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{steps}\n}}\n")
    assert np.array_equal(tcpx.evaluate(module, x), wanted)
    for schedule in (None, program):
        assert np.array_equal(tcpx.compile(module, schedule)(x), wanted)
    run = tcpx.apply_schedule(module, program)
    assert any(op.name == "v" and "f32" in str(op.result.type) for op in run.module.walk() if op.results)


def test_prefixes_of_16_bits_are_added_up_in_32() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<[N]xbf16>) -> (tensor<[N]xbf16>, tensor<bf16>) symbols [N] {\n"
        "  %v, %t = tcp.cumsum(%x) {dim = 0} : tensor<[N]xbf16>, tensor<bf16>\n  tcp.return(%v, %t)\n}\n"
    )
    x = np.ones(1000, ml_dtypes.bfloat16)
    wanted = np.arange(1, 1001).astype(ml_dtypes.bfloat16)
    for found in (tcpx.evaluate(module, x), run_guarded(tcpx.compile(module), x)):
        assert np.array_equal(found[0], wanted)
        assert found[1] == wanted[-1]


ORDER = "`dims` names dims of the operand, in their order"
REFUSED = [
    ("tcp.reduce_mean", "[M]xf32", "{dims = [-1]}", ORDER, "{dims = [1]}"),
    ("tcp.reduce_mean", "[M]xf32", "{dims = [1, 0]}", ORDER, "{dims = [0, 1]}"),
    ("tcp.reduce_mean", "[M]xsi32", "{dims = [1]}", "the result is a float", None),
    (
        "tcp.reduce_l2",
        "[N]xf32",
        "{dims = [1]}",
        "`result` has another shape than the dims it goes along",
        "write `: tensor<[M]xf32>`",
    ),
]


@pytest.mark.parametrize(("opcode", "result", "given", "message", "fix"), REFUSED)
def test_what_is_refused(opcode: str, result: str, given: str, message: str, fix: str | None) -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(
            f"func @f(%x: tensor<[M]x[N]xf32>) -> tensor<{result}> symbols [M, N] {{\n"
            f"  %v = {opcode}(%x) {given} : tensor<{result}>\n  tcp.return(%v)\n}}\n"
        )
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.fix) == (f"%v ({opcode}): {message}", fix)
