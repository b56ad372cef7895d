"""Activations: the emitted code against the functions in wider arithmetic, on every target; attributes; decompose."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.types import dtype_of

OPS = {
    "sigmoid": "",
    "silu": "",
    "gelu": "",
    "gelu_tanh": 'approximate = "tanh"',
}
TARGETS = ("generic", "x86_avx2", "x86_avx512")
ULPS = {"f32": 4, "f64": 8}
FAST = {"sigmoid": 4e-6, "silu": 3e-5, "gelu": 1.5e-4, "gelu_tanh": 1.5e-4}


def payload(name: str, dtype: str, accuracy: str) -> str:
    held = ", ".join(filter(None, (OPS[name], f'accuracy = "{accuracy}"')))
    type_ = f"tensor<[N]x{dtype}>"
    op = name.removesuffix("_tanh")
    return (
        f"func @{name}_{dtype}_{accuracy}(%x: {type_}) -> {type_} symbols [N] {{\n"
        f"  %y = tcp.{op}(%x) {{{held}}} : {type_}\n  tcp.return(%y)\n}}\n"
    )


def points(dtype: str) -> np.ndarray:
    random = np.random.default_rng(3)
    widest, least = (14.0, -95.0) if dtype == "f32" else (38.0, -720.0)
    return np.concatenate(
        [
            random.uniform(-widest, widest, 4000),
            random.uniform(-3, 3, 2000),
            random.uniform(least, -10, 2000),
            10.0 ** random.uniform(-30, 0, 500),
            -(10.0 ** random.uniform(-30, 0, 500)),
            [0.0, -0.0, 1e30, -1e30, 60.5, -60.5],
        ]
    ).astype(np.float32 if dtype == "f32" else np.float64)


CASES = tuple(itertools.product(OPS, ("f32", "f64"), ("accurate", "fast")))


@pytest.mark.parametrize("target", TARGETS)
def test_values(target: str) -> None:
    schedule = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) {\n  let y = match one elementwise in root\n"
        "  let i = tile(y, [d0: lanes(dtype(y.out))], tail: pad)\n  vectorize(i)\n}"
    )
    modules = [tcpx.parse(payload(*case)) for case in CASES]
    kernels = tcpx.compile_many([tcpx.CompileRequest(m, schedule) for m in modules], target=target)
    for (name, dtype, accuracy), module, kernel in zip(CASES, modules, kernels, strict=True):
        x = points(dtype)
        wide = tcpx.parse(payload(name, "f64", accuracy))
        wanted = np.asarray(tcpx.evaluate(wide, x.astype(np.float64)), dtype=np.float64)
        found = np.asarray(kernel(x), dtype=np.float64)
        label = f"{name} {dtype} {accuracy}"
        if accuracy == "fast":
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=FAST[name], err_msg=label)
        else:
            unit = np.spacing(np.abs(wanted).astype(x.dtype)).astype(np.float64)
            if dtype == "f64" or target == "generic":  # what is exponentiated is rounded: there, or in the reference
                unit *= 1 + np.minimum(x.astype(np.float64) ** 2, 1600)
            least = float(np.finfo(x.dtype).tiny)  # below, nothing is computed
            lost = x[(found == 0) & (np.abs(wanted) > 1.001 * least)]
            assert not lost.size, f"{label} of {lost} is 0"
            error = np.abs(found.astype(np.float64) - wanted) - least
            worst = int(np.argmax(error / unit))
            assert error[worst] <= ULPS[dtype] * unit[worst], f"{label} at {x[worst]}: {found[worst]}, {wanted[worst]}"
        narrow = np.asarray(tcpx.evaluate(module, x))
        assert narrow.dtype == x.dtype


@pytest.mark.parametrize("target", TARGETS)
def test_ends(target: str) -> None:
    kernels = tcpx.compile_many([tcpx.CompileRequest(tcpx.parse(payload(*case))) for case in CASES], target=target)
    for (name, dtype, accuracy), kernel in zip(CASES, kernels, strict=True):
        x = np.array([np.inf, -np.inf, np.nan], np.float32 if dtype == "f32" else np.float64)
        high, low, nothing = np.asarray(kernel(x))
        assert high == (1 if name == "sigmoid" else np.inf)
        assert abs(low) < 2e-4
        assert np.isnan(nothing), (name, dtype, accuracy)


def test_attributes_are_checked() -> None:
    with pytest.raises(VerifyError) as caught:
        tcpx.parse(payload("gelu", "f32", "exact"))
    assert caught.value.diagnostic.required == "accurate | fast"
    with pytest.raises(VerifyError) as caught:
        tcpx.parse(payload("gelu_tanh", "f32", "fast").replace('"tanh"', '"erf"'))
    assert caught.value.diagnostic.required == "none | tanh"


def test_decompose() -> None:
    schedule = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) {\n  let y = decompose(match one elementwise in root)\n"
        '  require y.opcode == "tcp.select"\n}'
    )
    module = tcpx.parse(payload("sigmoid", "f32", "accurate"))
    x = np.linspace(-5, 5, 11, dtype=np.float32)
    made = tcpx.apply_schedule(module, schedule).module
    found, wanted = (np.asarray(tcpx.evaluate(m, x), dtype=np.float32) for m in (made, module))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "x"), [("f32", -91.8), ("f64", -714.9), ("bf16", -91.5)])
def test_what_is_a_normal_number_is_not_0(dtype: str, x: float) -> None:
    """Also where e**x by itself is subnormal, and of a gate. The evaluator had 0 of f64."""
    type_ = f"tensor<{dtype}>"
    module = tcpx.parse(
        f"func @f(%x: {type_}, %one: {type_}) -> ({type_}, {type_}) {{\n  %y = tcp.silu(%x) : {type_}\n"
        f"  %z = tcp.swiglu(%x, %one) : {type_}\n  tcp.return(%y, %z)\n}}"
    )
    scalar = dtype_of(module.main.inputs[0].type).numpy
    arguments = np.array(x, scalar), np.array(1, scalar)
    exact = float(arguments[0]) * np.exp(float(arguments[0]))
    kernel = tcpx.compile(module, target="generic")
    for found in (*kernel(*arguments), *tcpx.evaluate(module, *arguments)):
        np.testing.assert_allclose(float(found), exact, rtol=5e-3 if dtype == "bf16" else 1e-6)
