"""Rows that one or two vectors hold, by the default schedule: several at a time, with lanes across the shorter ones."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import Target
from tcpx.verification.vector_rows.meaning import numpy_dtype
from tests.guard_pages import run_guarded

ROWS = """\
func @{name}(%x: tensor<[M]x{k}x{dtype}>) -> {results} symbols [M] {{
  {body}
}}
"""
ALONG = "{op}(%x) {{{dims}}} : {results}"
CASES = [
    *(("tcp.reduce_sum", k, "f32") for k in (2, 5, 8, 32)),
    *(("tcp.reduce_max", k, dtype) for k, dtype in ((4, "f64"), (4, "bf16"), (8, "si8"))),
    *(("tcp.softmax", k, "f32") for k in (4, 16)),
    *(("tcp.layer_norm", k, "f32") for k in (4,)),
    ("tcp.reduce_argmax", 4, "f32"),
]
SIZES = (0, 1, 7, 16, 37, 64)


def payload(op: str, k: int, dtype: str) -> str:
    row, whole = f"tensor<[M]x{dtype}>", f"tensor<[M]x{k}x{dtype}>"
    name = f"{op.removeprefix('tcp.')}_{k}_{dtype}"
    results, made, dims = row, "%r", "dims = [1]"
    if op == "tcp.reduce_argmax":
        results, made = f"{row}, tensor<[M]xsi64>", "%r, %i"
    elif op == "tcp.softmax":
        results, dims = whole, "dim = 1"
    elif op == "tcp.layer_norm":
        results, dims = whole, "dims = [1], epsilon = 0.001"
    body = f"{made} = {ALONG.format(op=op, dims=dims, results=results)}\n  tcp.return({made})"
    return ROWS.format(name=name, k=k, dtype=dtype, results=f"({results})", body=body)


def test_numbers(target: Target) -> None:
    modules = [tcpx.parse(payload(*case)) for case in CASES]
    kernels = tcpx.compile_many([tcpx.CompileRequest(module) for module in modules], target=target)
    random = np.random.default_rng(3)
    for (op, k, dtype), module, kernel in zip(CASES, modules, kernels, strict=True):
        for m in SIZES:
            given = random.integers(-9, 9, (m, k))
            x = (abs(given) if dtype.startswith("u") else given).astype(numpy_dtype(dtype))
            wanted = tcpx.evaluate(module, x)
            for found, value in zip(
                run_guarded(kernel, x), wanted if isinstance(wanted, tuple) else (wanted,), strict=True
            ):
                if op in ("tcp.softmax", "tcp.layer_norm"):
                    np.testing.assert_allclose(
                        found.astype(np.float64),
                        value.astype(np.float64),
                        rtol=1e-5,
                        atol=1e-6,
                        err_msg=f"{op} {k} {dtype} {m}",
                    )
                else:
                    np.testing.assert_array_equal(found, value, err_msg=f"{op} {k} {dtype} {m}")


@pytest.mark.parametrize("op", ["tcp.reduce_sum", "tcp.softmax"])
def test_whole_vectors_are_read_and_written(op: str) -> None:
    source = tcpx.compile(tcpx.parse(payload(op, 8, "f32")), target="x86_avx512").c_source
    loop = source[source.index("M - rest") :].split("\n  }\n")[0]
    assert loop.count("_mm512_loadu_ps(") == 8
    assert loop.count("_mm512_storeu_ps(") == (1 if op == "tcp.reduce_sum" else 8)
    assert loop.count("_mm512_unpack") + loop.count("_mm512_shuffle") == (32 if op == "tcp.reduce_sum" else 64)
