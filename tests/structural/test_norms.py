"""Normalizations along one dim and several: softmax, layer_norm, rms_norm, their operands that may be left out."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers

SHAPES = ((5, 3, 17), (2, 1, 8), (1, 1, 1), (0, 2, 4))
FEW = ("default", "decomposed")


def _normed(operation: str, dtype: str = "f32", operands: str = "") -> str:
    wide = f"tensor<[B]x[M]x[N]x{dtype}>"
    return (
        f"func @f(%x: {wide}{operands}) -> {wide} symbols [B, M, N] {{\n  %p = tcp.add(%x, %x) : {wide}\n"
        f"  %v = {operation} : {wide}\n  %c = tcp.max(%v, %v) : {wide}\n  tcp.return(%c)\n}}\n"
    )


def _calls(dtype: str = "float32", *operands: tuple[int, ...]) -> list[list[Array]]:
    made = list[list[Array]]()
    for shape in SHAPES:
        held = [numbers(*(shape[k] for k in dims), dtype=dtype, seed=n) for n, dims in enumerate(operands, 1)]
        made.append([numbers(*shape, dtype=dtype), *held])
    return made


def _softmax(x: Array, *dims: int) -> Array:
    y = (x + x).astype(np.float64)
    powers = np.exp(y - np.max(y, dims, keepdims=True, initial=-np.inf))
    return np.asarray(powers / np.sum(powers, dims, keepdims=True))


def _norm(x: Array, dims: tuple[int, ...], epsilon: float = 1e-5, centred: bool = True) -> Array:
    y = (x + x).astype(np.float64)
    y = y - np.mean(y, dims, keepdims=True) if centred else y
    return np.asarray(y / np.sqrt(np.mean(y * y, dims, keepdims=True) + epsilon))


CASES = {
    "softmax of rows": Case(_normed("tcp.softmax(%p) {dim = 2}"), lambda x: [_softmax(x, 2)], _calls(), 1e-6),
    "softmax of planes": Case(
        _normed("tcp.softmax(%p) {dim = [0, 2]}"), lambda x: [_softmax(x, 0, 2)], _calls(), 1e-6, columns=FEW
    ),
    "softmax of bf16": Case(
        _normed("tcp.softmax(%p) {dim = 1}", "bf16"), lambda x: [_softmax(x, 1)], _calls("bfloat16"), 1e-2, columns=FEW
    ),
    "log_softmax of columns": Case(
        _normed("tcp.log_softmax(%p) {dim = 1}"), lambda x: [np.log(_softmax(x, 1))], _calls(), 1e-5, columns=FEW
    ),
    "layer_norm with scale and bias": Case(
        _normed(
            "tcp.layer_norm(%p, bias = %b, scale = %g) {dims = [2]}",
            operands=", %g: tensor<[N]xf32>, %b: tensor<[N]xf32>",
        ),
        lambda x, g, b: [_norm(x, (2,)) * g + b],
        _calls("float32", (2,), (2,)),
        2e-4,
    ),
    "layer_norm of planes with bias": Case(
        _normed("tcp.layer_norm(%p, bias = %b) {dims = [1, 2], epsilon = 0.5}", operands=", %b: tensor<[M]x[N]xf32>"),
        lambda x, b: [_norm(x, (1, 2), 0.5) + b],
        _calls("float32", (1, 2)),
        1e-5,
        columns=FEW,
    ),
    "layer_norm of f16": Case(
        _normed("tcp.layer_norm(%p, scale = %g) {dims = [0], epsilon = 0.125}", "f16", ", %g: tensor<[B]xf16>"),
        lambda x, g: [_norm(x, (0,), 0.125) * g.astype(np.float64)[:, None, None]],
        _calls("float16", (0,)),
        2e-3,
        columns=FEW,
    ),
    "rms_norm with scale": Case(
        _normed("tcp.rms_norm(%p, scale = %g) {dims = [2], epsilon = 1e-6}", "f64", ", %g: tensor<[N]xf64>"),
        lambda x, g: [_norm(x, (2,), 1e-6, False) * g],
        _calls("float64", (2,)),
        1e-9,
    ),
    "rms_norm of planes": Case(
        _normed("tcp.rms_norm(%p) {dims = [0, 2]}"),
        lambda x: [_norm(x, (0, 2), 1e-5, False)],
        _calls(),
        1e-5,
        columns=FEW,
    ),
    "layer_norm of groups": Case(
        _normed("tcp.layer_norm(%p) {dims = [1, 2], parts = [1, 1, 3]}").replace("[N]", "12").replace(", N]", "]"),
        lambda x: [_norm(x.reshape(*x.shape[:2], 3, 4), (1, 3)).reshape(x.shape)],
        [[numbers(b, m, 12)] for b, m, _ in SHAPES],
        2e-4,
    ),
    "layer_norm of groups of all dims, with scale and bias": Case(
        _normed(
            "tcp.layer_norm(%p, scale = %g, bias = %b) {dims = [1, 2], parts = [1, 2, 2]}",
            operands=", %g: tensor<[M]x[N]xf32>, %b: tensor<[M]x[N]xf32>",
        )
        .replace("[M]x[N]", "4x6")
        .replace(", M, N]", "]"),
        lambda x, g, b: [_norm(x.reshape(-1, 2, 2, 2, 3), (2, 4)).reshape(x.shape) * g + b],
        [[numbers(b, 4, 6), numbers(4, 6, seed=1), numbers(4, 6, seed=2)] for b in (5, 1)],
        2e-4,
        columns=FEW,
    ),
    "rms_norm of groups of f16": Case(
        _normed("tcp.rms_norm(%p) {dims = [0, 2], parts = [1, 1, 4]}", "f16").replace("[N]", "12").replace(", N]", "]"),
        lambda x: [_norm(x.reshape(*x.shape[:2], 4, 3), (0, 3), 1e-5, False).reshape(x.shape)],
        [[numbers(b, m, 12, dtype="float16")] for b, m, _ in SHAPES[:2]],
        4e-3,
        columns=FEW,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns() -> None:
    check_columns(CASES)


def test_operands_that_are_left_out_have_names_in_schedules() -> None:
    module = tcpx.parse(CASES["layer_norm of planes with bias"].payload)
    text = 'let v = match one "v" in root\nrequire exists(v.bias) and not exists(v.scale)\nlet i = tile(v, [d0: 2])'
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{text}\nrequire rank(v.bias) == 2\n}}\n")
    assert "tcp.layer_norm(%p.t, bias = %b)" in tcpx.apply_schedule(module, program).module.text()


REFUSED = [
    ("tcp.layer_norm(%x, %g) {dims = [0]}", "%v (tcp.layer_norm): the operation has the wrong number of operands"),
    ("tcp.layer_norm(%x, gain = %g) {dims = [0]}", "tcp.layer_norm has no operand called `gain` here"),
    ("tcp.layer_norm(%x, bias = %g, bias = %g) {dims = [0]}", "tcp.layer_norm has no operand called `bias` here"),
    ("tcp.layer_norm(bias = %g, %x) {dims = [0]}", "an operand stands behind `bias`"),
    ("tcp.rms_norm(%x, scale = %g) {dims = [0, 1]}",
     "%v (tcp.rms_norm): `scale` has another shape than the dims it goes along"),
    ("tcp.rms_norm(%x) {dims = [0], epsilon = -1.0}", "%v (tcp.rms_norm): `epsilon` is below 0"),
    ("tcp.layer_norm(%x) {dims = [0, 1], parts = [2]}",
     "%v (tcp.layer_norm): `parts` has a number for each dim of the operand"),
    ("tcp.layer_norm(%x) {dims = [0, 1], parts = [1, 0]}",
     "%v (tcp.layer_norm): `parts` has a number for each dim of the operand"),
    ("tcp.layer_norm(%x) {dims = [0], parts = [1, 2]}",
     "%v (tcp.layer_norm): only dims that are normalized have parts"),
    ("tcp.rms_norm(%x) {dims = [1], parts = [1, 3]}", "%v (tcp.rms_norm): dim 1 has no 3 equal parts"),
    ("tcp.softmax(%x) {dim = [0, 0]}", "%v (tcp.softmax): `dim` names dims of the operand, in their order"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "message"), REFUSED)
def test_what_is_refused(operation: str, message: str) -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(
            "func @f(%x: tensor<3x4xf32>, %g: tensor<3xf32>) -> tensor<3x4xf32> {\n"
            f"  %v = {operation} : tensor<3x4xf32>\n  tcp.return(%v)\n}}\n"
        )
    assert caught.value.diagnostic.message == message


def test_operands_without_names_are_named_in_the_message() -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(
            "func @f(%x: tensor<3x4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {\n"
            "  %v = tcp.layer_norm(%x, %g, %b) {dims = [1]} : tensor<3x4xf32>\n  tcp.return(%v)\n}\n"
        )
    error = caught.value.diagnostic
    assert (error.required, error.found) == ("operand", "3 operands: %x, %g, %b")
    assert error.fix == "name what may be left out: `scale = %g, bias = %b`"
