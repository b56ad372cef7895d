"""What stands behind and before a product under the default schedule: computed with the tile that is in registers, or
while a factor is packed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx import Kernel, Module
from tcpx.payload.types import dtype_of, shape_of
from tcpx.target import Target
from tests.guard_pages import run_guarded

OUT = "tensor<[M]x[N]xf32>"
ARGUMENTS = {"b": "tensor<[N]xf32>", "c": "tensor<[M]xf32>", "r": OUT, "h": "tensor<[M]x[K]xf16>"}
MM = f"%mm = tcp.matmul(%x, %w) : {OUT}\n"
ROWS = f"%bb = tcp.broadcast(%b) {{dims = [1]}} : {OUT}\n"
COLUMNS = f"%cc = tcp.broadcast(%c) {{dims = [0]}} : {OUT}\n"
ZERO = f"%z = tcp.fill {{value = 0.0}} : {OUT}\n"
HALF = f"%half = tcp.const {{value = 0.5}} : f32\n%hh = tcp.broadcast(%half) {{dims = []}} : {OUT}\n"
BIASED = f"{MM}{ROWS}%s = tcp.add(%mm, %bb) : {OUT}\n"
BODIES = {
    "bias": BIASED + "tcp.return(%s)",
    "bias_as_init": f"{ROWS}%s = tcp.matmul(%x, %w, init = %bb) : {OUT}\ntcp.return(%s)",
    "bias_as_init_relu": f"{ROWS}%s = tcp.matmul(%x, %w, init = %bb) : {OUT}\n{ZERO}%y = tcp.max(%s, %z) : {OUT}\n"
    "tcp.return(%y)",
    "residual": f"{MM}%s = tcp.add(%mm, %r) : {OUT}\ntcp.return(%s)",
    "relu": f"{BIASED}{ZERO}%y = tcp.max(%s, %z) : {OUT}\ntcp.return(%y)",
    "gelu": f"{BIASED}%y = tcp.gelu(%s) : {OUT}\ntcp.return(%y)",
    "gelu_tanh": f'{BIASED}%y = tcp.gelu(%s) {{approximate = "tanh"}} : {OUT}\ntcp.return(%y)',
    "silu_of_parts": f"{BIASED}%g = tcp.sigmoid(%s) : {OUT}\n%y = tcp.mul(%s, %g) : {OUT}\ntcp.return(%y)",
    "gelu_relu": f"{BIASED}{ZERO}%g = tcp.gelu(%s) : {OUT}\n%y = tcp.max(%g, %z) : {OUT}\ntcp.return(%y)",
    "silu_of_product": f"{MM}%g = tcp.sigmoid(%mm) : {OUT}\n%y = tcp.mul(%mm, %g) : {OUT}\ntcp.return(%y)",
    "scale": f"{MM}{HALF}%y = tcp.mul(%mm, %hh) : {OUT}\ntcp.return(%y)",
    "cast": f"{BIASED}%y = tcp.cast(%s) : tensor<[M]x[N]xbf16>\ntcp.return(%y)",
    "chain": f"{BIASED}{COLUMNS}%t = tcp.mul(%s, %cc) : {OUT}\n%g = tcp.silu(%t) : {OUT}\n"
    f"%y = tcp.add(%g, %r) : {OUT}\ntcp.return(%y)",
    "cast_before": f"%f = tcp.cast(%h) : tensor<[M]x[K]xf32>\n%s = tcp.matmul(%f, %w) : {OUT}\ntcp.return(%s)",
    "scale_before": "%cc = tcp.broadcast(%c) {dims = [0]} : tensor<[M]x[K]xf32>\n"
    f"%f = tcp.mul(%x, %cc) : tensor<[M]x[K]xf32>\n%s = tcp.matmul(%f, %w) : {OUT}\ntcp.return(%s)",
}
N, K = 33, 530
ROW_COUNTS = (0, 1, 5, 523)


def payload(name: str, sizes: dict[str, int] | None = None) -> str:
    """The function of one body, for any M, or for these sizes."""
    body = BODIES[name]
    used = [f"%{key}: {type_}" for key, type_ in ARGUMENTS.items() if re.search(rf"%{key}\b", body)]
    given = ["%x: tensor<[M]x[K]xf32>"] if re.search(r"%x\b", body) else []
    out = "tensor<[M]x[N]xbf16>" if name == "cast" else OUT
    head = f"func @{name}({', '.join([*given, '%w: tensor<[K]x[N]xf32>', *used])}) -> {out}"
    text = f"{head}{'' if sizes else ' symbols [M]'} {{\n{body}\n}}\n"
    for symbol, size in (sizes or {"N": N, "K": K}).items():
        text = text.replace(f"[{symbol}]", str(size))
    return text


def check(kernel: Kernel, module: Module, m: int, name: str) -> None:
    """Against the evaluator; what is summed is exact."""
    random = np.random.default_rng(2)
    types = [argument.type for argument in module.main.args]
    shapes = [[d if isinstance(d, int) else m for d in shape_of(type_)] for type_ in types]
    given = [
        (random.integers(-4, 5, shape) / 4).astype(dtype_of(type_).numpy)
        for shape, type_ in zip(shapes, types, strict=True)
    ]
    (found,) = run_guarded(kernel, *given)
    wanted = np.asarray(tcpx.evaluate(module, *given)).astype(np.float64)
    tolerance = 2**-7 if name == "cast" else 2e-5
    np.testing.assert_allclose(
        found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance, err_msg=f"{name}, {m} rows"
    )


def test_any_number_of_rows(target: Target) -> None:
    modules = [tcpx.parse(payload(name)) for name in BODIES]
    kernels = tcpx.compile_many([tcpx.CompileRequest(m) for m in modules], target=target, threads=2)
    for name, module, kernel in zip(BODIES, modules, kernels, strict=True):
        for m in ROW_COUNTS:
            check(kernel, module, m, name)


@pytest.mark.parametrize("sizes", [{"M": 30, "N": 70, "K": 33}, {"M": 600, "N": 96, "K": 40}], ids=["small", "packed"])
@pytest.mark.parametrize("name", [n for n in BODIES if not n.endswith("_before")])
def test_there_is_no_pass_over_the_result(name: str, sizes: dict[str, int]) -> None:
    source = tcpx.emit(tcpx.parse(payload(name, sizes)), target="x86_avx512").c_source
    assert not re.search(r"^ *\*\(out", source, re.MULTILINE)
    assert "workspace +" not in source or sizes["M"] > 512


def test_a_long_chain_is_written_once_for_each_way_to_the_sums() -> None:
    text = payload("gelu").replace("symbols [M]", "symbols [M, N, K]").replace(str(N), "[N]").replace(str(K), "[K]")
    source = tcpx.emit(tcpx.parse(text), target="x86_avx512").c_source
    assert 5 <= source.count("_div_ps") == source.count("_buf[")


def test_a_cast_is_part_of_packing() -> None:
    text = payload("cast_before", {"M": 600, "N": 96, "K": 40})
    schedule = tcpx.parse_schedule(
        'language 1\nimport "lib/gemm.tcps" as gemm\nschedule s(root: func) {\n  let mm = match one contract in root\n'
        "  gemm.packed_gemm(mm, epilogue(mm))\n}"
    )
    source = tcpx.emit(tcpx.parse(text), schedule, target="x86_avx512").c_source
    assert source.index("/* s.lhs/pack1") < source.index("/* f/d0")


def test_every_version_of_a_kernel_has_a_long_epilogue() -> None:
    """All versions of a symbolic product, lane by lane where the target has no conversion, are within the limits."""
    text = (
        "func @long(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf16> symbols [K, M, N] {\n"
        "  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>\n  %g = tcp.gelu(%mm) : tensor<[M]x[N]xf32>\n"
        "  %y = tcp.cast(%g) : tensor<[M]x[N]xf16>\n  tcp.return(%y)\n}\n"
    )
    assert "uint16_t *restrict" in tcpx.emit(tcpx.parse(text), target="generic").c_source


@pytest.mark.parametrize("columns", [3, 8, 20])
def test_a_result_in_a_wider_type(target: Target, columns: int) -> None:
    text = (
        f"func @wider(%x: tensor<[M]x8xf32>, %w: tensor<8x{columns}xf32>) -> tensor<[M]x{columns}xf64> symbols [M] {{\n"
        f"  %mm = tcp.matmul(%x, %w) : tensor<[M]x{columns}xf32>\n"
        f"  %y = tcp.cast(%mm) : tensor<[M]x{columns}xf64>\n  tcp.return(%y)\n}}\n"
    )
    random = np.random.default_rng(1)
    x, w = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((13, 8), (8, columns)))
    (found,) = run_guarded(tcpx.compile(tcpx.parse(text), target=target), x, w)
    np.testing.assert_array_equal(found, (x @ w).astype(np.float64))
