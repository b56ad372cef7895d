"""Products of bytes, halves, f16 and bf16 by the default schedule: every target, odd and empty sizes, guarded pages."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.target import Target
from tests.guard_pages import run_guarded
from tests.optional_tools import require_cpu
from tests.tolerance import Array, Bounded, assert_close

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = {
    "u8s8": ("ui8", "si8", "si32"),
    "s8u8": ("si8", "ui8", "si32"),
    "s8s8": ("si8", "si8", "si32"),
    "u8u8": ("ui8", "ui8", "si32"),
    "s16s16": ("si16", "si16", "si32"),
    "s16u8": ("si16", "ui8", "si32"),
    "bf16": ("bf16", "bf16", "f32"),
    "f16": ("f16", "f16", "f32"),
    "f32bf16": ("f32", "bf16", "f32"),
    "f16f32": ("f16", "f32", "f32"),
}
TRANSPOSED = ("u8s8", "s8s8", "s16u8", "bf16", "f16")
FLOATS = {"f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32)}
INTEGERS = {"ui8": np.uint8, "si8": np.int8, "si16": np.int16}
ROWS, DEPTHS, COLUMNS = (0, 1, 3, 9, 17, 65), (0, 1, 2, 3, 5, 17, 64, 65, 1030), (0, 1, 3, 17, 65)
TRIPLES = [(m, k, n) for m in ROWS for k in DEPTHS for n in COLUMNS]
SIZES = [*TRIPLES[::7], (130, 5, 65), (9, 2051, 3), (121, 4100, 17)]
STATIC = ((65, 17, 65), (12, 3, 130), (1, 1030, 17), (17, 4, 64))
TINY = float(np.finfo(np.float32).tiny)


def product(dtypes: tuple[str, str, str], sizes: tuple[int, int, int] | None = None, transposed: bool = False) -> str:
    """A product of the dtypes, of symbolic or these sizes; `transposed`: of a right factor stored by columns."""
    m, k, n = map(str, sizes) if sizes else ("[M]", "[K]", "[N]")
    lhs, rhs, out = dtypes
    right, names = (f"{n}x{k}", '["n", "k"]') if transposed else (f"{k}x{n}", '["k", "n"]')
    symbols = "" if sizes else " symbols [M: 0.., K: 0.., N: 0..]"
    name = "_".join((lhs, rhs, *map(str, sizes or ()), "t" if transposed else "n"))
    return (
        f"func @{name}(%x: tensor<{m}x{k}x{lhs}>, %w: tensor<{right}x{rhs}>) -> tensor<{m}x{n}x{out}>{symbols} {{\n"
        f'  %mm = tcp.contract(%x, %w) {{lhs = ["m", "k"], rhs = {names}, out = ["m", "n"]}} : tensor<{m}x{n}x{out}>\n'
        "  tcp.return(%mm)\n}\n"
    )


def values(random: np.random.Generator, shape: tuple[int, int], dtype: str) -> Array:
    """All integers, or normal numbers."""
    if dtype in FLOATS:
        return random.standard_normal(shape).astype(FLOATS[dtype])
    limits = np.iinfo(INTEGERS[dtype])
    return random.integers(limits.min, limits.max + 1, shape).astype(limits.dtype)


def check(kernel: tcpx.Kernel, dtypes: tuple[str, str, str], sizes: tuple[int, int, int], transposed: bool) -> None:
    random = np.random.default_rng(sum(sizes))
    m, k, n = sizes
    x, w = values(random, (m, k), dtypes[0]), values(random, (k, n), dtypes[1])
    (found,) = run_guarded(kernel, x, np.ascontiguousarray(w.T) if transposed else w)
    if dtypes[2] == "si32":
        wanted = (x.astype(np.int64) @ w.astype(np.int64)).astype(np.int32)  # sums of halves wrap around
        np.testing.assert_array_equal(found, wanted, err_msg=f"{dtypes} {sizes}")
    else:
        assert_close(found, Bounded.of(x).matmul(Bounded.of(w)), f"{dtypes} {sizes}")


@pytest.mark.parametrize("transposed", [False, True])
def test_symbolic_sizes(target: Target, transposed: bool) -> None:
    chosen = [d for name, d in DTYPES.items() if not transposed or name in TRANSPOSED]
    requests = [tcpx.CompileRequest(tcpx.parse(product(d, transposed=transposed))) for d in chosen]
    for dtypes, kernel in zip(chosen, tcpx.compile_many(requests, target=target, threads=2), strict=True):
        for sizes in SIZES:
            check(kernel, dtypes, sizes, transposed)


def test_both_factors_stored_by_columns(target: Target) -> None:
    text = """func @f(%x: tensor<[K]x[M]xui8>, %w: tensor<[N]x[K]xsi8>) -> tensor<[M]x[N]xsi32> symbols [M, N, K] {
  %mm = tcp.contract(%x, %w) {lhs = ["k", "m"], rhs = ["n", "k"], out = ["m", "n"]} : tensor<[M]x[N]xsi32>
  tcp.return(%mm)
}
"""
    kernel = tcpx.compile(tcpx.parse(text), target=target, threads=2)
    random = np.random.default_rng(7)
    for m, k, n in ((1, 0, 3), (3, 5, 2), (9, 65, 17), (3, 2050, 5), (130, 33, 65)):
        x, w = values(random, (k, m), "ui8"), values(random, (n, k), "si8")
        (found,) = run_guarded(kernel, x, w)
        np.testing.assert_array_equal(found, x.T.astype(np.int64) @ w.T.astype(np.int64))


def test_batches(target: Target) -> None:
    text = """func @b(%x: tensor<[B]x[M]x[K]xsi8>, %w: tensor<[B]x[N]x[K]xsi8>) -> tensor<[B]x[M]x[N]xsi32> symbols [B: 0.., M: 0.., K: 0.., N: 0..] {
  %mm = tcp.contract(%x, %w) {lhs = ["b", "m", "k"], rhs = ["b", "n", "k"], out = ["b", "m", "n"]} : tensor<[B]x[M]x[N]xsi32>
  tcp.return(%mm)
}
"""  # noqa: E501
    kernel = tcpx.compile(tcpx.parse(text), target=target, threads=2)
    random = np.random.default_rng(5)
    for b, m, k, n in ((0, 3, 4, 5), (1, 17, 65, 33), (3, 5, 3, 1), (2, 9, 0, 17), (4, 1, 9, 65)):
        x, w = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((b, m, k), (b, n, k)))
        (found,) = run_guarded(kernel, x, w)
        np.testing.assert_array_equal(found, np.einsum("bmk,bnk->bmn", x.astype(np.int32), w.astype(np.int32)))


def test_static_sizes(target: Target) -> None:
    cases = [(d, s) for name, d in DTYPES.items() for s in STATIC[:: 1 if name in TRANSPOSED else 2]]
    requests = [tcpx.CompileRequest(tcpx.parse(product(*case))) for case in cases]
    for (dtypes, sizes), kernel in zip(cases, tcpx.compile_many(requests, target=target), strict=True):
        check(kernel, dtypes, sizes, transposed=False)


def quantized(zero_x: str, zero_w: str, dtype: str) -> str:
    """A product of quantized factors, quantized again by a scale for each column."""
    return f"""func @q_{dtype}_{"fill" in zero_x:d}{"fill" in zero_w:d}(%x: tensor<[M]x[K]x{dtype}>, %w: tensor<[K]x[N]xsi8>, %zx: tensor<si32>, %zw: tensor<[N]xsi32>, %scale: tensor<[N]xf32>) -> tensor<[M]x[N]xsi8> symbols [M: 0.., K: 0.., N: 0..] {{
  %xw = tcp.cast(%x) : tensor<[M]x[K]xsi32>
  %zxs = {zero_x} : tensor<[M]x[K]xsi32>
  %xo = tcp.sub(%xw, %zxs) : tensor<[M]x[K]xsi32>
  %ww = tcp.cast(%w) : tensor<[K]x[N]xsi32>
  %zws = {zero_w} : tensor<[K]x[N]xsi32>
  %wo = tcp.sub(%ww, %zws) : tensor<[K]x[N]xsi32>
  %mm = tcp.matmul(%xo, %wo) : tensor<[M]x[N]xsi32>
  %wide = tcp.cast(%mm) : tensor<[M]x[N]xf32>
  %scales = tcp.broadcast(%scale) {{dims = [1]}} : tensor<[M]x[N]xf32>
  %scaled = tcp.mul(%wide, %scales) : tensor<[M]x[N]xf32>
  %rounded = tcp.round(%scaled) : tensor<[M]x[N]xf32>
  %y = tcp.cast(%rounded) : tensor<[M]x[N]xsi8>
  tcp.return(%y)
}}
"""  # noqa: E501


ZEROS = (
    ("tcp.fill {value = 7}", "tcp.fill {value = 3}"),
    ("tcp.broadcast(%zx) {dims = []}", "tcp.broadcast(%zw) {dims = [1]}"),
)


@pytest.mark.parametrize("threads", [1, 2])
def test_zero_points_and_scales(target: Target, threads: int) -> None:
    cases = list(zip(ZEROS, ("si8", "ui8"), strict=True))
    requests = [tcpx.CompileRequest(tcpx.parse(quantized(*zeros, dtype))) for zeros, dtype in cases]
    kernels = tcpx.compile_many(requests, target=target, threads=threads)
    for (zeros, dtype), kernel in zip(cases, kernels, strict=True):
        assert "dpbusd" in kernel.c_source or not target.has("avx512_vnni")
        for m, k, n in (*TRIPLES[::19], (65, 130, 65)):
            random = np.random.default_rng(m + k + n)
            x, w = values(random, (m, k), dtype), values(random, (k, n), "si8")
            zx, zw = np.array(100, np.int32), random.integers(-5, 6, n).astype(np.int32)
            scale = (random.random(n) * 1e-3).astype(np.float32)
            (found,) = run_guarded(kernel, x, w, zx, zw, scale)
            left = x.astype(np.int64) - (7 if "fill" in zeros[0] else 100)
            wide = left @ (w.astype(np.int64) - (3 if "fill" in zeros[1] else zw))
            wanted = np.clip(np.rint(wide.astype(np.float32) * scale), -128, 127).astype(np.int8)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{zeros} {dtype} {m} {k} {n}")


@pytest.mark.parametrize("dtype", ["si8", "ui8"])
def test_constant_weights_are_packed_by_the_compiler(target: Target, dtype: str) -> None:
    """Groups of neighbours along k, and the sums that zero points ask for, are constants too."""
    text = f"""func @f(%x: tensor<[M]x67x{dtype}>, %b: tensor<45xsi32>) -> tensor<[M]x45xsi32> symbols [M] {{
  %w = tcp.const {{constant = "w"}} : tensor<67x45xsi8>
  %wide = tcp.cast(%x) : tensor<[M]x67xsi32>
  %z = tcp.fill {{value = 7}} : tensor<[M]x67xsi32>
  %o = tcp.sub(%wide, %z) : tensor<[M]x67xsi32>
  %v = tcp.cast(%w) : tensor<67x45xsi32>
  %mm = tcp.matmul(%o, %v) : tensor<[M]x45xsi32>
  %bs = tcp.broadcast(%b) {{dims = [1]}} : tensor<[M]x45xsi32>
  %y = tcp.add(%mm, %bs) : tensor<[M]x45xsi32>
  tcp.return(%y)
}}
"""
    random = np.random.default_rng(13)
    w, b = values(random, (67, 45), "si8"), random.integers(-9, 9, 45).astype(np.int32)
    kernel = tcpx.compile(tcpx.parse(text, constants=Constants({"w": w})), target=target)
    for m in (0, 1, 8, 9, 130):
        x = values(random, (m, 67), dtype)
        (found,) = run_guarded(kernel, x, b)
        np.testing.assert_array_equal(found, (x.astype(np.int64) - 7) @ w.astype(np.int64) + b, err_msg=str(m))


@pytest.mark.parametrize(("name", "instruction"), [("u8s8", "dpbusd"), ("s8s8", "dpbusd"), ("bf16", "dpbf16")])
def test_the_instruction_is_used(name: str, instruction: str) -> None:
    assert f"_mm512_{instruction}" in tcpx.emit(tcpx.parse(product(DTYPES[name])), target="x86_avx512").c_source


def test_denormals_and_specials_of_bf16(target: Target) -> None:
    """The instruction takes denormals as 0, and gives 0 for them: what that loses is bounded, infinities are kept."""
    kernel = tcpx.compile(tcpx.parse(product(DTYPES["bf16"], (12, 9, 17))), target=target)
    random = np.random.default_rng(3)
    x, w = (random.standard_normal(shape) for shape in ((12, 9), (9, 17)))
    x[::2] *= 1e-39
    x, w = x.astype(BF16), w.astype(BF16)
    (found,) = run_guarded(kernel, x, w)
    wanted = Bounded.of(x).matmul(Bounded.of(w))
    lost = TINY * (np.abs(x.astype(np.float64)).sum(1)[:, None] + np.abs(w.astype(np.float64)).sum(0) + 2 * 9)
    assert_close(found, Bounded(wanted.value, wanted.error + lost))
    x[0, 0], x[1, 1], w[:, 0] = np.inf, np.nan, 1
    (found,) = run_guarded(kernel, x, w)
    assert found[0, 0] == np.inf
    assert np.isnan(found[1, 0])


@pytest.mark.parametrize(("name", "instruction"), [("u8s8", "dpbusd"), ("s8s8", "dpbusd"), ("bf16", "dpbf16")])
def test_a_cast_that_others_read_keeps_no_product_from_reading_what_is_stored(
    target: Target, name: str, instruction: str
) -> None:
    lhs, rhs, wide = DTYPES[name]
    text = f"""func @r_{name}(%x: tensor<[M]x[K]x{lhs}>, %w: tensor<[K]x[N]x{rhs}>) -> (tensor<[M]x[N]x{wide}>, tensor<[M]x{wide}>) symbols [M: 0.., K: 0.., N: 0..] {{
  %a = tcp.cast(%x) : tensor<[M]x[K]x{wide}>
  %b = tcp.cast(%w) : tensor<[K]x[N]x{wide}>
  %mm = tcp.matmul(%a, %b) : tensor<[M]x[N]x{wide}>
  %z = tcp.reduce_sum(%a) {{dims = [1]}} : tensor<[M]x{wide}>
  tcp.return(%mm, %z)
}}
"""  # noqa: E501
    assert f"_mm512_{instruction}" in tcpx.emit(tcpx.parse(text), target="x86_avx512").c_source
    kernel = tcpx.compile(tcpx.parse(text), target=target)
    for m, k, n in TRIPLES[::19]:
        random = np.random.default_rng(m + k + n)
        x, w = values(random, (m, k), lhs), values(random, (k, n), rhs)
        products, sums = run_guarded(kernel, x, w)
        if wide == "si32":
            np.testing.assert_array_equal(products, x.astype(np.int32) @ w.astype(np.int32), err_msg=f"{m} {k} {n}")
            np.testing.assert_array_equal(sums, x.sum(1, np.int32))
        else:
            assert_close(products, Bounded.of(x).matmul(Bounded.of(w)), f"{m} {k} {n}")
            assert_close(sums[:, None], Bounded.of(x).matmul(Bounded.of(np.ones((k, 1), np.float32))), f"{m} {k} {n}")


def test_this_machine_has_the_instructions() -> None:
    require_cpu(("avx512_vnni", "avx512_bf16"), "dot products of bytes and bf16")
    assert tcpx.load_target("native").has("avx512_vnni")
